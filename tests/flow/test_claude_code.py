"""Claude Code in front of the search view: it is offered a handful of tools, and gets by with them."""

import asyncio
import json
from pathlib import Path

from tests.clients.claude_peer import claude_code
from tests.emulators.composio import ComposioEmulator
from tests.flow.process import authorise, configured, started

ISSUES = "mcp__composio__GITHUB_LIST_ISSUES"


async def test_claude_code_searches_connects_calls_and_asks_the_stored_result(tmp_path: Path):
    async with (
        ComposioEmulator() as composio,
        started(tmp_path, configured(composio, tmp_path)) as gateway,
        claude_code(
            tmp_path,
            {"type": "http", "url": f"http://127.0.0.1:{gateway.port}/mcp"},
            "2026-07-28",
            asyncio.Event().wait,
            environment={"MCP_PROTOCOL_NEGOTIATION": "auto"},
        ) as claude,
    ):
        assert set(await claude.tools()) == {"search_tools", "call_tool"}
        wanted = "list the open issues of a github repository"
        found = json.loads((await claude.call("search_tools", queries=[wanted])).text)
        assert ISSUES in [line.partition("(")[0] for line in found["results"][0]["tools"]]
        link_it = {"action": "link", "names": ["github"]}
        through = await claude.call("call_tool", tool="manage_connections", arguments=link_it)
        linked = json.loads(through.text)
        await authorise(linked["connections"][0]["link"])
        arguments = {"owner": "acme", "repo": "shop"}
        called = await claude.call("call_tool", tool=ISSUES, arguments=arguments)
        # The model reads the link to the whole result, and then what is said of it.
        link, _, shown = called.text.partition("{")
        assert "toolyard://results/" in link
        answer = json.loads("{" + shown)
        assert answer["truncated"] is True
        reading = {"id": answer["storage"]["resource"], "sql": "SELECT count(*) AS n FROM result"}
        asked = await claude.call("call_tool", tool="read_result", arguments=reading)
        assert json.loads(asked.text)["rows"] == [{"n": answer["summary"]["item_count"]}]
