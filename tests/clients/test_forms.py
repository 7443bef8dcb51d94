"""Which form of a result Claude Code shows its model, and what a gateway makes of that.

Other clients are in `docs/concepts/tokens.md`, with how each was found out.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.app.speaker import Exchange, Speaker, speaking, text, tool
from tests.app.yard import Yard, at, yard
from tests.clients.claude_peer import ClaudePeer, claude_code
from tests.results.shelf import records
from toolyard.config import ResultsConfig
from toolyard.telemetry.usage import usage_rows


@asynccontextmanager
async def claude_at(result: dict[str, Any], folder: Path) -> AsyncIterator[tuple[ClaudePeer, Yard]]:
    """Claude Code in front of a gateway, whose one tool answers with this."""
    speaker = Speaker("modern", [tool("echo")])

    async def answer(exchange: Exchange) -> None:
        await exchange.result(result)

    speaker.on["tools/call"] = answer
    async with (
        speaking(speaker) as url,
        yard(at(url), results=ResultsConfig(), state=str(folder / "state")) as front,
        claude_code(
            folder,
            {"type": "http", "url": f"http://127.0.0.1:{front.client.port}/mcp"},
            "2026-07-28",
            asyncio.Event().wait,
            environment={"MCP_PROTOCOL_NEGOTIATION": "auto"},
        ) as claude,
    ):
        yield claude, front


async def test_claude_code_shows_its_model_the_structured_content_alone_and_that_is_counted(tmp_path: Path):
    both = {**text("THE TEXT"), "structuredContent": {"form": "THE DATA"}}
    async with claude_at(both, tmp_path) as (claude, _):
        assert (await claude.call("mcp__up__echo")).text == '{"form":"THE DATA"}'
    (row,) = usage_rows(tmp_path / "state", "tool", 1)
    assert row.received == row.sent
    assert abs(row.received - len(json.dumps(both["structuredContent"]))) < 10


async def test_claude_code_gets_a_short_text_beside_the_summary_that_its_model_reads(tmp_path: Path):
    many = {"items": records(300)}
    async with claude_at({**text(json.dumps(many)), "structuredContent": many}, tmp_path) as (claude, front):
        seen = (await claude.call("mcp__up__echo")).text
        answer = json.loads("{" + seen.partition("{")[2])
        assert answer["summary"]["item_count"] == 300
        assert answer["preview"] == records(10)
        assert "structuredContent has a summary" not in seen, "the short text is not shown"
        plain = (await front.call("mcp__up__echo")).result
        assert json.loads(plain["content"][0]["text"]) == plain["structuredContent"], "others get both"
