"""The `mcp` SDK's client, over HTTP and over stdio, in each of its modes. It lacks nothing."""

import pytest
from mcp import StdioServerParameters

from tests.clients.conversation import TOPICS, converse, topics
from tests.clients.mcp_peer import connect
from tests.clients.yard import ENVIRONMENT, PROGRAM, Yard
from tests.serving import serving

MODES = [("legacy", "2025-11-25"), ("2026-07-28", "2026-07-28"), ("auto", "2026-07-28")]


@pytest.mark.parametrize("topic", topics())
@pytest.mark.parametrize(("mode", "version"), MODES[:2])
async def test_a_topic_of_the_mcp_client_over_http(mode: str, version: str, topic: str):
    async with serving(Yard().server.asgi()) as http, connect(http.url, mode, version) as peer:
        await TOPICS[topic](peer)


@pytest.mark.parametrize(("mode", "version"), MODES)
async def test_the_mcp_client_holds_the_conversation_over_http(mode: str, version: str):
    async with serving(Yard().server.asgi()) as http, connect(http.url, mode, version) as peer:
        await converse(peer)


@pytest.mark.parametrize(("mode", "version"), MODES)
async def test_the_mcp_client_holds_the_conversation_over_stdio(mode: str, version: str):
    command, *args = PROGRAM
    program = StdioServerParameters(command=command, args=args, env=ENVIRONMENT)
    async with connect(program, mode, version) as peer:
        await converse(peer)
