"""The `mcp` SDK's client, over HTTP and over stdio, in each of its modes."""

import pytest
from mcp import StdioServerParameters

from tests.clients.conversation import TOPICS, converse, topics
from tests.clients.mcp_peer import connect
from tests.clients.yard import ENVIRONMENT, PROGRAM, Yard
from tests.serving import serving

LEGACY, MODERN = "2025-11-25", "2026-07-28"
MODES = [("legacy", LEGACY), (MODERN, MODERN), ("auto", MODERN)]
LACKS: dict[str, dict[str, str]] = {
    "legacy": {},
    MODERN: {"reads_the_instructions": "takes the version for granted and does not ask who the server is"},
    "auto": {},
}


@pytest.mark.parametrize(
    ("mode", "version", "topic"),
    [(mode, version, topic) for mode, version in MODES[:2] for topic in topics(LACKS[mode])],
)
async def test_a_topic_of_the_mcp_client_over_http(mode: str, version: str, topic: str):
    async with serving(Yard().server.asgi()) as http, connect(http.url, mode, version) as peer:
        await TOPICS[topic](peer)


@pytest.mark.parametrize(("mode", "version"), MODES)
async def test_the_mcp_client_holds_the_conversation_over_http(mode: str, version: str):
    async with serving(Yard().server.asgi()) as http, connect(http.url, mode, version) as peer:
        await converse(peer, LACKS[mode])


@pytest.mark.parametrize(("mode", "version"), MODES)
async def test_the_mcp_client_holds_the_conversation_over_stdio(mode: str, version: str):
    command, *args = PROGRAM
    program = StdioServerParameters(command=command, args=args, env=ENVIRONMENT)
    async with connect(program, mode, version) as peer:
        await converse(peer, LACKS[mode])
