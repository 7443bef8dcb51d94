"""A tool that is not there: the hint names what finds tools in the dialect that the client speaks."""

import pytest
from mcp import MCPError

from tests.dialects.talking import gateway

SEARCHES: dict[tuple[str, ...], str] = {
    ("native",): "search_tools",
    ("suna",): "search_mcp_servers",
    ("composio",): "COMPOSIO_SEARCH_TOOLS",
    ("rube",): "RUBE_SEARCH_TOOLS",
    ("native", "suna"): "search_tools or search_mcp_servers",
}


@pytest.mark.parametrize("dialects", list(SEARCHES))
async def test_an_unknown_tool_is_answered_with_the_dialects_own_search(dialects: tuple[str, ...]):
    advice = f"Search for what you want to do with {SEARCHES[dialects]}."
    async with gateway(*dialects) as place, place.talk() as talk:
        with pytest.raises(MCPError) as far:
            await talk.call("make_coffee")
        with pytest.raises(MCPError) as near:
            await talk.call("mcp__notes__ad_note")
        tools = await talk.tools()
        assert SEARCHES[dialects].split(" or ")[0] in tools
    assert str(far.value) == f"Tool function 'make_coffee' not found. {advice}"
    assert "Did you mean 'mcp__notes__add_note'" in str(near.value)
    assert str(near.value).endswith(f"? {advice}")
