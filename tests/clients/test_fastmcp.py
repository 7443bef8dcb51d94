"""FastMCP's client, over HTTP, in both of its modes."""

import pytest

from tests.clients.conversation import TOPICS, topics
from tests.clients.fastmcp_peer import connect
from tests.clients.yard import Yard
from tests.serving import serving

MODES = {"legacy": "2025-11-25", "auto": "2026-07-28"}
LACKS = {
    "legacy": {},
    "auto": {},
}


@pytest.mark.parametrize(("mode", "topic"), [(mode, topic) for mode in MODES for topic in topics(LACKS[mode])])
async def test_the_fastmcp_client_over_http(mode: str, topic: str):
    async with serving(Yard().server.asgi()) as http, connect(http.url, mode) as peer:
        assert peer.client.protocol_version == MODES[mode]
        await TOPICS[topic](peer)
