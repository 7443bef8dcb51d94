"""Composio's words in every view: its errors, the forms that its documents print, and its tools by name."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.app.yard import Yard, yard
from tests.emulators.composio import ComposioEmulator
from tests.upstream.composio import MAIL, identify, remote, server
from tests.upstream.composio import of as asking
from toolyard.config.callers import AccessConfig, AccessRule, AuditConfig, LimitRule, LimitsConfig

MAILING = "mcp__composio__GMAIL_SEND_EMAIL"
BARE = "/mcp/composio"
VIEWS: dict[str, dict[str, Any]] = {
    "bare": {"view": "all"},
    "all": {"view": "all"},
    "search": {"view": "search"},
    "through call_tool": {"view": "search"},
    "suna": {"view": "search", "dialects": ("suna",), "search_first": False},
    "rube": {"view": "search", "dialects": ("rube",)},
}
EVERY_VIEW = pytest.mark.parametrize("view", VIEWS)


@asynccontextmanager
async def front(
    composio: ComposioEmulator, view: str, *, tables: dict[str, Any] | None = None, **options: Any
) -> AsyncGenerator[Yard]:
    settings: dict[str, Any] = {"tables": tables or {}, **VIEWS[view]}
    async with yard(server(composio, **options), identify=identify, **settings) as built:
        yield built


def of(thread: str, agent: str = "") -> dict[str, str]:
    return {"x-toolyard-thread": thread, "x-agent": agent}


async def call(front: Yard, view: str, tool: str, arguments: Any, thread: str = "t", agent: str = "") -> Any:
    """Call a tool by its full name, or as the view calls tools."""
    if view == "bare":
        name = tool.removeprefix("mcp__composio__")
        return (await front.call(name, arguments, path=BARE, headers=of(thread, agent))).json
    if view == "through call_tool":
        arguments = {"tool": tool, "arguments": arguments}
        tool = "call_tool"
    return (await front.call(tool, arguments, headers=of(thread, agent))).json


# Errors


@EVERY_VIEW
async def test_a_tool_that_fails_says_so_as_composio_does(view: str):
    async with ComposioEmulator() as composio, front(composio, view) as yard:
        refused = (await call(yard, view, MAILING, MAIL))["result"]
        over_mcp = await call(yard, view, "mcp__composio__COMPOSIO_MANAGE_CONNECTIONS", {"toolkits": [{}]})
        composio.connect("acme", "gmail")
        sent = (await call(yard, view, MAILING, MAIL))["result"]
    assert refused["isError"]
    assert refused["structuredContent"]["successful"] is False
    assert "No connected account found" in refused["structuredContent"]["error"]
    assert refused["structuredContent"]["error"] in refused["content"][0]["text"]
    assert over_mcp["result"]["structuredContent"]["successful"] is False
    assert over_mcp["result"]["structuredContent"]["error"] == over_mcp["result"]["content"][0]["text"]
    assert not sent.get("isError")
    assert "successful" not in sent["structuredContent"]


async def test_in_a_dialect_the_error_is_in_the_envelope_and_not_in_the_data_too():
    files = [{"tool_slug": "GMAIL_SEND_EMAIL", "arguments": MAIL}]
    async with ComposioEmulator() as composio, front(composio, "rube") as yard:
        failed = await call(yard, "rube", "RUBE_MULTI_EXECUTE_TOOL", {"tools": files})
    (one,) = failed["result"]["structuredContent"]["data"]["results"]
    assert one["response"]["data"] == {}
    assert one["response"]["successful"] is False
    assert "No connected account found" in one["response"]["error"]


@pytest.mark.parametrize("dialect", ["native", "suna"])
async def test_what_the_gateway_refuses_itself_has_the_same_form(dialect: str):
    async with (
        ComposioEmulator() as composio,
        yard(server(composio), identify=identify, view="search", dialects=(dialect,)) as front,
    ):
        tool = {"native": "call_tool", "suna": "get_app_details"}[dialect]
        refused = (await front.call(tool, {"tool": "mcp__composio__NOT_THERE"})).result
        search = (await front.call("search_tools", {})).json
    assert refused["structuredContent"] == {"error": refused["content"][0]["text"], "successful": False}
    if dialect == "native":
        assert "structuredContent" not in search["result"], "it is answered in words"


# Forms of other documents

META = {"rube": "RUBE_{}"}
WISHES: list[dict[str, Any]] = [
    {"intent": "send an email"},
    {"use_case": "send an email", "known_fields": "to:ana"},
    {"queries": [], "intent": "send an email"},
]
STEPS: list[Any] = [
    [{"slug": "GMAIL_SEND_EMAIL", "params": MAIL}],
    [{"tool_slug": "GMAIL_SEND_EMAIL", "params": MAIL}],
    json.dumps([{"slug": "GMAIL_SEND_EMAIL", "params": MAIL}]),
]
OFFERED = pytest.mark.parametrize("view", ["bare", "all", "search", "through call_tool", "rube"])


def data_of(result: dict[str, Any], view: str) -> Any:
    found = result["result"]["structuredContent"]
    return found["data"] if view == "rube" else found


@OFFERED
async def test_one_wish_is_a_search_and_steps_of_slug_and_params_are_executed(view: str):
    name = META.get(view, "mcp__composio__COMPOSIO_{}").format
    async with ComposioEmulator() as composio, front(composio, view) as yard:
        composio.connect("acme", "gmail")
        for wish in WISHES:
            found = data_of(await call(yard, view, name("SEARCH_TOOLS"), wish), view)
            assert "GMAIL_SEND_EMAIL" in found["results"][0]["primary_tool_slugs"]
        for steps in STEPS:
            done = data_of(await call(yard, view, name("MULTI_EXECUTE_TOOL"), {"tools": steps}), view)
            assert done["success_count"] == 1
        assert len(composio.records["emails"]) == len(STEPS)
        neither = (await call(yard, view, name("MULTI_EXECUTE_TOOL"), {"tools": [{"params": {}}]}))["result"]
        assert neither["isError"]
        assert "tool_slug" in neither["content"][0]["text"]
        nothing = (await call(yard, view, name("SEARCH_TOOLS"), {"wish": "send an email"}))["result"]
        assert nothing["isError"]


@OFFERED
async def test_a_denied_tool_is_unknown_in_those_forms_too(view: str):
    name = META.get(view, "mcp__composio__COMPOSIO_{}").format
    denied = ("GMAIL_SEND_*", "COMPOSIO_REMOTE_*")
    async with ComposioEmulator() as composio, front(composio, view, deny=denied) as yard:
        composio.connect("acme", "gmail")
        for steps in STEPS:
            tried = await call(yard, view, name("MULTI_EXECUTE_TOOL"), {"tools": steps})
            assert tried["result"]["isError"]
            said = json.dumps(tried)
            assert "Unknown tool" in said or "not found" in said
        found = data_of(await call(yard, view, name("SEARCH_TOOLS"), WISHES[0]), view)
        assert "GMAIL_SEND_EMAIL" not in json.dumps(found)
    assert not composio.records.get("emails")
    assert not composio.asked("session.execute")


async def test_a_rule_about_arguments_judges_the_form_that_is_executed():
    mails = 'args.tools.exists(step, step.tool_slug.startsWith("GMAIL_SEND"))'
    rules = (
        AccessRule(who=("*",), allow=("composio",)),
        AccessRule(who=("*",), deny=("composio/COMPOSIO_MULTI_EXECUTE_TOOL",), when=mails),
    )
    tables = {"access": AccessConfig(rules=rules)}
    async with ComposioEmulator() as composio, front(composio, "bare", tables=tables) as yard:
        composio.connect("acme", "gmail")
        for steps in STEPS:
            tried = await call(yard, "bare", "COMPOSIO_MULTI_EXECUTE_TOOL", {"tools": steps})
            assert "may not be used with these arguments" in tried["result"]["content"][0]["text"]
        fetch = [{"slug": "GMAIL_FETCH_EMAILS", "params": {"max_results": 1}}]
        done = await call(yard, "bare", "COMPOSIO_MULTI_EXECUTE_TOOL", {"tools": fetch})
        assert done["result"]["structuredContent"]["success_count"] == 1
    assert not composio.records.get("emails")


# Tools by name

DIRECT = pytest.mark.parametrize("view", ["bare", "all", "search", "through call_tool"])
LISTING = pytest.mark.parametrize("view", ["bare", "all"])
LONG = "GITHUB_STAR_A_REPOSITORY_FOR_THE_AUTHENTICATED_USER"
SEARCH, SCHEMAS = "mcp__composio__COMPOSIO_SEARCH_TOOLS", "mcp__composio__COMPOSIO_GET_TOOL_SCHEMAS"


def path_of(view: str) -> str:
    return BARE if view == "bare" else "/mcp"


async def listed(front: Yard, view: str, thread: str = "t", agent: str = "") -> dict[str, Any]:
    """The tools of a view by Composio's names."""
    found = (await front.modern("tools/list", path=path_of(view), headers=of(thread, agent))).result["tools"]
    return {tool["name"].removeprefix("mcp__composio__"): tool for tool in found}


@DIRECT
async def test_a_tool_is_called_by_its_full_name_searched_before_or_not(view: str):
    async with ComposioEmulator() as composio, front(composio, view) as yard:
        composio.connect("acme", "gmail")
        sent = await call(yard, view, MAILING, MAIL, thread="never searched")
        assert not sent["result"].get("isError"), sent
        await call(yard, view, SEARCH, {"queries": [{"use_case": "send an email"}]}, thread="searched")
        assert not (await call(yard, view, MAILING, MAIL, thread="searched"))["result"].get("isError")
        slug = await call(yard, view, "GMAIL_SEND_EMAIL", MAIL, thread="by its slug")
        assert not slug["result"].get("isError")
        unknown = json.dumps(await call(yard, view, "mcp__composio__GMAIL_WRITE_POEM", {}))
        assert "GMAIL_WRITE_POEM" in unknown
        assert '"isError": true' in unknown or '"error"' in unknown
    assert len(composio.records["emails"]) == 3


async def test_at_its_own_endpoint_a_tool_has_its_full_name_too():
    async with ComposioEmulator() as composio, front(composio, "bare") as yard:
        composio.connect("acme", "gmail")
        composio.connect("acme", "github")
        sent = await yard.call(MAILING, MAIL, path=BARE, headers=of("t"))
        assert not sent.result.get("isError")
        described = await remote(yard).describe(asking(thread="another"), [LONG])
        shortened = described[0].name
        assert LONG not in shortened
        starred = await yard.call(shortened, {"owner": "acme", "repo": "shop"}, path=BARE, headers=of("t"))
        assert not starred.result.get("isError"), starred.result
        search = await yard.call(SEARCH, {"intent": "send an email"}, path=BARE, headers=of("t"))
        assert search.result["structuredContent"]["tool_schemas"]
    assert len(composio.records["emails"]) == 1


@LISTING
async def test_what_a_conversation_found_is_listed_for_it_and_it_is_told_so(view: str):
    wish = {"queries": [{"use_case": "send an email"}]}
    async with ComposioEmulator() as composio, front(composio, view) as yard:
        assert "GMAIL_SEND_EMAIL" not in await listed(yard, view)
        line = await yard.listen(path_of(view), headers=of("t"), toolsListChanged=True)
        await call(yard, view, SEARCH, wish)
        assert (await line.next_message())["method"] == "notifications/tools/list_changed"
        found = await listed(yard, view)
        assert "recipient_email" in found["GMAIL_SEND_EMAIL"]["inputSchema"]["properties"]
        assert list(await listed(yard, view)) == list(found), "in the same order"
        assert "GMAIL_SEND_EMAIL" not in await listed(yard, view, thread="another")


@LISTING
@pytest.mark.parametrize("how", ["its schema was read", "it was called"])
async def test_a_tool_is_listed_once_its_schema_was_read_or_it_was_called(view: str, how: str):
    async with ComposioEmulator() as composio, front(composio, view) as yard:
        before = await listed(yard, view)
        if how == "it was called":
            await call(yard, view, MAILING, MAIL)
        else:
            await call(yard, view, SCHEMAS, {"tool_slugs": ["GMAIL_SEND_EMAIL"]})
        after = await listed(yard, view)
    assert set(after) - set(before) == {"GMAIL_SEND_EMAIL"}
    assert after["GMAIL_SEND_EMAIL"]["inputSchema"]["required"]


async def test_a_legacy_session_is_a_conversation():
    async with ComposioEmulator() as composio, front(composio, "all") as yard:
        await yard.tools()
        session = await yard.legacy()
        line = await session.listen()
        await session.call(SEARCH, queries=[{"use_case": "send an email"}])
        assert (await line.next_message())["method"] == "notifications/tools/list_changed"
        assert MAILING in [tool["name"] for tool in (await session.request("tools/list")).result["tools"]]
        assert MAILING not in await yard.tools()


async def test_the_list_of_the_search_view_stays_as_it_is():
    async with ComposioEmulator() as composio, front(composio, "search") as yard:
        before = await listed(yard, "search")
        await call(yard, "search", SEARCH, {"queries": [{"use_case": "send an email"}]})
        await call(yard, "search", MAILING, MAIL)
        assert await listed(yard, "search") == before


@DIRECT
async def test_rules_limits_and_the_audit_hold_for_a_tool_that_is_not_listed(view: str, tmp_path: Path):
    rules = (
        AccessRule(who=("main",), allow=("composio",)),
        AccessRule(who=("reader",), allow=("composio/COMPOSIO_SEARCH_*", "composio/GMAIL_FETCH_*")),
    )
    tables = {
        "access": AccessConfig(default="deny", rules=rules),
        "limits": LimitsConfig(
            rules=(LimitRule(tools=("composio/GMAIL_SEND_EMAIL",), per="agent", window=3600, calls=1),)
        ),
        "audit": AuditConfig(url=f"file://{tmp_path / 'audit'}"),
    }
    wish = {"queries": [{"use_case": "send an email, fetch emails"}]}
    async with ComposioEmulator() as composio, front(composio, view, tables=tables) as yard:
        composio.connect("acme", "gmail")
        forbidden = json.dumps(await call(yard, view, MAILING, MAIL, agent="reader"))
        assert "Unknown tool" in forbidden or "not found" in forbidden
        await call(yard, view, SEARCH, wish, agent="reader")
        if view in ("bare", "all"):
            seen = await listed(yard, view, agent="reader")
            assert "GMAIL_FETCH_EMAILS" in seen
            assert "GMAIL_SEND_EMAIL" not in seen
        again = json.dumps(await call(yard, view, MAILING, MAIL, agent="reader"))
        assert "Unknown tool" in again or "not found" in again
        assert not composio.records.get("emails")
        sent = await call(yard, view, MAILING, MAIL, agent="main")
        assert not sent["result"].get("isError"), sent
        over = json.dumps(await call(yard, view, MAILING, MAIL, agent="main"))
        assert "limit" in over
        assert len(composio.records["emails"]) == 1
    records = [json.loads(line) for path in (tmp_path / "audit").rglob("*.jsonl") for line in path.open()]
    tried = [(one.get("agent"), one["outcome"]) for one in records if "GMAIL_SEND" in one.get("tool", "")]
    assert tried == [("reader", "refused"), ("reader", "refused"), ("main", "ok"), ("main", "refused")]
