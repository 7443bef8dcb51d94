"""Tools of Composio: executed over REST or called over MCP, their replies opened, and those denied."""

import json
from typing import Any

import pytest

from tests.upstream.composio import EXECUTE, MAIL, PATH, SEARCH, call, emulated, mail, of, query, remote
from toolyard.catalogue.catalogue import conversation_of

QUERY = {"queries": [{"use_case": "send an email"}]}


async def test_what_a_tool_gives_is_its_data_and_what_it_fails_with_is_an_error_to_be_read():
    async with emulated() as (composio, yard):
        early = (await mail(yard)).result
        composio.connect("acme", "gmail")
        sent = (await mail(yard)).result
        wrong = (await call(yard, "GMAIL_SEND_EMAIL", {"body": "to nobody"})).result
        none = (await call(yard, "GMAIL_WRITE_POEM")).result
    assert early["isError"]
    assert "No connected account found" in early["content"][0]["text"]
    assert "hint: Connect an account of gmail" in early["content"][0]["text"]
    assert sent["resultType"] == "complete"
    assert sent["structuredContent"]["response_data"]["subject"] == "1"
    assert json.loads(sent["content"][0]["text"]) == sent["structuredContent"]
    assert wrong["isError"]
    assert "recipient_email" in wrong["content"][0]["text"]
    assert none["isError"]
    assert "GMAIL_WRITE_POEM" in none["content"][0]["text"]
    assert len(composio.records["emails"]) == 1


async def test_several_tools_over_mcp_keep_what_each_gave_though_one_failed():
    several = {
        "tools": [
            {"tool_slug": "GMAIL_SEND_EMAIL", "arguments": MAIL},
            {"tool_slug": "SLACK_SEND_MESSAGE", "arguments": {"channel": "#all", "text": "hi"}},
        ]
    }
    async with emulated() as (composio, yard):
        composio.connect("acme", "gmail")
        result = (await call(yard, EXECUTE, several)).result
    data = result["structuredContent"]
    assert "successful" not in data
    assert [one["success"] for one in data["results"]] == [True, False]
    assert json.loads(result["content"][-1]["text"]) == data


async def test_a_legacy_client_is_served_in_its_own_session_too():
    async with emulated() as (composio, yard):
        composio.connect("acme", "gmail")
        await yard.tools()
        client = await yard.legacy()
        result = (await client.call(f"mcp__composio__{SEARCH}", **QUERY)).result
    assert result["structuredContent"]["results"][0]["primary_tool_slugs"]
    assert len(composio.sessions) == 2


@pytest.mark.parametrize("fault", ["500", "503", "dropped", "garbled"])
async def test_an_execution_that_may_have_had_its_effect_is_not_repeated(fault: str):
    async with emulated() as (composio, yard):
        composio.connect("acme", "gmail")
        await mail(yard)
        match fault:
            case "dropped":
                composio.drop("session.execute", times=9)
            case "garbled":
                composio.garble("session.execute", times=9)
            case status:
                composio.fail("session.execute", int(status), times=9)
        assert "composio" in (await mail(yard)).error["message"]
    assert len(composio.asked("session.execute")) == 2


@pytest.mark.parametrize("status", [429, 503])
async def test_one_that_was_turned_away_for_now_is_made_again_when_it_may_be(status: int):
    async with emulated() as (composio, yard):
        composio.connect("acme", "gmail")
        await yard.tools(PATH)
        composio.fail("session.create", status, retry_after=0)
        composio.fail("session.execute", status, retry_after=0)
        assert not (await mail(yard)).result.get("isError")
    assert len(composio.records["emails"]) == 1


async def test_one_told_to_come_back_after_its_time_is_over_is_told_so_at_once():
    async with emulated() as (composio, yard):
        composio.connect("acme", "gmail")
        composio.fail("session.execute", 429, retry_after=3600)
        error = (await mail(yard)).error
    assert error["data"]["retryAfterMs"] == 3_600_000
    assert not composio.records.get("emails")


async def test_one_that_does_not_answer_ends_with_its_time_limit():
    async with emulated(timeout=0.5) as (composio, yard):
        composio.connect("acme", "gmail")
        held = composio.slow("session.execute")
        assert "0.5 s" in (await mail(yard)).error["message"]
        held.release()


DENIED = {"deny": ("GMAIL_SEND_*", "COMPOSIO_REMOTE_*"), "rename": {"SLACK_SEND_MESSAGE": "POST"}}


async def test_a_denied_tool_is_unknown_however_it_is_named():
    async with emulated(**DENIED) as (composio, yard):
        composio.connect("acme", "gmail")
        assert not [name for name in await yard.tools(PATH) if "REMOTE" in name]
        for name in ("GMAIL_SEND_EMAIL", "gmail_send_email", " GMAIL_SEND_EMAIL"):
            answer = (await call(yard, name.strip(), MAIL)).json
            assert "Unknown tool" in json.dumps(answer), answer
            several: Any = [{"tool_slug": name, "arguments": MAIL}]
            inner = {"tool_slug": EXECUTE, "arguments": {"tools": several}}
            escaped = json.dumps(several).replace("tool_slug", "tool\\u005fslug")
            for tools in (several, [inner], json.dumps(several), escaped, json.dumps(escaped)):
                result = (await call(yard, EXECUTE, {"tools": tools})).result
                assert result["isError"]
                assert "Unknown tool" in result["content"][0]["text"]
            lower = (await call(yard, EXECUTE.lower(), {"tools": several})).json
            assert "Unknown tool" in json.dumps(lower)
    assert not composio.records.get("emails")
    assert not composio.asked("session.execute")


async def test_what_a_search_shows_and_lends_leaves_denied_tools_out_and_renames_the_others():
    async with emulated(**DENIED) as (_, yard):
        over_mcp = (await call(yard, SEARCH, QUERY)).result
        found = await remote(yard).search(of(), [query("send an email or a slack message")], 20)
        described = await remote(yard).describe(of(), ["GMAIL_SEND_EMAIL", "SLACK_SEND_MESSAGE"])
        catalogue = yard.gateway.catalogue
        assert catalogue.find_discovered("mcp__composio__POST", conversation_of(of())) is not None
        assert catalogue.find_discovered("mcp__composio__GMAIL_SEND_EMAIL", conversation_of(of())) is None
    slugs = over_mcp["structuredContent"]["tool_schemas"]
    assert slugs
    assert not [slug for slug in slugs if slug.startswith("GMAIL_SEND")]
    assert "GMAIL_SEND_EMAIL" not in over_mcp["structuredContent"]["results"][0]["primary_tool_slugs"]
    assert "GMAIL_SEND_EMAIL" not in [tool.own for tool in found.results[0]]
    assert "mcp__composio__POST" in [tool.name for tool in found.results[0]]
    assert [tool.name for tool in described] == ["mcp__composio__POST"]


async def test_who_denies_tools_and_not_the_sandbox_that_can_call_them_is_warned(
    caplog: pytest.LogCaptureFixture,
):
    async with emulated(**DENIED):
        assert "sandbox" not in caplog.text
    async with emulated(deny=("GMAIL_*",)):
        assert "deny 'COMPOSIO_REMOTE_*' too" in caplog.text


async def test_found_tools_are_lent_to_the_conversation_that_found_them_and_to_nobody_else():
    name = "mcp__composio__GMAIL_SEND_EMAIL"
    async with emulated() as (_, yard):
        await remote(yard).search(of(), [query("send an email")], 5)
        catalogue = yard.gateway.catalogue
        lent = catalogue.find_discovered(name, conversation_of(of()))
        assert lent is not None
        assert b"recipient_email" in lent.item.rest
        for other in (of(tenant="rival"), of(thread="another"), of(agent="another")):
            assert catalogue.find_discovered(name, conversation_of(other)) is None
        assert name not in await yard.tools()
        assert name in [entry.name for entry in catalogue.discovered(conversation_of(of()))]
        # A search that gives less of a tool does not make less of it.
        (found,) = (await remote(yard).search(of(), [query("fetch, label and reply to email")], 20)).results
        assert next(tool for tool in found if tool.name == name).input_schema is None
        again = catalogue.find_discovered(name, conversation_of(of()))
        assert again is not None
        assert b"recipient_email" in again.item.rest
