"""`python gateway_process.py SOCKET`: gateways by the dozen in one process, each for as long as a connection.

A connection to the socket says in a line of JSON which server is put behind a gateway and how it is shown,
and gets the gateway's URL; the gateway is gone when the connection is closed. A process for each of some
thousand tests would cost an hour, so they share one, and nothing else: each gateway has a configuration, a
folder and a port of its own, and is built of the parts that `toolyard serve` uses.
"""

import asyncio
import json
import os
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from toolyard.app import Gateway, asgi
from toolyard.config import load
from toolyard.edge.http.server import uvicorn_server

NAME = "theirs"
CONFIGURATION = """
[gateway]
view = "{view}"
{more}
state_dir = "{folder}"

[results]
shape = false

[servers.{name}]
url = "{url}"
"""


def configuration(wanted: dict[str, str], folder: str) -> str:
    """Everything that is not said here is as it is by default."""
    view = wanted.get("view", "bare")
    more = f'server = "{NAME}"' if view == "bare" else ""
    return CONFIGURATION.format(view=view, more=more, folder=folder, name=NAME, url=wanted["url"])


@asynccontextmanager
async def gateway(wanted: dict[str, str]) -> AsyncIterator[str]:
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as listener:
        file = Path(folder) / "toolyard.toml"
        file.write_text(configuration(wanted, folder), "utf-8")
        port = listener.getsockname()[1]
        server = uvicorn_server(asgi(Gateway(load(file), os.urandom(32))), "127.0.0.1", port, "error")
        server.config.load()
        server.lifespan = server.config.lifespan_class(server.config)
        await server.startup(sockets=[listener])
        try:
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            await server.shutdown(sockets=[listener])


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        try:
            async with gateway(json.loads(await reader.readline())) as url:
                writer.write(json.dumps({"url": url}).encode() + b"\n")
                await reader.read()
        finally:
            writer.close()


async def main(path: str) -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    serving: set[asyncio.Task[Any]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(serve(reader, writer))
        serving.add(task)
        task.add_done_callback(serving.discard)

    async with await asyncio.start_unix_server(connected, path):
        print("ready", flush=True)
        await ended.wait()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
