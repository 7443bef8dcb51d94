"""A gateway with limits: what is refused, how each era hears of it, and who is counted together."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from tests.app.speaker import Speaker, speaking
from tests.app.yard import Yard, at, yard
from toolyard.config.callers import AuthConfig, LimitRule, LimitsConfig, ProxyConfig

CENTURY = 100 * 365 * 86400.0


def limits(**rule: Any) -> dict[str, Any]:
    return {"limits": LimitsConfig(rules=(LimitRule(name="few", **rule),))}


async def echo(front: Yard, **options: Any) -> int:
    return (await front.call("mcp__up__echo", {"text": "hi"}, **options)).status


async def test_a_call_too_many_is_refused_with_when_to_come_again():
    tables = limits(calls=2, window=CENTURY)
    async with speaking(Speaker("modern")) as url, yard(at(url), tables=tables) as front:
        assert [await echo(front) for _ in range(2)] == [200, 200]
        refused = await front.call("mcp__up__echo", {"text": "hi"})
        assert refused.status == 429
        assert int(refused.headers["retry-after"]) > 86400
        assert refused.json["error"]["code"] == -32029
        assert refused.json["error"]["data"]["limit"] == "few"
        assert refused.json["error"]["data"]["retry_after"] == int(refused.headers["retry-after"])
        assert (await front.modern("tools/list")).status == 200, "lists are not counted"


async def test_a_legacy_session_hears_the_same_error():
    tables = limits(calls=1, window=CENTURY)
    async with speaking(Speaker("modern")) as url, yard(at(url), tables=tables) as front:
        session = await front.legacy()
        call = {"name": "mcp__up__echo", "arguments": {"text": "hi"}}
        assert "result" in (await session.request("tools/call", call)).json
        refused = await session.request("tools/call", call)
        assert (refused.status, refused.json["error"]["code"]) == (200, -32029), (
            "older SDKs end the session at 429"
        )
        assert int(refused.headers["retry-after"]) == refused.json["error"]["data"]["retry_after"]
        assert await echo(front) == 429, "both eras are one caller"


async def test_a_call_through_a_meta_tool_is_refused_like_any_other():
    tables = limits(calls=1, window=CENTURY)
    async with speaking(Speaker("modern")) as url, yard(at(url), tables=tables, view="search") as front:
        arguments = {"tool": "mcp__up__echo", "arguments": {"text": "hi"}}
        assert (await front.call("call_tool", arguments)).status == 200
        refused = await front.call("call_tool", arguments)
        assert (refused.status, refused.json["error"]["code"]) == (429, -32029)
        assert "retry-after" in refused.headers


async def test_users_have_limits_of_their_own():
    tables = limits(calls=1, window=CENTURY) | {
        "auth": AuthConfig(proxy=ProxyConfig(addresses=("127.0.0.1",)))
    }
    async with speaking(Speaker("modern")) as url, yard(at(url), tables=tables) as front:
        for user in ("anna", "ben"):
            headers = {"X-Forwarded-User": user}
            assert [await echo(front, headers=headers) for _ in range(3)] == [200, 429, 429]


async def test_every_way_to_a_tool_is_counted():
    tables = limits(calls=3, window=CENTURY)
    async with speaking(Speaker("modern")) as url, yard(at(url), tables=tables, view="search") as front:
        call = {"tool": "mcp__up__echo", "arguments": {"text": "hi"}}
        assert (await front.call("call_tool", call)).result["content"][0]["text"] == "hi"
        several = (await front.call("call_tools", {"calls": [call, call, call]})).result["structuredContent"]
        assert (several["succeeded"], several["failed"]) == (2, 1)
        assert "Limit 'few' reached" in str(several)
        assert (await front.call("echo", {"text": "hi"}, path="/mcp/up")).status == 429


SEARCH = {"queries": [{"use_case": "repeat a text"}]}


async def test_searches_and_questions_to_servers_are_counted():
    tables = limits(calls=3, window=CENTURY)
    async with speaking(Speaker("modern")) as url, yard(at(url), tables=tables, view="search") as front:
        assert (await front.call("search_tools", SEARCH)).status == 200
        assert (await front.call("describe_tools", {"tools": ["mcp__up__echo"]})).status == 200
        assert await echo(front) == 200
        for _ in range(2):
            refused = await front.call("search_tools", SEARCH)
            assert (refused.status, refused.json["error"]["data"]["limit"]) == (429, "few")


@pytest.mark.parametrize(
    ("tools", "searches", "calls"),
    [("toolyard/search_tools", [200, 429], [200, 200]), ("up", [200, 200], [200, 429])],
)
async def test_a_rule_names_searches_or_a_server_and_the_other_is_free(
    tools: str, searches: list[int], calls: list[int]
):
    tables = limits(calls=1, window=CENTURY, tools=(tools,))
    async with speaking(Speaker("modern")) as url, yard(at(url), tables=tables, view="search") as front:
        assert [(await front.call("search_tools", SEARCH)).status for _ in range(2)] == searches
        assert [await echo(front) for _ in range(2)] == calls


async def test_slots_are_free_again_when_calls_end():
    tables = limits(concurrent=2)
    async with speaking(Speaker("modern")) as url, yard(at(url), tables=tables) as front:
        for _ in range(5):
            assert await echo(front) == 200
        statuses = await asyncio.gather(*(echo(front) for _ in range(12)))
        assert set(statuses) <= {200, 429}
        assert await echo(front) == 200


async def test_a_changed_limit_takes_effect_while_it_runs_and_forgets_nothing():
    tables = limits(calls=2, window=CENTURY)
    async with speaking(Speaker("modern")) as url, yard(at(url), tables=tables) as front:
        config = front.gateway.config
        assert [await echo(front) for _ in range(3)] == [200, 200, 429]
        await front.gateway.reload(replace(config, **limits(calls=3, window=CENTURY)))
        assert [await echo(front) for _ in range(2)] == [200, 429]
        await front.gateway.reload(replace(config, limits=LimitsConfig()))
        assert await echo(front) == 200


@pytest.mark.parametrize("failing", ["no_such_tool", "fail"])
async def test_what_is_refused_or_fails_frees_its_slot(failing: str):
    async with speaking(Speaker("modern")) as url, yard(at(url), tables=limits(concurrent=1)) as front:
        for _ in range(3):
            await front.call(f"mcp__up__{failing}", {})
        assert await echo(front) == 200
