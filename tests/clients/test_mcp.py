"""The `mcp` SDK's client, over HTTP and over stdio, in each of its modes."""

import sys

import pytest
from mcp import StdioServerParameters

from tests.clients.conversation import TOPICS, topics
from tests.clients.mcp_peer import connect
from tests.clients.yard import Yard
from tests.serving import serving

MODES = {"legacy": "2025-11-25", "2026-07-28": "2026-07-28", "auto": "2026-07-28"}
STDIO = StdioServerParameters(command=sys.executable, args=["-m", "tests.clients.yard"])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("topic", topics())
async def test_the_mcp_client_over_http(mode: str, topic: str):
    async with serving(Yard().server.asgi()) as http, connect(http.url, mode) as peer:
        assert peer.version == MODES[mode]
        await TOPICS[topic](peer)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("topic", topics())
async def test_the_mcp_client_over_stdio(mode: str, topic: str):
    async with connect(STDIO, mode) as peer:
        assert peer.version == MODES[mode]
        await TOPICS[topic](peer)
