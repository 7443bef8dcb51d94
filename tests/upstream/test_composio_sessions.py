"""Sessions with Composio: whose they are, that they are begun once, and what happens when one is over."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from tests.app.speaker import Exchange, Speaker, speaking, tool
from tests.app.yard import yard
from tests.emulators.composio import ComposioEmulator
from tests.upstream.composio import (
    EXECUTE,
    MAIL,
    PATH,
    SEARCH,
    call,
    emulated,
    front,
    mail,
    of,
    query,
    remote,
    sessions_of,
)
from toolyard.composio import UserIds
from toolyard.config import Http, load
from toolyard.upstream.errors import UpstreamError

QUERY = {"queries": [{"use_case": "send an email"}]}


async def test_a_tenant_s_conversation_has_one_session_in_its_own_name_and_lists_have_another():
    callback = "https://example.com/back"
    async with emulated(toolkits=("gmail", "slack"), callback_url=callback) as (composio, yard):
        assert SEARCH in await yard.tools(PATH)
        assert [session.user_id for session in composio.sessions.values()] == ["toolyard"]
        found = (await call(yard, SEARCH, QUERY)).result["structuredContent"]
        assert found["results"][0]["primary_tool_slugs"][0] == "GMAIL_SEND_EMAIL"
        await call(yard, SEARCH, QUERY)
        composio.connect("acme", "gmail")
        await mail(yard)
    (id,) = sessions_of(composio, "acme")
    assert composio.sessions[id].config == {
        "toolkits": {"enable": ["gmail", "slack"]},
        "manage_connections": {"callback_url": callback},
        "workbench": {"auto_offload_threshold": 5_000_000},
    }
    assert len(composio.sessions) == 2
    assert all(request.headers["x-api-key"] == composio.api_key for request in composio.requests)


async def test_tenants_and_conversations_never_meet_in_a_session():
    async with emulated() as (composio, yard):
        composio.connect("acme", "gmail")
        for tenant, thread in [("acme", "1"), ("acme", "2"), ("rival", "1"), ("rival", "")]:
            await call(yard, SEARCH, QUERY, tenant=tenant, thread=thread)
        refused = await mail(yard, tenant="rival", thread="1")
        sent = await mail(yard, tenant="acme", thread="1")
    assert [len(sessions_of(composio, user)) for user in ("acme", "rival")] == [2, 2]
    assert "No connected account" in refused.result["content"][0]["text"]
    assert refused.result["isError"]
    assert not sent.result.get("isError")
    used = [request.path for request in composio.asked("mcp.tools/call.COMPOSIO_SEARCH_TOOLS")]
    assert len(set(used)) == 4


async def test_an_address_that_knows_only_the_older_version_is_used_all_the_same():
    async with emulated(v31=False) as (composio, yard):
        composio.connect("acme", "gmail")
        assert SEARCH in await yard.tools(PATH)
        answer = await remote(yard).search(of(), [query("send an email")], 3)
        assert answer.results[0][0].own == "GMAIL_SEND_EMAIL"
        assert not (await mail(yard)).result.get("isError")
        assert [one.status for one in await remote(yard).connections(of(), ["gmail", "slack"])] == [
            "active",
            "none",
        ]
    assert composio.asked("session.execute_meta")
    assert len(composio.records["emails"]) == 1


@pytest.mark.parametrize("status", [401, 404, 410, 200])
async def test_a_session_that_ends_in_the_middle_is_renewed_and_the_tool_is_executed_once(status: int):
    async with emulated() as (composio, yard):
        composio.connect("acme", "gmail")
        await mail(yard, 1)
        composio.expire(sessions_of(composio, "acme")[0], status)
        assert not (await mail(yard, 2)).result.get("isError")
        composio.expire(sessions_of(composio, "acme")[1], status)
        assert "structuredContent" in (await call(yard, SEARCH, QUERY)).result
        composio.expire(sessions_of(composio, "acme")[2], status)
        if status != 200:  # a search over REST has no such form
            assert (await remote(yard).search(of(), [query("send an email")], 3)).results[0]
    assert [sent["subject"] for sent in composio.records["emails"]] == ["1", "2"]
    assert len(sessions_of(composio, "acme")) == (3 if status == 200 else 4)


@pytest.mark.parametrize("status", [401, 200])
async def test_twenty_calls_in_a_session_that_is_over_begin_one_new_one(status: int):
    async with emulated() as (composio, yard):
        composio.connect("acme", "gmail")
        await mail(yard, 0)
        composio.expire(sessions_of(composio, "acme")[0], status)
        answers = await asyncio.gather(*(mail(yard, number) for number in range(1, 21)))
        assert not [answer for answer in answers if answer.result.get("isError")]
    assert len(sessions_of(composio, "acme")) == 2
    assert sorted(int(sent["subject"]) for sent in composio.records["emails"]) == list(range(21))


async def test_a_tool_taken_out_of_service_does_not_cost_the_session():
    async with emulated() as (composio, yard):
        composio.connect("acme", "gmail")
        await mail(yard)
        composio.fail("session.execute", 410, message="Tool GMAIL_SEND_EMAIL has been deprecated")
        answer = (await mail(yard)).result
        assert answer["isError"]
        assert "deprecated" in answer["content"][0]["text"]
    assert len(sessions_of(composio, "acme")) == 1


async def test_a_restarted_gateway_goes_on_in_the_session_of_the_conversation(tmp_path: Path):
    async with ComposioEmulator() as composio:
        composio.connect("acme", "gmail")
        for number in (1, 2):
            async with front(composio, state=str(tmp_path), kept="sqlite:") as yard:
                assert not (await mail(yard, number)).result.get("isError")
                await call(yard, SEARCH, QUERY)
        assert len(sessions_of(composio, "acme")) == 1
        assert len(sessions_of(composio, "toolyard")) == 1
        assert len(composio.records["emails"]) == 2


@pytest.mark.parametrize("status", [401, 404, 410])
async def test_a_session_for_lists_that_ended_while_the_gateway_was_down_is_begun_anew(
    tmp_path: Path, status: int
):
    async with ComposioEmulator() as composio:
        for _ in range(2):
            async with front(composio, state=str(tmp_path), kept="sqlite:") as yard:
                await yard.until_health(lambda health: health["servers"]["composio"]["state"] == "up")
                composio.expire(sessions_of(composio, "toolyard")[0], status)
        assert len(sessions_of(composio, "toolyard")) == 2


async def test_another_choice_of_apps_is_another_session(tmp_path: Path):
    async with ComposioEmulator() as composio:
        for apps in (("gmail",), ("gmail", "slack")):
            async with front(composio, state=str(tmp_path), kept="sqlite:", toolkits=apps) as yard:
                await call(yard, SEARCH, QUERY)
    chosen = [composio.sessions[id].config["toolkits"]["enable"] for id in sessions_of(composio, "acme")]
    assert chosen == [["gmail"], ["gmail", "slack"]]


async def test_a_wrong_key_is_named_as_the_reason_and_never_shown(caplog: pytest.LogCaptureFixture):
    async with emulated(key="ak_quite_wrong_and_secret") as (_, yard):
        health = await yard.until_health(lambda health: health["servers"]["composio"]["state"] == "down")
        error = (await mail(yard)).error
        with pytest.raises(UpstreamError) as failed:
            await remote(yard).session(of())
    said = f"{json.dumps(health)} {error} {failed.value} {caplog.text}"
    assert "401" in health["servers"]["composio"]["reason"]
    assert "ak_quite_wrong_and_secret" not in said


@pytest.mark.parametrize("tool", ["GMAIL_SEND_EMAIL", EXECUTE])
async def test_a_key_that_a_refusal_repeats_is_blotted_out(tool: str):
    async with emulated() as (composio, yard):
        composio.connect("acme", "gmail")
        await mail(yard)
        for operation in ("session.execute", f"mcp.tools/call.{EXECUTE}"):
            composio.fail(operation, 403, message=f"the key {composio.api_key} may not do that")
        arguments = (
            {"tools": [{"tool_slug": "GMAIL_SEND_EMAIL", "arguments": MAIL}]} if tool == EXECUTE else MAIL
        )
        body = (await call(yard, tool, arguments)).body.decode()
    assert "403" in body or "may not" in body
    assert composio.api_key not in body


async def test_a_key_that_a_result_repeats_is_blotted_out():
    async with emulated() as (composio, yard):
        composio.connect("acme", "gmail")
        asked = {"queries": [{"use_case": f"send an email about {composio.api_key}"}]}
        found = (await call(yard, SEARCH, asked)).body.decode()
        sent = (await call(yard, "GMAIL_SEND_EMAIL", MAIL | {"subject": composio.api_key})).body.decode()
    assert "send an email about ***" in found
    assert '"subject": "***"' in sent
    assert composio.api_key not in found + sent


async def test_an_address_for_mcp_that_is_gone_without_a_word_costs_the_session():
    async with emulated() as (composio, yard):
        await call(yard, SEARCH, QUERY)
        # To the call, and to the three ways in which the address is then asked what it is.
        composio.fail("mcp", 404, times=4, message="Not Found")
        assert "structuredContent" in (await call(yard, SEARCH, QUERY)).result
    assert len(sessions_of(composio, "acme")) == 2


async def test_a_service_that_comes_up_later_is_used_at_once():
    async with ComposioEmulator() as composio:
        composio.fail("session.create", 500, times=1000)
        async with front(composio) as yard:
            assert "500" in (await mail(yard)).json["error"]["message"]
            composio.faults.clear()
            composio.connect("acme", "gmail")
            await yard.until_health(lambda health: health["servers"]["composio"]["state"] == "up")
            assert not (await mail(yard)).result.get("isError")


async def test_a_caller_who_hangs_up_leaves_nothing_running():
    async with emulated() as (composio, yard):  # which looks for tasks left behind
        composio.connect("acme", "gmail")
        for operation in ("session.create", "session.execute", f"mcp.tools/call.{SEARCH}"):
            tool = SEARCH if SEARCH in operation else "GMAIL_SEND_EMAIL"
            held = composio.slow(operation)
            calling = asyncio.create_task(call(yard, tool, QUERY if tool == SEARCH else MAIL))
            await held.arrived.wait()
            calling.cancel()
            held.release()
        search = composio.slow("session.search")
        asking = asyncio.create_task(remote(yard).search(of(), [query("send an email")], 3))
        await search.arrived.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking


async def test_the_guide_s_configuration_works_as_it_stands(tmp_path: Path):
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "composio.md").read_text()
    blocks = re.findall(r"```toml\n(.*?)```", guide, re.S)
    async with ComposioEmulator() as composio:
        env = {"COMPOSIO_API_KEY": composio.api_key, "COMPOSIO_BASE_URL": composio.url}
        (tmp_path / "toolyard.toml").write_text("\n".join(blocks))
        config = load(tmp_path / "toolyard.toml", env)
        assert [server.name for server in config.servers] == ["composio", "local_toolkit", "suna"]
        suna = next(server for server in config.servers if server.name == "suna")
        assert isinstance(suna.where, Http)
        assert suna.where.session_url
        mounted = next(server for server in config.servers if server.name == "composio")
        async with yard(mounted, tables={"state": config.state}) as built:
            tools = await built.tools()
    assert f"mcp__composio__{SEARCH}" in tools
    assert not [name for name in tools if "REMOTE" in name]


def test_user_ids_differ_whenever_the_values_that_they_name_do():
    assert UserIds("{tenant}").of("acme/1", "acme/1", "", "") == "acme/1"
    assert UserIds("fixed").of("acme", "acme", "a", "t") == "fixed"
    assert UserIds("{thread}").of("acme", "acme", "a", "") == "default"
    assert UserIds("x-{agent}").of("acme", "acme", "{tenant}", "") == "x-{tenant}"
    for template in ("{tenant}-{thread}", "{tenant}{thread}", "{tenant}x{thread}", "{tenant}%{thread}"):
        ids = UserIds(template)
        pairs = [
            ("a", "b-c"),
            ("a-b", "c"),
            ("a", "-b"),
            ("axb", "c"),
            ("a", "bxc"),
            ("a%2Db", "c"),
            ("a.b", "c"),
        ]
        pairs += [("", "ab"), ("ab", ""), ("a", "b"), ("a", "2Db%25"), ("a-b", "25"), ("a", "2Db%")]
        assert len({ids.of(tenant, tenant, "", thread) for tenant, thread in pairs}) == len(pairs), template


def signing() -> Speaker:
    """The MCP endpoint of sessions: its tool asks who signs."""
    speaker = Speaker("legacy", [tool("COMPOSIO_SIGN")])

    async def call(exchange: Exchange) -> None:
        await exchange.stream()
        question = {"message": "Who signs?", "requestedSchema": {"type": "object", "properties": {}}}
        await speaker.ask(exchange, "elicitation/create", question)

    speaker.on["tools/call"] = call
    return speaker


async def test_a_call_that_nobody_will_answer_is_parked_no_longer():
    speaker = signing()
    calls = {"calls": [{"tool": "mcp__composio__COMPOSIO_SIGN", "arguments": {}}]}
    async with ComposioEmulator() as composio, speaking(speaker) as url:
        composio.world.mcp_url = url
        async with front(composio, view="search") as yard:
            answer = await yard.call("call_tools", calls, capabilities={"elicitation": {}})
            assert "call it alone" in answer.result["structuredContent"]["results"][0]["error"]
            await speaker.until_heard("notifications/cancelled")
            await yard.until_health(lambda health: health["parked"] == 0)


async def test_the_session_of_a_client_that_has_gone_is_closed():
    speaker = Speaker("legacy", [tool("COMPOSIO_ECHO")])
    async with ComposioEmulator() as composio, speaking(speaker) as url:
        composio.world.mcp_url = url
        async with front(composio) as yard:
            await yard.tools()
            client = await yard.legacy({"elicitation": {}})
            await client.call("mcp__composio__COMPOSIO_ECHO", text="hello")
            opened = speaker.openings[-1]
            assert opened["capabilities"] == {"elicitation": {}}
            assert not [one for one in speaker.seen if one.verb == "DELETE"]
            await client.end()
            await speaker.until(lambda: [one for one in speaker.seen if one.verb == "DELETE"])
