"""The same conversations through the gateway: real clients of either era, an upstream of either era."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.clients import fastmcp_peer, mcp_peer, test_claude_code, test_fastmcp, test_mcp
from tests.clients.claude_peer import claude_code
from tests.clients.conversation import converse
from tests.clients.yard import Yard
from tests.serving import serving
from tests.through import LegacyOnly, gateway_to
from toolyard.config import Http

LEGACY, MODERN = "2025-11-25", "2026-07-28"
pairs = pytest.mark.parametrize("upstream", [LEGACY, MODERN])


@asynccontextmanager
async def gateway(yard: Yard, upstream: str) -> AsyncIterator[str]:
    """The address of a gateway whose upstream speaks one era."""
    app = yard.server.asgi()
    async with (
        serving(app if upstream == MODERN else LegacyOnly(app)) as served,
        gateway_to(Http(url=served.url, era="modern" if upstream == MODERN else "caller")) as (front, _),
    ):
        yield front.url


@pairs
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_mcp_client_holds_the_conversation_through_the_gateway(mode: str, upstream: str):
    async with gateway(Yard(), upstream) as url, mcp_peer.connect(url, mode, upstream) as peer:
        await converse(peer, test_mcp.LACKS[mode])


@pairs
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_fastmcp_holds_the_conversation_through_the_gateway(mode: str, upstream: str):
    async with gateway(Yard(), upstream) as url, fastmcp_peer.connect(url, mode, upstream) as peer:
        await converse(peer, test_fastmcp.LACKS_IN_THE_MODERN_ERA if mode == "auto" else {})


@pairs
@pytest.mark.parametrize("negotiation", ["auto", "legacy"])
async def test_claude_code_holds_the_conversation_through_the_gateway(
    negotiation: str, upstream: str, tmp_path: Path
):
    yard = Yard()
    environment = {"MCP_PROTOCOL_NEGOTIATION": negotiation}
    async with gateway(yard, upstream) as url:
        server = {"type": "http", "url": url}
        async with claude_code(
            tmp_path, server, upstream, yard.started.wait, environment=environment
        ) as peer:
            await converse(peer, test_claude_code.LACKS)
            await test_claude_code.assert_what_it_lacks_does_no_harm(peer)
