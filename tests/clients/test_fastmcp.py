"""FastMCP's client, over HTTP, in both of its modes."""

from tests.clients.conversation import converse
from tests.clients.fastmcp_peer import connect
from tests.clients.yard import Yard
from tests.serving import serving

LACKS_IN_THE_MODERN_ERA = {
    "notices_a_new_tool": "has no call for subscriptions/listen, so no change can reach it",
}


async def test_the_fastmcp_client_holds_the_conversation_in_the_legacy_era():
    async with serving(Yard().server.asgi()) as http, connect(http.url, "legacy", "2025-11-25") as peer:
        await converse(peer)


async def test_the_fastmcp_client_finds_the_modern_era_and_holds_the_conversation_there():
    async with serving(Yard().server.asgi()) as http, connect(http.url, "auto", "2026-07-28") as peer:
        await converse(peer, LACKS_IN_THE_MODERN_ERA)
