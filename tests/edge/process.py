"""`python -m tests.edge.process FD` serves the workshop over HTTP on a socket that the parent has opened."""

import socket
import sys

from tests.edge.workshop import Workshop
from toolyard.edge.http.server import uvicorn_server


def main(fd: int) -> None:
    # The key comes from the environment, as it would on a real machine.
    app = Workshop(key=None).server.asgi()
    uvicorn_server(app, "127.0.0.1", 0).run(sockets=[socket.socket(fileno=fd)])


if __name__ == "__main__":
    main(int(sys.argv[1]))
