"""What the gateway answers by itself, and whom it turns away, is in the audit too."""

from pathlib import Path
from typing import Any

import msgspec

from tests.app.yard import at, yard
from tests.policy.yard_servers import notes
from tests.serving import serving
from toolyard.config.callers import (
    AccessConfig,
    AccessRule,
    AuditConfig,
    AuthConfig,
    LimitRule,
    LimitsConfig,
)


def records(folder: Path) -> list[dict[str, Any]]:
    lines = [line for file in sorted(folder.glob("**/*.jsonl")) for line in file.read_bytes().splitlines()]
    found = [msgspec.json.decode(line) for line in lines]
    return [one for one in (record.get("record", record) for record in found) if one.get("event") == "call"]


async def test_meta_tools_names_that_lead_nowhere_and_refused_credentials(tmp_path: Path) -> None:
    tables = {
        "audit": AuditConfig(url=f"file://{tmp_path}/audit"),
        "auth": AuthConfig(keys=True),
        "access": AccessConfig(default="deny", rules=(AccessRule(name="r", allow=("up/*:read",)),)),
    }
    async with serving(notes.asgi()) as up:
        front = yard(at(f"http://127.0.0.1:{up.port}/mcp"), view="search", tables=tables, state=str(tmp_path))
        async with front as place:
            await place.call("search_tools", {"queries": [{"use_case": "read notes"}]})
            assert await place.says("call_tool", {"tool": "mcp__up__read_notes", "arguments": {}})
            await place.call("call_tool", {"tool": "mcp__up__write_notes", "arguments": {}})
            await place.call("mcp__up__nothing")
            wrong = {"authorization": "Bearer ty_0000000000_nobodyhasthiskeynobodyhasthiskey"}
            assert (await place.modern("tools/list", headers=wrong)).status == 401
    found = {(one.get("tool", ""), one["outcome"], one.get("decision", "")) for one in records(tmp_path)}
    assert ("search_tools", "ok", "allow") in found
    assert ("read_notes", "ok", "allow") in found
    assert ("write_notes", "refused", "deny") in found
    assert ("mcp__up__nothing", "refused", "unknown") in found
    refused = [one for one in records(tmp_path) if one.get("method") == "authenticate"]
    assert len(refused) == 1
    assert "nobodyhasthiskey" not in str(refused)
    assert refused[0]["client"] == "127.0.0.1"


async def test_a_limit_is_named_and_a_question_is_no_call(tmp_path: Path) -> None:
    tables = {
        "audit": AuditConfig(url=f"file://{tmp_path}/audit"),
        "access": AccessConfig(
            default="allow", rules=(AccessRule(name="ask", confirm=("up/write_notes",), allow=("*",)),)
        ),
        "limits": LimitsConfig(
            rules=(
                LimitRule(name="once", tools=("up/read_notes",), calls=1, window=3600),
                LimitRule(name="one search", tools=("toolyard/search_tools",), calls=1, window=3600),
            )
        ),
    }
    async with serving(notes.asgi()) as up:
        front = yard(at(f"http://127.0.0.1:{up.port}/mcp"), view="search", tables=tables, state=str(tmp_path))
        async with front as place:
            search = {"queries": [{"use_case": "read notes"}]}
            assert [(await place.call("search_tools", search)).status for _ in range(2)] == [200, 429]
            assert await place.says("mcp__up__read_notes")
            assert (await place.call("mcp__up__read_notes")).status == 429
            able = {"elicitation": {}}
            asked = await place.call("mcp__up__write_notes", capabilities=able)
            assert asked.result["resultType"] == "input_required"
    found = [(one["tool"], one["outcome"], one.get("rule", "")) for one in records(tmp_path)]
    assert [one for one in found if one[0] == "search_tools"] == [
        ("search_tools", "ok", ""),
        ("search_tools", "refused", "limit one search"),
    ]
    assert ("read_notes", "refused", "limit once") in found
    assert ("write_notes", "asked", "ask") in found
