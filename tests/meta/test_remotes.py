"""A remote that searches by itself, beside our index: who is asked, who answers, and what is said of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.app.speaker import Exchange, Speaker, speaking, text, tool
from tests.app.yard import at
from tests.meta.apps import Apps
from tests.meta.office import Front, found_in, front, in_thread, text_of
from toolyard.config import SearchConfig

PATIENT = SearchConfig(remote_seconds=5.0, list_found=True)
LOCAL = [tool("send_email", description="Send an email to somebody.")]


@asynccontextmanager
async def remote(settings: SearchConfig = PATIENT, local: Any = LOCAL) -> AsyncIterator[tuple[Front, Apps]]:
    """A server of ours, and a remote behind another that lists nothing."""
    lender = Speaker("modern", [])

    async def echo(exchange: Exchange) -> None:
        await exchange.result(text(f"{exchange.name} to {exchange.arguments.get('to')}"))

    lender.on["tools/call"] = echo
    async with (
        speaking(Speaker("modern", local)) as ours,
        speaking(lender) as theirs,
        front(at(ours, "mail"), at(theirs, "apps"), search=settings) as client,
    ):
        supplies = client.gateway.search.context
        found = Apps(supplies.view_context.catalogue, supplies.leases, "apps")
        supplies.remotes = lambda: {"apps": found}
        yield client, found


async def test_both_are_asked_and_their_finds_are_one_list_whose_tools_can_be_called():
    async with remote() as (client, _):
        answer = await client.search("send an email to somebody", headers=in_thread("t"))
        assert answer["source"] == "composio+local"
        assert answer["session"]["id"] == "trs_t"
        assert answer["session"]["source"] == "composio"
        found = {one["tool"]: one for one in answer["results"][0]["results"]}
        assert set(found) == {"mcp__apps__MAIL_SEND", "mcp__apps__MAIL_READ", "mcp__mail__send_email"}
        assert found["mcp__apps__MAIL_SEND"]["recommended"] is True
        theirs = found["mcp__apps__MAIL_SEND"]
        assert (theirs["connected"], theirs["auth"]) == (False, "oauth")
        assert found["mcp__mail__send_email"]["connected"] is True
        scores = [one["score"] for one in answer["results"][0]["results"]]
        assert scores == sorted(scores, reverse=True)
        given = {"to": "ann"}
        sent = await client.through("mcp__apps__MAIL_SEND", given, headers=in_thread("t"))
        assert text_of(sent) == "MAIL_SEND to ann"
        direct = await client.call("mcp__apps__MAIL_SEND", given, headers=in_thread("t"))
        assert text_of(direct.result) == "MAIL_SEND to ann"
        assert "mcp__apps__MAIL_SEND" in await client.listed(headers=in_thread("t"))
        assert "mcp__apps__MAIL_SEND" not in await client.listed(headers=in_thread("u"))
        missing = await client.through("mcp__apps__MAIL_SEND", {}, headers=in_thread("t"))
        assert "'to' is missing" in text_of(missing)
        # The session that the remote gave stands for this conversation.
        again = await client.search("send", session="trs_t", headers=in_thread("elsewhere"))
        assert again["session"]["id"] == "trs_t"


async def test_a_tool_that_this_process_never_saw_is_borrowed_when_it_is_called_or_described():
    async with remote() as (client, _):
        assert text_of(await client.through("mcp__apps__FAX_SEND", {"to": "bob"})) == "FAX_SEND to bob"
        headers = in_thread("new")
        assert text_of((await client.call("mcp__apps__MAIL_READ", {"to": "x"}, headers=headers)).result)
        described = await client.meta("describe_tools", {"tools": ["mcp__apps__MAIL_SEND"]}, headers=headers)
        (found,) = described["structuredContent"]["tools"]
        assert (found["input_schema"]["required"], found["auth"]) == (["to"], "oauth")
        assert "not found" in text_of(await client.through("mcp__apps__NO_SUCH_TOOL"))


async def test_when_the_remote_is_down_or_empty_the_index_answers_and_says_so():
    async with remote() as (client, apps):
        for mood, finds, reason, session in (
            ("down", ["MAIL_SEND"], "it broke off", "local"),
            ("well", [], "it found nothing", "composio"),
        ):
            apps.mood, apps.finds = mood, finds
            answer = await client.search("send an email to somebody")
            assert answer["source"] == "fallback"
            assert [one["tool"] for one in answer["results"][0]["results"]] == ["mcp__mail__send_email"]
            assert answer["missing"] == [{"server": "apps", "reason": reason}]
            assert answer["session"]["source"] == session
        assert apps.searched_for == []


async def test_nobody_waits_longer_for_a_slow_remote_than_is_set():
    async with remote(SearchConfig(remote_seconds=0.3)) as (client, apps):
        apps.mood = "slow"
        answer = await client.search("send an email to somebody")
        assert answer["source"] == "fallback"
        assert answer["missing"] == [{"server": "apps", "reason": "it did not answer within 0.3 s"}]
        assert [one["tool"] for one in answer["results"][0]["results"]] == ["mcp__mail__send_email"]


async def test_when_nobody_has_anything_the_apps_that_sound_like_it_are_looked_through():
    async with remote(local=[tool("paint_wall", description="Paint a wall.")]) as (client, apps):
        apps.finds = []
        answer = await client.search("send a fax")
        assert answer["source"] == "fallback"
        assert apps.searched_for == ["send a fax"]
        assert answer["results"][0]["results"][0]["tool"] == "mcp__apps__FAX_SEND"
        assert text_of(await client.through("mcp__apps__FAX_SEND", {"to": "ann"})) == "FAX_SEND to ann"


async def test_a_query_for_one_of_our_servers_does_not_leave_and_the_answers_stay_in_their_places():
    async with remote() as (client, apps):
        queries = [
            {"use_case": "send an email", "server": "mail"},
            {"use_case": "send an email", "server": "apps"},
            {"use_case": "send an email", "server": "gmail"},
        ]
        result = await client.meta("search_tools", {"queries": queries})
        ours, theirs, app = found_in(result)["results"]
        assert [one["server"] for one in ours["results"]] == ["mail"]
        assert {one["server"] for one in (*theirs["results"], *app["results"])} == {"apps"}
        assert [[query.server for query in asked] for asked in apps.asked] == [["apps", "gmail"]]
        apps.finds = ["MAIL_SEND"]
        only = await client.meta("search_tools", {"queries": [{"use_case": "quantum", "server": "apps"}]})
        assert found_in(only)["source"] == "composio"
        await client.meta("search_tools", {"queries": queries[:1]})
        assert len(apps.asked) == 2


async def test_connections_are_shown_linked_and_waited_for():
    async with remote() as (client, apps):
        status = await client.meta("manage_connections")
        assert status["structuredContent"] == {
            "connections": [{"server": "mail", "status": "active", "message": "1 tool"}]
        }
        link = await client.meta("manage_connections", {"action": "link", "names": ["gmail"]})
        (gmail,) = link["structuredContent"]["connections"]
        assert (gmail["server"], gmail["toolkit"], gmail["status"]) == ("apps", "gmail", "initiated")
        assert gmail["link"] == "https://connect.example/gmail"
        apps.authorised.set()
        waited = await client.meta(
            "manage_connections", {"action": "wait", "names": ["gmail", "mail"], "seconds": 5}
        )
        found = waited["structuredContent"]["connections"]
        states = {one.get("toolkit", one["server"]): one["status"] for one in found}
        assert states == {"mail": "active", "gmail": "active"}
        apps.mood = "down"
        broken = await client.meta("manage_connections", {"names": ["apps/gmail"]})
        (gmail,) = broken["structuredContent"]["connections"]
        assert (gmail["status"], gmail["message"]) == ("failed", "it broke off")
        wrong = await client.meta("manage_connections", {"action": "link"})
        assert wrong["isError"] is True
