"""mcp-remote, for clients that can only start programs: the real one from npm, driven by `mcp` over stdio."""

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from mcp import MCPError, StdioServerParameters

from tests.clients.conversation import converse
from tests.clients.mcp_peer import McpPeer, connect
from tests.clients.yard import ROOT, Yard
from tests.serving import serving

NODE = Path(sys.executable).with_name("node")
PROXY = ROOT / "build/npm/node_modules/mcp-remote/dist/proxy.js"

LACKS_WHEN_IT_BRIDGES = {
    "opens_a_page": "says that it cannot put a link to a client of 2025",
    "cancels_a_call": "posts a notification where the modern era closes the stream, so the tool runs on",
}


@asynccontextmanager
async def through_mcp_remote(home: Path, protocol: str, version: str) -> AsyncIterator[McpPeer]:
    for program in (NODE, PROXY):
        if not program.exists():
            pytest.fail(f"{program} is missing; hint: `make test` installs what the tests need")
    async with serving(Yard().server.asgi()) as http:
        args = [str(PROXY), http.url, "--allow-http", "--transport", "http-only", "--protocol", protocol]
        program = StdioServerParameters(command=str(NODE), args=[*args, "--silent"], env={"HOME": str(home)})
        async with connect(program, "legacy", version) as peer:
            yield peer


async def test_mcp_remote_passes_the_legacy_era_through(tmp_path: Path):
    async with through_mcp_remote(tmp_path, "legacy", "2025-11-25") as peer:
        await converse(peer)


async def test_mcp_remote_bridges_a_legacy_client_to_the_modern_era(tmp_path: Path):
    async with through_mcp_remote(tmp_path, "auto", "2026-07-28") as peer:
        await converse(peer, LACKS_WHEN_IT_BRIDGES)
        with pytest.raises(MCPError, match="this proxy cannot put to a 2025-era client"):
            await peer.call("visit")
