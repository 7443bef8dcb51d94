"""A server that nobody vouches for: it speaks MCP until it is told to say something else."""

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Message = dict[str, Any]
Say = Callable[[Message], Iterable[bytes]]
"""From a request to the bytes of the whole HTTP answer."""

TOOL: Message = {"name": "t", "inputSchema": {"type": "object", "properties": {"a": {"type": "string"}}}}


def answer(message: Message, result: Message, *headers: str) -> list[bytes]:
    body = {"jsonrpc": "2.0", "id": message["id"], "result": {"resultType": "complete"} | result}
    return [head("application/json", *headers), json.dumps(body).encode()]


def fine(message: Message) -> list[bytes]:
    return answer(message, {"content": [{"type": "text", "text": "fine"}]})


def streamed(message: Message) -> list[bytes]:
    """The same as a stream, which is what a stream is taken up again by."""
    result = {"content": [{"type": "text", "text": "fine"}]}
    return stream(event({"id": message["id"], "result": result}))


def head(kind: str, *headers: str) -> bytes:
    lines = ["HTTP/1.1 200 OK", f"Content-Type: {kind}", "Connection: close", *headers]
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode("latin-1")


def stream(*events: bytes) -> list[bytes]:
    return [head("text/event-stream"), *(b"%s\n\n" % event for event in events)]


def event(message: Message) -> bytes:
    return b"data: " + json.dumps({"jsonrpc": "2.0"} | message).encode()


def modern(message: Message) -> Iterable[bytes]:
    if message["method"] == "server/discover":
        return answer(message, {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}})
    return answer(message, {"tools": [TOOL]}) if message["method"] == "tools/list" else fine(message)


def legacy(message: Message) -> Iterable[bytes]:
    if message["method"] == "server/discover":
        return [b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"]
    if message["method"] == "initialize":
        return answer(message, {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}})
    return modern(message)


@contextmanager
def stranger(usual: Say, **unusual: Say) -> Iterator[str]:
    """Its address. `unusual` is by method, with `_` for `/`; `GET` is for streams that are taken up again."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if "id" not in message or "method" not in message:
                self._write([b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"])
            else:
                self._write(unusual.get(message["method"].replace("/", "_"), usual)(message))

        def do_GET(self) -> None:
            if "last-event-id" not in self.headers:  # the session's own stream, which it has not
                self._write(
                    [b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"]
                )
                return
            # The bytes of the header as they came: http.server reads them as Latin-1.
            id = self.headers["last-event-id"].encode("latin-1").decode()
            self._write(unusual["GET"]({"id": id}))

        def _write(self, pieces: Iterable[bytes]) -> None:
            try:
                for piece in pieces:
                    self.wfile.write(piece)
            except ConnectionError:  # the command has had enough
                pass
            self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
