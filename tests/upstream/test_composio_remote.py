"""What is asked of Composio beside calls: its search, its apps, their accounts; and when it fails."""

import asyncio
from typing import Any
from urllib.request import urlopen

import pytest

from tests.emulators.composio import ComposioEmulator
from tests.upstream.composio import call, emulated, front, mail, of, query, remote, sessions_of
from toolyard.catalogue.catalogue import conversation_of
from toolyard.upstream.errors import UpstreamError, UpstreamTimeoutError

SHAPES = pytest.mark.parametrize("shape", ["2026", "2025"])
APIS = pytest.mark.parametrize("v31", [True, False])


def authorise(link: str) -> None:
    """What the user does in the browser."""
    with urlopen(link) as page:
        assert page.status == 200


@SHAPES
@APIS
async def test_both_forms_of_a_search_of_both_versions_say_the_same(shape: Any, v31: bool):
    async with emulated(shape=shape, v31=v31) as (composio, yard):
        composio.connect("acme", "gmail")
        asked = [query("send an email", known_fields="to:ana"), query("create a github issue")]
        answer = await remote(yard).search(of(), asked, 4)
        session = await remote(yard).session(of())
    first, second = answer.results
    assert first[0].own == "GMAIL_SEND_EMAIL"
    assert (first[0].name, first[0].toolkit, first[0].title) == (
        "mcp__composio__GMAIL_SEND_EMAIL",
        "gmail",
        "Send email",
    )
    assert (first[0].recommended, first[0].connected, first[0].auth) == (True, True, "connected")
    assert first[0].input_schema is not None
    assert "recipient_email" in first[0].input_schema["properties"]
    assert not any(tool.connected for tool in second if tool.toolkit == "github")
    assert len(first) == 4
    assert answer.session == session
    assert session.source == "composio"
    assert session.id in sessions_of(composio, "acme")
    assert answer.guidance


async def test_a_search_that_finds_nothing_gives_an_empty_list_for_each_question():
    async with emulated() as (composio, yard):
        composio.empty("session.search")
        answer = await remote(yard).search(of(), [query("send an email"), query("anything")], 5)
    assert answer.results == ((), ())


@pytest.mark.parametrize("fault", ["500", "dropped", "garbled", "429"])
async def test_a_search_that_fails_says_so_at_once_and_is_not_put_again(fault: str):
    async with emulated() as (composio, yard):
        await remote(yard).session(of())
        match fault:
            case "dropped":
                composio.drop("session.search", times=9)
            case "garbled":
                composio.garble("session.search", times=9)
            case "429":
                composio.fail("session.search", 429, times=9, retry_after=600)
            case status:
                composio.fail("session.search", int(status), times=9)
        with pytest.raises(UpstreamError) as failed:
            await remote(yard).search(of(), [query("send an email")], 5)
    assert failed.value.server == "composio"
    assert len(composio.asked("session.search")) == 1


async def test_a_search_that_may_come_back_in_a_moment_comes_back():
    async with emulated() as (composio, yard):
        composio.fail("session.search", 429, retry_after=0)
        answer = await remote(yard).search(of(), [query("send an email")], 5)
    assert answer.results[0]


async def test_a_search_that_does_not_answer_ends_with_the_time_limit():
    async with emulated(timeout=0.5) as (composio, yard):
        await remote(yard).session(of())
        held = composio.slow("session.search")
        with pytest.raises(UpstreamTimeoutError):
            await remote(yard).search(of(), [query("send an email")], 5)
        held.release()


async def test_one_that_is_known_to_be_down_is_not_even_asked():
    async with ComposioEmulator() as composio:
        composio.fail("session.create", 500, times=1000)
        async with front(composio) as yard:
            await yard.until_health(lambda health: health["servers"]["composio"]["state"] == "down")
            asked = len(composio.requests)
            with pytest.raises(UpstreamError):
                await remote(yard).toolkits(of(), "mail", "", 5)
            assert not [request for request in composio.requests[asked:] if "toolkits" in request.path]


async def test_apps_are_found_by_their_own_search_or_by_the_words_of_a_use_case():
    async with emulated() as (_, yard):
        named = await remote(yard).toolkits(of(), "gmail", "", 5)
        described = await remote(yard).toolkits(of(), "please send a mail to everybody", "", 2)
        nothing = await remote(yard).toolkits(of(), "zzz qqq", "", 2)
        one = await remote(yard).toolkit(of(), "gmail")
        none = await remote(yard).toolkit(of(), "no/such?app")
    assert [kit.slug for kit in named] == ["gmail"]
    assert "gmail" in [kit.slug for kit in described]
    assert len(described) == 2
    assert nothing == []
    assert one is not None
    assert (one.name, one.auth_schemes, one.managed_auth_schemes) == ("Gmail", ("OAUTH2",), ("OAUTH2",))
    assert "communication" in one.categories
    assert none is None


async def test_only_the_apps_that_were_chosen_are_there():
    async with emulated(toolkits=("gmail",)) as (_, yard):
        kits = await remote(yard).toolkits(of(), "", "", 50)
        assert [kit.slug for kit in kits] == ["gmail"]
        assert await remote(yard).toolkit(of(), "slack") is None
        assert await remote(yard).tools_of(of(), "slack") == ()
        assert await remote(yard).describe(of(), ["SLACK_SEND_MESSAGE"]) == []
        answer = await remote(yard).search(of(), [query("post a slack message")], 9)
        assert {tool.toolkit for tool in answer.results[0]} <= {"gmail"}


async def test_the_tools_of_an_app_and_tools_by_name_come_with_schemas_and_are_lent():
    async with emulated() as (composio, yard):
        composio.connect("acme", "gmail")
        all_of_them = await remote(yard).tools_of(of(), "gmail")
        names = ["GMAIL_SEND_EMAIL", "mcp__composio__SLACK_SEND_MESSAGE", "NO_SUCH_TOOL", "mcp__other__X"]
        described = await remote(yard).describe(of(thread="another"), names)
        catalogue = yard.gateway.catalogue
        fetch = catalogue.find_discovered("mcp__composio__GMAIL_FETCH_EMAILS", conversation_of(of()))
        assert fetch is not None
        assert fetch.item.safe
        send = catalogue.find_discovered(
            "mcp__composio__GMAIL_SEND_EMAIL", conversation_of(of(thread="another"))
        )
        assert send is not None
        assert not send.item.safe
    assert "GMAIL_FETCH_EMAILS" in [tool.own for tool in all_of_them]
    assert {tool.toolkit for tool in all_of_them} == {"gmail"}
    assert [tool.own for tool in described] == ["GMAIL_SEND_EMAIL", "SLACK_SEND_MESSAGE"]
    assert all(tool.input_schema and tool.output_schema for tool in described)
    assert "successful" not in str(described[0].output_schema)


async def test_a_name_that_had_to_be_shortened_is_known_again_where_it_was_never_found():
    slug = "GITHUB_STAR_A_REPOSITORY_FOR_THE_AUTHENTICATED_USER"
    async with emulated() as (_, yard):
        found = await remote(yard).tools_of(of(), "github")
        name = next(tool.name for tool in found if tool.own == slug)
        assert slug not in name
        again = await remote(yard).describe(of(thread="another"), [name])
        assert [tool.own for tool in again] == [slug]
        lent = yard.gateway.catalogue.discovered(conversation_of(of(thread="another")))
        assert [entry.name for entry in lent] == [name]
        assert await remote(yard).describe(of(), [name[:-8] + "00000000", "not_one_of_them"]) == []


@APIS
async def test_an_account_is_connected_by_a_link_and_waited_for(v31: bool):
    async with emulated(v31=v31) as (_, yard):
        composio = remote(yard)
        before = await composio.connections(of(), ["gmail", "codeinterpreter", "nowhere"])
        assert [one.status for one in before] == ["none", "active", "failed"]
        assert "no account" in before[1].message
        assert "nowhere" in before[2].message
        link = await composio.link(of(), "gmail")
        assert (link.status, link.server, link.toolkit) == ("initiated", "composio", "gmail")
        assert link.link is not None
        assert not (await composio.wait(of(), ["gmail"], 0))[0].is_active
        waiting = asyncio.create_task(composio.wait(of(), ["gmail"], 30))
        await asyncio.to_thread(authorise, link.link)
        (connected,) = await waiting
        assert connected.is_active
        assert connected.account == link.account
        assert (await composio.link(of(), "gmail")).link is None
        assert [one.toolkit for one in await composio.connections(of(), [])] == ["gmail"]
        assert not (await composio.connections(of(tenant="rival"), ["gmail"]))[0].is_active
        assert not (await mail(yard)).result.get("isError")


async def test_an_app_that_wants_a_key_says_which_and_is_connected_with_it():
    async with emulated() as (_, yard):
        asked = await remote(yard).link(of(), "tavily", fields={"region": "eu"})
        assert (asked.status, asked.required) == ("requires_parameters", ("generic_api_key",))
        assert "generic_api_key" in asked.message
        given = await remote(yard).link(of(), "tavily", fields={"generic_api_key": "tvly-1"})
        assert given.is_active
        assert (await remote(yard).connections(of(), ["tavily"]))[0].account == given.account
        assert (await remote(yard).link(of(), "nowhere")).status == "failed"
        assert (await remote(yard).link(of(), "codeinterpreter")).is_active


async def test_waiting_for_one_of_several_ends_with_the_first():
    async with emulated() as (composio, yard):
        composio.connect("acme", "gmail")
        found = await remote(yard).wait(of(), ["gmail", "slack"], 30, every=False)
    assert [one.is_active for one in found] == [True, False]


async def test_a_wait_that_is_given_up_is_over():
    async with emulated() as (composio, yard):
        waiting = asyncio.create_task(remote(yard).wait(of(), ["slack"], 500))
        held = composio.slow("session.toolkits")
        await held.arrived.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        held.release()


@SHAPES
async def test_the_fork_s_endpoints_find_apps_whose_tools_are_executed_directly(shape: Any):
    async with emulated(api="labs", shape=shape) as (composio, yard):
        composio.connect("acme", "gmail")
        answer = await remote(yard).search(of(), [query("send an email")], 4)
        (connection,) = await remote(yard).connections(of(), ["gmail"])
        link = await remote(yard).link(of(), "slack")
        sent = await mail(yard)
        unknown = await call(yard, "GMAIL_NOT_THERE")
    assert "GMAIL_SEND_EMAIL" in [tool.own for tool in answer.results[0]]
    assert answer.session is not None
    assert answer.session.id in composio.sessions
    assert connection.is_active
    assert link.link is not None
    assert not sent.result.get("isError")
    assert unknown.result["isError"]
    (executed,) = [item for item in composio.requests if item.path.endswith("/execute/GMAIL_SEND_EMAIL")]
    assert executed.headers["x-composio-session-id"] == answer.session.id
    assert executed.body["user_id"] == "acme"


async def test_the_fork_s_search_says_which_apps_nobody_connected():
    async with emulated(api="labs") as (composio, yard):
        composio.connect("acme", "gmail")
        asked = [query("send an email"), query("open an issue on github"), query("run python code")]
        answer = await remote(yard).search(of(), asked, 4)
        standing = {tool.toolkit: (tool.connected, tool.auth) for found in answer.results for tool in found}
        assert standing["gmail"] == (True, "connected")
        assert standing["github"] == (False, "unknown")
        assert standing["codeinterpreter"] == (True, "connected"), "it needs no account"
        composio.fail("accounts.list", 500, times=9)
        (found,) = (await remote(yard).search(of(), asked[1:2], 4)).results
        assert not any(tool.connected for tool in found if tool.toolkit == "github")


async def test_without_a_session_the_fork_s_endpoints_are_used_without_one():
    async with ComposioEmulator() as composio:
        composio.connect("acme", "gmail")
        composio.fail("labs.session", 500, times=1000)
        async with front(composio, api="labs") as yard:
            await yard.until_health(lambda health: health["servers"]["composio"]["state"] == "up")
            session = await remote(yard).session(of())
            sent = await mail(yard)
    assert session.is_local
    assert not sent.result.get("isError")
    assert not [item for item in composio.requests if "x-composio-session-id" in item.headers]
