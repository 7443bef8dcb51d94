"""Whatever stands between us and the socket may take its time with the start of a response."""

import asyncio
import json
from typing import Any

import pytest

from tests.waiting import PATIENCE
from toolyard.kit import Context, Server

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "progressToken": "p",
}
HEADERS = {
    "host": "localhost",
    "content-type": "application/json",
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "tools/call",
    "mcp-name": "speak",
}


class SlowWire:
    """The two callables of an ASGI call; the start of the response is held until `let_go`."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._asked = False
        self.sent: list[dict[str, Any]] = []
        self.held = asyncio.Event()
        self.let_go = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        if self._asked:
            await asyncio.Event().wait()
        self._asked = True
        return {"type": "http.request", "body": self._body, "more_body": False}

    async def send(self, event: Any) -> None:
        if event["type"] == "http.response.start":
            self.held.set()
            await self.let_go.wait()
        self.sent.append(event)


def _call(server: Server) -> tuple[SlowWire, "asyncio.Task[None]"]:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "speak", "_meta": META}}
    wire = SlowWire(json.dumps(message).encode())
    headers = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
    scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": headers}
    return wire, asyncio.create_task(server.asgi()(scope, wire.receive, wire.send))


@pytest.mark.parametrize("speakers", [1, 5])
async def test_nobody_overtakes_the_start_of_a_stream(speakers: int):
    server = Server("s")

    @server.tool
    async def speak(ctx: Context) -> str:
        await asyncio.gather(*(ctx.report_progress(n) for n in range(speakers)))
        return "done"

    wire, running = _call(server)
    async with asyncio.timeout(PATIENCE):
        await wire.held.wait()
        wire.let_go.set()
        await running
    assert [event["type"] for event in wire.sent] == ["http.response.start"] + ["http.response.body"] * (
        speakers + 1
    )
    assert b"done" in wire.sent[-1]["body"]


async def test_a_speaker_who_gives_up_does_not_take_the_start_with_it():
    server = Server("s")

    @server.tool
    async def speak(ctx: Context) -> str:
        speaking = asyncio.create_task(ctx.report_progress(1))
        await wire.held.wait()
        speaking.cancel()
        wire.let_go.set()
        return "done"

    wire, running = _call(server)
    async with asyncio.timeout(PATIENCE):
        await running
    assert wire.sent[0]["type"] == "http.response.start"
    assert wire.sent[0]["status"] == 200
    assert b"done" in wire.sent[-1]["body"]
