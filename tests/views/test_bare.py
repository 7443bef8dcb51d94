"""`view = "bare"`: what a client and the one server say to each other arrives as if nobody stood between."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.app.speaker import LEGACY, TOOLS_CHANGED, Exchange, Json, Speaker, speaking, text, tool
from tests.app.yard import at, yard
from tests.serving import MODERN, PATIENCE, PREFIX, LegacyClient, modern
from toolyard.config import ServerConfig, Stdio
from toolyard.config.callers import AccessConfig, AccessRule

HELLO = "com.example/hello"
UPDATED = "notifications/resources/updated"
OPENING = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}


class Both(Speaker):
    """Answers each request in its own era."""

    async def _answer(self, exchange: Exchange) -> None:
        self.era = "modern" if exchange.is_modern else "legacy"
        await super()._answer(exchange)


def bare(url: str, **options: Any) -> Any:
    return yard(at(url, **options), view="bare", server="up")


def asked(speaker: Speaker, method: str) -> list[Exchange]:
    """What clients asked, without what the gateway asks in its own name."""
    return [one for one in speaker.heard(method) if "toolyard" not in str(one.params.get("_meta"))]


# Its lists


async def test_a_list_is_the_servers_own_with_its_cursor_and_all_of_its_members():
    speaker = Both()
    hints = {"ttlMs": 0, "cacheScope": "public", "_meta": {"a": 1}}
    page = {"tools": [tool("echo")], "nextCursor": "theirs", **hints}

    async def lists(exchange: Exchange) -> None:
        await exchange.result({"tools": []} if "cursor" in exchange.params else page)

    speaker.on["tools/list"] = lists
    async with speaking(speaker) as url, bare(url) as front:
        answer = (await front.modern("tools/list")).result
        assert answer == {"resultType": "complete", **page}
        assert (await front.modern("tools/list", {"cursor": "theirs"})).result["tools"] == []
        assert [one.params.get("cursor") for one in asked(speaker, "tools/list")] == [None, "theirs"]
        session = await front.legacy()
        assert (await session.request("tools/list")).result == page  # a legacy server may say so too


async def test_nobody_but_its_clients_asks_for_its_lists():
    speaker = Both()
    async with speaking(speaker) as url, bare(url) as front:
        await front.tools()
        assert await front.says("echo", {"text": "a"}) == "a"
        session = await front.legacy()
        await session.call("echo", text="b")
        await session.request("tools/list")
    assert len(speaker.heard("tools/list")) == 2


async def test_a_legacy_client_gets_no_members_of_the_other_era():
    speaker = Speaker("modern")
    meta = {PREFIX + "serverInfo": {"name": "speaker"}, "kept": 1}

    async def calls(exchange: Exchange) -> None:
        await exchange.result({**text("hello"), "_meta": meta})

    async def lists(exchange: Exchange) -> None:
        await exchange.result({"tools": [tool("echo")], "ttlMs": 0, "cacheScope": "public"})

    speaker.on |= {"tools/call": calls, "tools/list": lists}
    async with speaking(speaker) as url, bare(url) as front:
        session = await front.legacy()
        assert (await session.call("echo")).result == text("hello", _meta={"kept": 1})
        assert (await session.request("tools/list")).result == {"tools": [tool("echo")]}


@pytest.mark.parametrize("view", ["bare", "all"])
async def test_what_a_client_has_written_it_reads(view: str):
    speaker = Speaker("modern", [tool("add")])

    async def adds(exchange: Exchange) -> None:  # and says nothing of it
        speaker.tools.append(tool(f"tool-{len(speaker.tools)}"))
        await exchange.result(text("added"))

    speaker.on["tools/call"] = adds
    async with speaking(speaker) as url, yard(at(url), view=view, server="up") as front:
        name = "add" if view == "bare" else "mcp__up__add"
        for count in (2, 3, 4):
            assert await front.says(name) == "added"
            assert len(await front.tools()) == count


async def test_a_server_that_wants_to_be_asked_is_asked_in_merged_views_too():
    speaker = Speaker("modern")

    async def lists(exchange: Exchange) -> None:
        await exchange.result({"tools": speaker.tools, "ttlMs": 0})

    speaker.on["tools/list"] = lists
    async with speaking(speaker) as url, yard(at(url)) as front:
        assert await front.tools() == ["mcp__up__echo"]
        speaker.tools.append(tool("new"))
        assert await front.tools() == ["mcp__up__echo", "mcp__up__new"]


async def test_a_list_that_fails_is_an_error_in_the_servers_own_words():
    speaker = Both()

    async def refuse(exchange: Exchange) -> None:
        await exchange.error(-32001, "log in first", data={"where": "here"})

    speaker.on["tools/list"] = refuse
    async with speaking(speaker) as url, bare(url) as front:
        session = await front.legacy()
        for answer in (await front.modern("tools/list"), await session.request("tools/list")):
            assert answer.error == {"code": -32001, "message": "log in first", "data": {"where": "here"}}


async def test_while_the_server_is_away_the_catalogue_stands_in():
    speaker = Speaker("modern")

    async def breaks(exchange: Exchange) -> None:
        await exchange.break_off()

    async with speaking(speaker) as url, yard(at(url, retries=0)) as front:
        path = "/mcp/up"
        await front.until_health(lambda health: health["servers"]["up"]["tools"] == 1)
        speaker.on["tools/list"] = breaks
        assert await front.tools(path) == ["echo"]


# What it can


async def test_what_it_says_of_itself_is_told_as_it_says_it():
    speaker = Both()
    speaker.capabilities = {"tools": {}, "logging": {}, "experimental": {"x": {"y": 1}}}
    speaker.instructions = "Be kind."
    async with speaking(speaker) as url, bare(url) as front:
        about = (await front.modern("server/discover")).result
        assert about["capabilities"] == speaker.capabilities
        assert about["instructions"] == "Be kind."
        session = await front.legacy()
        opening = await session.request("initialize", OPENING)
        assert opening.result["capabilities"] == speaker.capabilities
        assert opening.result["serverInfo"] == {"name": "speaker", "version": "1"}


async def test_members_of_a_discovery_that_nobody_knows_are_kept():
    speaker = Speaker("modern")

    async def discover(exchange: Exchange) -> None:
        own = {"com.example/own": {"a": 1}}
        await exchange.result({"supportedVersions": [MODERN], "capabilities": {}, **own})

    speaker.on["server/discover"] = discover
    async with speaking(speaker) as url, bare(url) as front:
        assert (await front.modern("server/discover")).result["com.example/own"] == {"a": 1}


async def test_a_handshake_that_the_server_refuses_is_refused_in_its_words():
    speaker = Speaker("legacy")

    async def refuse(exchange: Exchange) -> None:
        await exchange.error(-32602, "not with you", data={"name": exchange.params["clientInfo"]["name"]})

    speaker.on["initialize"] = refuse
    async with speaking(speaker) as url, bare(url) as front:
        session = LegacyClient(front.client, LEGACY, None)
        answer = await session.request("initialize", OPENING)
        assert answer.error == {"code": -32602, "message": "not with you", "data": {"name": "c"}}


async def test_a_server_knows_a_subscription_by_its_clients_id():
    speaker = Both()
    async with speaking(speaker) as url, bare(url) as front:
        await front.listen(toolsListChanged=True)
        assert [one.id for one in speaker.heard("subscriptions/listen")] == [77]


async def test_what_a_server_refuses_stays_refused_while_it_counts_as_down():
    speaker = Speaker("modern")

    async def refuse(exchange: Exchange) -> None:
        await exchange.error(-32603, "broken")

    speaker.on |= {"server/discover": refuse, "initialize": refuse}
    async with speaking(speaker) as url, bare(url) as front:
        for _ in range(2):  # a client of both eras asks twice
            assert (await front.modern("server/discover")).error == {"code": -32603, "message": "broken"}
        session = LegacyClient(front.client, LEGACY, None)
        assert (await session.request("initialize", OPENING)).error["message"] == "broken"
        speaker.on.clear()
        assert "result" in (await session.request("initialize", OPENING)).json


async def test_a_discovery_that_an_extension_answers_is_its_own():
    speaker = Speaker("modern")

    async def custom(exchange: Exchange) -> None:
        await exchange.result({"resultType": "com.example/custom", "payload": 1})

    speaker.on["server/discover"] = custom
    async with speaking(speaker) as url, bare(url) as front:
        told = (await front.modern("server/discover")).result
        assert told == {"resultType": "com.example/custom", "payload": 1}
        assert (await front.call("echo")).result["content"]
    assert not speaker.openings


async def test_a_method_that_it_lacks_is_refused_whatever_was_announced():
    speaker = Both()
    async with speaking(speaker) as url, bare(url) as front:
        session = await front.legacy()
        lacking = {"logging/setLevel": {"level": "info"}, "resources/subscribe": {"uri": "a:b"}}
        for method, params in lacking.items():
            assert (await session.request(method, params)).error["code"] == -32601
            assert speaker.heard(method)


async def test_methods_of_extensions_pass_in_both_eras_and_notifications_too():
    speaker = Both()

    async def hello(exchange: Exchange) -> None:
        await exchange.result({"hello": exchange.params["name"]})

    speaker.on[HELLO] = hello
    async with speaking(speaker) as url, bare(url) as front:
        assert (await front.modern(HELLO, {"name": "Ada"})).result["hello"] == "Ada"
        headers, waving = modern("notifications/com.example/waved", {"hand": "right"})
        del waving["id"]
        assert (await front.client.post(headers, waving)).status == 202
        waved = await speaker.until_heard("notifications/com.example/waved")
        assert waved.is_modern
        assert waved.params["hand"] == "right"
        speaker.seen.clear()
        session = await front.legacy()
        assert (await session.request(HELLO, {"name": "Ada"})).result == {"hello": "Ada"}
        await session.notify("notifications/com.example/waved", {"hand": "left"})
        waved = await speaker.until_heard("notifications/com.example/waved")
        assert waved.params == {"hand": "left"}
        assert (await session.request("nobody/knows")).error["code"] == -32601


async def test_a_method_of_an_extension_is_judged_by_the_rules():
    speaker = Speaker("modern")

    async def hello(exchange: Exchange) -> None:
        await exchange.result({"hello": "Ada"})

    speaker.on |= {HELLO: hello, "com.example/bye": hello}
    rules = AccessConfig(default="deny", rules=(AccessRule(allow=(f"up/{HELLO}",)),))
    async with (
        speaking(speaker) as url,
        yard(at(url), view="bare", server="up", tables={"access": rules}) as front,
    ):
        assert (await front.modern(HELLO)).result["hello"] == "Ada"
        assert "error" in (await front.modern("com.example/bye")).json
    assert not speaker.heard("com.example/bye")


# A client's own session


async def test_each_legacy_client_has_a_session_in_its_own_name_and_it_ends_with_it():
    speaker = Both()
    async with speaking(speaker) as url, bare(url) as front:
        first, second = await front.legacy({"roots": {}}), await front.legacy()
        for session in (first, second):
            await session.call("echo")
        ids = [one.headers["mcp-session-id"] for one in speaker.heard("tools/call")]
        assert len(set(ids)) == 2
        assert [one["capabilities"] for one in speaker.openings] == [{"roots": {}}, {}]
        assert {one["clientInfo"]["name"] for one in speaker.openings} == {"tests"}
        await first.end()
        await speaker.until(lambda: len(speaker.sessions) == 1)


async def test_what_is_said_outside_of_calls_reaches_the_client_whose_session_it_is():
    speaker = Both()
    speaker.capabilities = {"tools": {"listChanged": True}, "resources": {"subscribe": True}}

    async def done(exchange: Exchange) -> None:
        await exchange.result({})

    speaker.on |= {"resources/subscribe": done, "resources/unsubscribe": done, "logging/setLevel": done}
    async with speaking(speaker) as url, bare(url) as front:
        session = await front.legacy()
        line = await session.listen()
        await session.request("resources/subscribe", {"uri": "a:b"})
        assert speaker.heard("resources/subscribe")[0].params == {"uri": "a:b"}
        await speaker.until(lambda: any(not one.is_modern for one in speaker.listeners))
        for method, params in ((UPDATED, {"uri": "a:b"}), (TOOLS_CHANGED, {}), ("notifications/x", {"y": 1})):
            await speaker.tell(method, params)
            message = await line.next_message()
            assert (message["method"], message.get("params", {})) == (method, params)


@pytest.mark.parametrize("listener", ["modern", "legacy"])
@pytest.mark.parametrize("caller", ["modern", "legacy"])
async def test_a_merged_view_tells_of_changes_that_a_server_announces_in_calls_alone(
    caller: str, listener: str
):
    speaker = Both()

    async def refuses(exchange: Exchange) -> None:
        await exchange.error(-32601, "Method not found")

    async def announces(exchange: Exchange) -> None:
        speaker.tools.append(tool("new"))
        await exchange.stream()
        await exchange.notify(TOOLS_CHANGED, {})
        await exchange.event(exchange.reply(text("done")))
        await exchange.end()

    speaker.on |= {"subscriptions/listen": refuses, "tools/call": announces}
    async with speaking(speaker) as url, yard(at(url)) as front:
        await front.until_health(lambda health: health["servers"]["up"]["tools"] == 1)
        await speaker.until_heard("subscriptions/listen")
        session = await front.legacy()
        line = await (session.listen() if listener == "legacy" else front.listen(toolsListChanged=True))
        call = front.call if caller == "modern" else session.call
        await call("mcp__up__echo")
        assert (await line.next_message())["method"] == TOOLS_CHANGED


async def test_a_session_that_the_server_lost_gets_its_subscriptions_and_its_level_again():
    speaker = Speaker("legacy")
    speaker.capabilities = {"resources": {"subscribe": True}, "logging": {}, "tools": {}}

    async def done(exchange: Exchange) -> None:
        await exchange.result({})

    speaker.on |= {"resources/subscribe": done, "logging/setLevel": done}
    async with speaking(speaker) as url, bare(url) as front:
        session = await front.legacy()
        line = await session.listen()
        await session.request("resources/subscribe", {"uri": "a:b"})
        await session.request("logging/setLevel", {"level": "debug"})
        lost = speaker.heard("resources/subscribe")[0].headers["mcp-session-id"]
        speaker.sessions.clear()
        await session.call("echo")
        again = await speaker.until_heard("resources/subscribe", 2)
        assert again.headers["mcp-session-id"] != lost
        assert [one.params["level"] for one in speaker.heard("logging/setLevel")] == ["debug", "debug"]
        ours = again.headers["mcp-session-id"]
        await speaker.until(
            lambda: any(one.headers.get("mcp-session-id") == ours for one in speaker.listeners)
        )
        await speaker.tell(UPDATED, {"uri": "a:b"})
        assert (await line.next_message())["method"] == UPDATED


async def test_an_undeclared_question_is_the_clients_to_refuse():
    speaker = Both()
    answers: list[Json] = []

    async def asks(exchange: Exchange) -> None:
        await exchange.stream()
        answers.append(await speaker.ask(exchange, "com.example/ask", {"a": 1}))
        await exchange.event(exchange.reply(text("asked")))

    speaker.on["tools/call"] = asks
    async with speaking(speaker) as url, bare(url) as front:
        session = await front.legacy()
        line = await session.open_call("echo")
        question = await line.next_message()
        assert (question["method"], question["params"]) == ("com.example/ask", {"a": 1})
        await session.respond(question["id"], {"b": 2})
        assert (await line.next_message())["result"] == text("asked")
    assert answers[0]["result"] == {"b": 2}


async def test_in_merged_views_only_what_the_client_declared_is_asked():
    speaker = Both()
    answers: list[Json] = []

    async def asks(exchange: Exchange) -> None:
        await exchange.stream()
        answers.append(await speaker.ask(exchange, "elicitation/create", {"message": "?"}))
        await exchange.event(exchange.reply(text("asked")))

    speaker.on["tools/call"] = asks
    async with speaking(speaker) as url, yard(at(url)) as front:
        session = await front.legacy()
        assert (await session.call("mcp__up__echo")).result == text("asked")
    assert answers[0]["error"]["code"] == -32601


# Programs of others

FASTMCP = """
import asyncio
from fastmcp import Context, FastMCP
from mcp_types import LoggingMessageNotification, LoggingMessageNotificationParams

server = FastMCP("theirs")


@server.tool
async def name(ctx: Context) -> str:
    answer = await ctx.elicit("Who?", response_type=str)
    return f"{answer.action}: {answer.data}"


@server.tool
def fails() -> str:
    raise ValueError("boom")


@server.tool
async def steps(ctx: Context) -> str:
    await ctx.report_progress(1, 2)
    params = LoggingMessageNotificationParams(level="info", data="half")
    await ctx.session.send_notification(LoggingMessageNotification(params=params))
    return "done"


@server.tool
async def counts(ctx: Context) -> int:
    seen = (await ctx.get_state("seen") or 0) + 1
    await ctx.set_state("seen", seen)
    return seen


server.run()
"""


def program(folder: Path) -> ServerConfig:
    path = folder / "theirs.py"
    path.write_text(FASTMCP)
    where = Stdio(command=sys.executable, args=("-W", "ignore", str(path)))
    return ServerConfig(name="up", where=where, connect_timeout=PATIENCE, timeout=PATIENCE)


@pytest.mark.parametrize("view", ["bare", "all"])
async def test_a_legacy_client_of_a_fastmcp_program_is_asked_and_told_what_failed(view: str, tmp_path: Path):
    prefix = "" if view == "bare" else "mcp__up__"
    async with yard(program(tmp_path), view=view, server="up", list_wait=PATIENCE) as front:
        session = await front.legacy({"elicitation": {}})
        line = await session.open_call(prefix + "name")
        question = await line.next_message()
        assert question["method"] == "elicitation/create"
        await session.respond(question["id"], {"action": "accept", "content": {"value": "Ada"}})
        assert (await line.next_message())["result"]["content"][0]["text"] == "accept: Ada"
        failed = (await session.call(prefix + "fails")).result
        assert failed["isError"] is True
        assert "boom" in failed["content"][0]["text"]
        counted = [(await session.call(prefix + "counts")).result["content"][0]["text"] for _ in range(2)]
        assert counted == ["1", "2"]


async def test_a_client_with_a_progress_token_hears_the_same_log_lines_as_one_without(tmp_path: Path):
    async with yard(program(tmp_path), view="bare", server="up", list_wait=PATIENCE) as front:
        heard: list[list[str]] = []
        for progress in (None, "p"):
            answer = await front.call("steps", progress=progress)
            heard.append([event.json.get("method", "result") for event in answer.events if event.is_message])
        assert heard == [
            ["notifications/message", "result"],
            ["notifications/progress", "notifications/message", "result"],
        ]


async def test_a_program_that_starts_slowly_has_all_it_may_turn_out_to_have(tmp_path: Path):
    gate = tmp_path / "gate"
    waits = f"import os, time\nwhile not os.path.exists({str(gate)!r}): time.sleep(0.02)\n"
    path = tmp_path / "slow.py"
    path.write_text(waits + FASTMCP)
    where = Stdio(command=sys.executable, args=("-W", "ignore", str(path)))
    slow = ServerConfig(name="up", where=where, connect_timeout=PATIENCE, timeout=PATIENCE)
    async with yard(slow, view="bare", server="up", list_wait=0.2) as front:
        session = LegacyClient(front.client, LEGACY, None)
        told = await session.request("initialize", OPENING)
        assert {"tools", "prompts", "resources"} <= told.result["capabilities"].keys()
        early = (await front.modern("server/discover")).result
        assert {"tools", "prompts", "resources"} <= early["capabilities"].keys()
        assert early["ttlMs"] == 0
        session = LegacyClient(front.client, LEGACY, told.headers["mcp-session-id"])
        listing = asyncio.create_task(session.request("tools/list"))
        gate.touch()
        assert {one["name"] for one in (await listing).result["tools"]} == {
            "name",
            "fails",
            "steps",
            "counts",
        }
