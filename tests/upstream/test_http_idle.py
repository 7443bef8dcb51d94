"""Connections that a server closes while they are idle, at the very moment when one of them is needed."""

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from tests.app.speaker import MODERN, tool
from tests.app.yard import at, yard
from toolyard import Client

ECHO = "mcp__up__echo"


class Closer:
    """A modern server that closes its idle connections when it is told to, before anybody can notice."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections: list[socket.socket] = []
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/mcp"
        self.calls: list[str] = []
        """The texts of the calls that arrived."""
        self.dies = False
        """Ends the next call's connection in the place of an answer."""
        self._threads: list[threading.Thread] = []
        self._run(self._accept)

    def _run(self, work: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=work, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def close_idle(self) -> int:
        """How many. When this returns, their ends are with the client's system already."""
        connections, self._connections = self._connections, []
        open = [connection for connection in connections if connection.fileno() >= 0]
        for connection in open:
            connection.shutdown(socket.SHUT_RDWR)
        return len(open)

    def close(self) -> None:
        """Returns when its threads have ended, and their descriptors are closed."""
        for line in (self._listener, *self._connections):
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._connections.append(connection)
                self._run(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as requests, suppress(OSError):
            while requests.readline().strip():
                headers = dict[bytes, bytes]()
                while line := requests.readline().strip():
                    name, _, value = line.partition(b":")
                    headers[name.lower()] = value.strip()
                message = json.loads(requests.read(int(headers[b"content-length"])))
                if "text" in message.get("params", {}).get("arguments", {}):
                    self.calls.append(message["params"]["arguments"]["text"])
                    if self.dies:
                        return
                body = json.dumps({"jsonrpc": "2.0", "id": message.get("id"), **answer(message)}).encode()
                head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                connection.sendall(head % len(body) + body)


def answer(message: dict[str, Any]) -> dict[str, Any]:
    done = {"resultType": "complete"}
    match message["method"]:
        case "server/discover":
            return {"result": {**done, "supportedVersions": [MODERN], "capabilities": {"tools": {}}}}
        case "tools/list":
            return {"result": {**done, "tools": [tool("echo")]}}
        case "tools/call":
            text = message["params"]["arguments"]["text"]
            return {"result": {**done, "content": [{"type": "text", "text": text}]}}
        case other:
            return {"error": {"code": -32601, "message": f"no {other}"}}


@pytest.fixture
def closer() -> Iterator[Closer]:
    server = Closer()
    yield server
    server.close()


async def test_a_call_that_meets_a_connection_closed_while_idle_arrives_and_arrives_once(closer: Closer):
    async with yard(at(closer.url, retries=0)) as front, Client(front.gateway.view()) as client:
        await front.until_health(lambda health: health["servers"]["up"]["state"] == "up")
        for number in range(20):
            closed = closer.close_idle()
            result = await client.call_tool(ECHO, {"text": f"call {number}"})
            assert closed > 0
            assert result.text == f"call {number}"
        assert closer.calls == [f"call {number}" for number in range(20)]


async def test_a_call_that_arrived_is_not_sent_again_when_its_connection_ends(closer: Closer):
    async with yard(at(closer.url)) as front, Client(front.gateway.view()) as client:
        await client.call_tool(ECHO, {"text": "first"})
        closer.dies = True
        refused = await front.call(ECHO, {"text": "only once"})
        assert "the connection broke" in refused.error["message"]
        assert closer.calls == ["first", "only once"]


async def test_many_at_once_after_a_pause_all_arrive_once(closer: Closer):
    async with yard(at(closer.url, retries=0)) as front, Client(front.gateway.view()) as client:
        texts = [f"call {number}" for number in range(30)]
        await asyncio.gather(*(client.call_tool(ECHO, {"text": text}) for text in texts))
        closer.close_idle()
        await asyncio.gather(*(client.call_tool(ECHO, {"text": text}) for text in texts))
        assert sorted(closer.calls) == sorted(texts * 2)
