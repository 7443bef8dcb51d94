"""Claude Code, through the Agent SDK, with our server over HTTP in both eras and over stdio."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.clients.claude_peer import ClaudePeer, claude_code
from tests.clients.conversation import Result, converse, soon
from tests.clients.yard import ENVIRONMENT, PROGRAM, Yard
from tests.serving import serving

LACKS = {
    "lists_output_schemas": "shows titles and output schemas to neither the model nor the application",
    "sees_progress": "does not pass progress on to the application",
    "sees_log_lines": "does not pass log lines on to the application",
    "lends_its_model": "does not declare sampling",
    "completes_arguments": "completes in its terminal only",
}


async def assert_what_it_lacks_does_no_harm(peer: ClaudePeer) -> None:
    assert await peer.call("walk") == Result("walked")
    assert await peer.call("note_down") == Result("noted")
    complaint = "The client must declare the capability: sampling"
    assert await peer.call("ponder") == Result(complaint, is_error=True)


@pytest.mark.parametrize(("negotiation", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
async def test_claude_code_holds_the_conversation_over_http(negotiation: str, version: str, tmp_path: Path):
    yard = Yard()
    async with serving(yard.server.asgi()) as http:
        server = {"type": "http", "url": http.url}
        environment = {"MCP_PROTOCOL_NEGOTIATION": negotiation}
        async with claude_code(tmp_path, server, version, yard.started.wait, environment=environment) as peer:
            await converse(peer, LACKS)
            await assert_what_it_lacks_does_no_harm(peer)


@asynccontextmanager
async def journal(path: Path) -> AsyncIterator[asyncio.StreamReader]:
    """The lines that a program writes to a FIFO."""
    os.mkfifo(path)
    # Opened for both, so that neither side waits for the other to open its end.
    lines = os.fdopen(os.open(path, os.O_RDWR | os.O_NONBLOCK), "rb", buffering=0)
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), lines)
    try:
        yield reader
    finally:
        transport.close()


@pytest.mark.parametrize(("negotiation", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
async def test_claude_code_holds_the_conversation_over_stdio(negotiation: str, version: str, tmp_path: Path):
    fifo = tmp_path / "journal"
    command, *args = PROGRAM
    args += ["--journal", str(fifo)]
    server = {"type": "stdio", "command": command, "args": args, "env": ENVIRONMENT}
    environment = {"MCP_PROTOCOL_NEGOTIATION": negotiation}
    async with journal(fifo) as lines:
        async with claude_code(tmp_path, server, version, lines.readline, environment=environment) as peer:
            await converse(peer, LACKS)
            await assert_what_it_lacks_does_no_harm(peer)
        assert await soon(lines.readline()) == b"stopped\n"
        assert await soon(lines.readline()) == b"ended\n"
