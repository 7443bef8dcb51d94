"""Definitions of tools: whole within a bound of their own, beyond it tool by tool, never half a schema."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import aiohttp
import pytest

from tests.app.yard import Yard, yard
from tests.emulators.composio import ComposioEmulator
from tests.results.shelf import Shelf, structured, text
from tests.results.stock import mounted
from tests.upstream.composio import identify, server
from toolyard.config import ResultsConfig
from toolyard.results.limits import Limits

USE_CASES = ("send an email", "open an issue", "send a message", "search the news", "read a sheet")
SLUGS = ["GMAIL_SEND_EMAIL", "GMAIL_FETCH_EMAILS", "GITHUB_CREATE_AN_ISSUE", "SLACK_SEND_MESSAGE"]
ASKED = {
    "COMPOSIO_SEARCH_TOOLS": {"queries": [{"use_case": one} for one in USE_CASES]},
    "COMPOSIO_GET_TOOL_SCHEMAS": {"tool_slugs": SLUGS},
}
VIEWS: dict[str, dict[str, Any]] = {
    "bare": {"view": "all"},
    "all": {"view": "all"},
    "search": {"view": "search"},
    "suna": {"view": "search", "dialects": ("native", "suna")},
}


@asynccontextmanager
async def front(composio: ComposioEmulator, view: str) -> AsyncIterator[Yard]:
    async with yard(server(composio), results=ResultsConfig(), identify=identify, **VIEWS[view]) as built:
        yield built


async def asked(front: Yard, view: str, tool: str) -> dict[str, Any]:
    if view == "bare":
        return (await front.call(tool, ASKED[tool], path="/mcp/composio")).result
    full = f"mcp__composio__{tool}"
    if view == "all":
        return (await front.call(full, ASKED[tool])).result
    return (await front.call("call_tool", {"tool": full, "arguments": ASKED[tool]})).result


@pytest.mark.parametrize("view", VIEWS)
async def test_what_composio_defines_comes_whole_in_every_view(view: str):
    async with ComposioEmulator() as composio, front(composio, view) as yard:
        catalogue = (await asked(yard, view, "COMPOSIO_GET_TOOL_SCHEMAS"))["structuredContent"]
        assert list(catalogue["tool_schemas"]) == SLUGS
        for schema in catalogue["tool_schemas"].values():
            assert schema["input_schema"]["properties"]
            assert schema["output_schema"]["properties"]
        result = await asked(yard, view, "COMPOSIO_SEARCH_TOOLS")
    found = result["structuredContent"]
    assert len(json.dumps(found)) > 4_000, "as long as what is replaced"
    assert len(found["results"]) == len(USE_CASES)
    assert found["tool_schemas"]["GMAIL_SEND_EMAIL"]["input_schema"]["required"]
    assert "truncated" not in found
    assert json.loads(result["content"][0]["text"]) == found


# Beyond the bound


def schema(names: int) -> dict[str, Any]:
    properties = {f"field_{at}": {"type": "string", "description": "what it is for"} for at in range(names)}
    return {"type": "object", "properties": properties, "required": ["field_0"]}


def definitions(count: int, fields: int = 30) -> dict[str, Any]:
    schemas = {
        f"APP_DO_{at}": {"tool_slug": f"APP_DO_{at}", "toolkit": "app", "input_schema": schema(fields)}
        for at in range(count)
    }
    return {"tool_schemas": schemas, "session": {"id": "trs_1"}}


def is_whole_or_marked(found: Any, whole: Any) -> bool:
    return found == whole or list(found) == ["…"]


@pytest.mark.parametrize("form", [structured, lambda value: text(json.dumps(value))])
async def test_beyond_the_bound_the_first_tools_keep_their_schemas_and_the_others_are_named(
    shelf: Shelf, form: Any
):
    given = definitions(80)
    found = await shelf.fit(form(given), Limits())
    answer = found.answer
    assert answer["truncated"] is True
    shown = answer["preview"]["tool_schemas"]
    assert list(shown) == list(given["tool_schemas"]), "each tool is named"
    assert answer["preview"]["session"] == given["session"]
    whole = [slug for slug, one in shown.items() if one == given["tool_schemas"][slug]]
    assert 15 < len(whole) < 60
    assert whole == list(shown)[: len(whole)]
    for slug, one in shown.items():
        assert is_whole_or_marked(one["input_schema"], given["tool_schemas"][slug]["input_schema"])
    assert len(json.dumps(answer)) <= 60_000
    assert json.loads(await found.whole()) == given
    assert found.id in answer["hint"]


async def test_a_list_of_tools_as_mcp_has_them_is_one_of_definitions(shelf: Shelf):
    tools = [{"name": f"do_{at}", "inputSchema": schema(20)} for at in range(30)]
    assert (await shelf.fit(structured({"tools": tools}), Limits())).passed
    functions = [{"type": "function", "function": {"name": "f", "parameters": schema(20)}}] * 20
    assert (await shelf.fit(text(json.dumps(functions)), Limits())).passed


async def test_the_bound_is_the_callers_or_the_configurations(shelf: Shelf):
    given = definitions(12)
    assert (await shelf.fit(structured(given), Limits())).passed
    answer = (await shelf.fit(structured(given), Limits(), max_bytes=8_000)).answer
    assert len(json.dumps(answer, ensure_ascii=False)) <= 8_500
    inputs = [one["input_schema"] for one in answer["preview"]["tool_schemas"].values()]
    assert inputs[0] == schema(30)
    assert list(inputs[-1]) == ["…"]
    answer = (await shelf.fit(structured(given), Limits(max_bounded_bytes=0))).answer
    for one in answer["preview"]["tool_schemas"].values():
        assert is_whole_or_marked(one["input_schema"], schema(30))


async def test_a_log_that_mentions_a_schema_is_no_definition(shelf: Shelf):
    log = [{"line": "words " * 40, "number": at} for at in range(200)]
    found = await shelf.fit(structured({"log": log, "tool": {"input_schema": schema(3)}}), Limits())
    assert found.answer["truncated"] is True


# What is cut keeps its kind


def kinds_agree(shown: Any, given: Any) -> bool:
    """Whether nothing in a preview is of another kind than in the result; `…` marks what was left out."""
    if isinstance(given, dict):
        members = cast(dict[str, Any], given)
        return isinstance(shown, dict) and all(
            name == "…" or kinds_agree(value, members[name])
            for name, value in cast(dict[str, Any], shown).items()
        )
    if isinstance(given, list):
        if not isinstance(shown, list):
            return False
        items = cast(list[Any], shown)
        marks = [one for one in items if isinstance(one, str) and one.startswith("…")]
        pairs = zip(items, cast(list[Any], given), strict=False)
        return len(marks) <= 1 and all(kinds_agree(one, other) for one, other in pairs if one not in marks)
    return isinstance(shown, type(given))


async def test_a_preview_says_an_object_is_an_object_and_a_list_a_list(shelf: Shelf):
    deep: Any = {"leaf": ["x" * 50] * 30}
    for _ in range(12):
        deep = {"inner": deep, "beside": [{"a": 1, "b": "words " * 30}] * 12}
    given = {f"part_{at}": deep for at in range(20)} | {"long": ["y" * 900] * 40}
    for limits in (Limits(), Limits(max_bytes=1_600), Limits(max_bytes=30_000)):
        answer = (await shelf.fit(structured(given), limits)).answer
        assert kinds_agree(answer["preview"], given), answer["preview"]
    assert (await shelf.fit(structured([given] * 3), Limits())).answer["truncated"]


async def test_a_schema_among_other_things_is_never_half(shelf: Shelf):
    given = {"log": "words " * 3_000, "form": schema(9), "larger": schema(300), "more": ["z" * 200] * 50}
    preview = (await shelf.fit(structured(given), Limits(max_bytes=6_000))).preview
    assert is_whole_or_marked(preview["form"], given["form"])
    assert list(preview["larger"]) == ["…"]
    assert preview["larger"]["…"].startswith("a schema of ")


# The way to the rest


@pytest.mark.parametrize(("path", "prefix"), [("/mcp", "mcp__up__"), ("/mcp/up", "")])
async def test_in_the_views_that_do_not_list_read_result_the_hint_leads_to_the_rest(path: str, prefix: str):
    public = "https://gateway.example.com"
    async with mounted("inprocess") as up, yard(up, results=ResultsConfig(), public_url=public) as front:
        whole = (await front.call(f"{prefix}things", {"_max_bytes": 2**20}, path=path)).result
        result = (await front.call(f"{prefix}things", path=path)).result
        answer = result["structuredContent"]
        uri, storage = answer["storage"]["resource"], answer["storage"]
        assert f"{uri}?offset=10&limit=10" in answer["hint"]
        assert [block["uri"] for block in result["content"] if block["type"] == "resource_link"] == [uri]
        page = (await front.modern("resources/read", {"uri": f"{uri}?offset=10&limit=10"}, path)).result
        rows = json.loads(page["contents"][0]["text"])["items"]
        assert rows == whole["structuredContent"]["result"][10:20]
        read = await front.says("read_result", {"id": uri.removeprefix("toolyard://results/")}, path=path)
        assert json.loads(read)["total"] == 300
        link = f"http://127.0.0.1:{front.client.port}/results/" + storage["url"].split("/results/")[1]
        async with aiohttp.ClientSession() as browser, browser.get(link) as download:
            assert json.loads(await download.read()) == whole["structuredContent"]["result"]
        assert answer["hint"].endswith("storage.url does")
        session = await front.legacy()
        if path == "/mcp":
            named = {"name": "read_result", "arguments": {"id": uri.removeprefix("toolyard://results/")}}
            legacy = (await session.request("tools/call", named)).result
            assert json.loads(legacy["content"][0]["text"])["total"] == 300
