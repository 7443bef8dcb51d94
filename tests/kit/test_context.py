"""What a function learns of its caller, and what it can tell while it runs."""

import asyncio
from typing import Any

import pytest

from tests.kit.calls import TASKS, Inbox, Steps, text_of
from toolyard import Client
from toolyard.kit import Context, Message, Server, user
from toolyard.wire.call import ClientInfo, Identity, Principal
from toolyard.wire.errors import McpError

LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


# The caller


async def test_the_caller_says_who_asks_and_what_their_client_can(server: Server, era: Any) -> None:
    @server.tool
    async def who(ctx: Context) -> list[str]:
        caller = ctx.caller
        names = [caller.version, caller.era, caller.client.name, caller.client.version]
        return [*names, caller.tenant, caller.agent, caller.thread, *sorted(caller.capabilities)]

    async with Client(
        server,
        era=era,
        info=ClientInfo("desk", "2.1"),
        identity=Identity(Principal("acme", "clerk"), "t-1"),
        capabilities={"roots": {}, "sampling": {}},
    ) as client:
        result = (await client.call_tool("who")).raw
    version = {"legacy": "2025-11-25", "modern": "2026-07-28"}[era]
    assert result["structuredContent"]["result"] == [
        *(version, era, "desk", "2.1"),
        *("acme", "clerk", "t-1", "roots", "sampling"),
    ]


async def test_resources_and_prompts_have_a_context_too(server: Server, era: Any) -> None:
    @server.resource("a://{b}")
    async def read(b: str, ctx: Context) -> str:
        return ctx.caller.client.name

    @server.prompt
    async def prompt(ctx: Context) -> Message:
        return user(ctx.caller.client.name)

    async with Client(server, era=era, info=ClientInfo("desk")) as client:
        (contents,) = (await client.read_resource("a://b")).raw["contents"]
        (message,) = (await client.get_prompt("prompt")).raw["messages"]
    assert (contents["text"], message["content"]["text"]) == ("desk", "desk")


# Progress


@pytest.fixture
def worker(server: Server) -> Server:
    @server.tool
    async def work(ctx: Context) -> str:
        await ctx.report_progress(0.5, total=2, message="half of one")
        await ctx.report_progress(1.5)
        await ctx.report_progress(2, message="done")
        return "worked"

    return server


@pytest.mark.parametrize("token", ["p-1", 7])
async def test_progress_carries_the_token_and_what_was_said(worker: Server, token: Any) -> None:
    client = Steps(worker)
    await client.call("work", _meta={"progressToken": token})
    assert client.inbox.all == [
        (
            "notifications/progress",
            {"progressToken": token, "progress": 0.5, "total": 2, "message": "half of one"},
        ),
        ("notifications/progress", {"progressToken": token, "progress": 1.5}),
        ("notifications/progress", {"progressToken": token, "progress": 2, "message": "done"}),
    ]


async def test_without_a_token_no_progress_is_sent(worker: Server) -> None:
    client = Steps(worker)
    assert text_of(await client.call("work")) == "worked"
    assert client.inbox.all == []


async def test_once_the_call_is_answered_nothing_more_is_said_in_its_name(server: Server, era: Any) -> None:
    go, left = asyncio.Event(), []

    @server.tool
    async def leave(ctx: Context) -> str:
        async def later() -> None:
            await go.wait()
            await ctx.report_progress(1)
            await ctx.log("emergency", "too late")

        left.append(asyncio.create_task(later()))
        return "left"

    inbox = Inbox()
    async with Client(server, era=era, log_level="debug", on_notification=inbox) as client:
        await client.call_tool("leave")
        go.set()
        await asyncio.gather(*left, return_exceptions=True)
    assert inbox.all == []


async def test_once_the_call_is_answered_nobody_is_asked_in_its_name(server: Server) -> None:
    go, left, asked = asyncio.Event(), [], []

    @server.tool
    async def leave(ctx: Context) -> str:
        async def later() -> None:
            await go.wait()
            await ctx.roots()

        left.append(asyncio.create_task(later()))
        return "left"

    async with Client(server, era="legacy", roots=lambda: asked.append(1)) as client:
        await client.call_tool("leave")
        go.set()
        await asyncio.gather(*left, return_exceptions=True)
    assert asked == []


# Log lines


@pytest.fixture
def logger(server: Server) -> Server:
    @server.tool
    async def log_all(ctx: Context) -> None:
        for level in LEVELS:
            await ctx.log(level, {"at": level}, logger="shop")
        await ctx.log("emergency", "plain")

    return server


async def levels_heard(server: Server, era: Any, level: Any) -> list[str]:
    inbox = Inbox()
    modern_level = level if era == "modern" else None
    async with Client(server, era=era, log_level=modern_level, on_notification=inbox) as client:
        if era == "legacy" and level is not None:
            await client.request("logging/setLevel", {"level": level})
        await client.call_tool("log_all")
    return [params["level"] for params in inbox.of("notifications/message") if params.get("logger") == "shop"]


@pytest.mark.parametrize("level", LEVELS)
async def test_lines_at_and_above_the_level_asked_for_are_sent(logger: Server, era: Any, level: str) -> None:
    assert await levels_heard(logger, era, level) == LEVELS[LEVELS.index(level) :]


async def test_without_a_level_a_modern_client_hears_nothing_and_a_legacy_one_what_matters(
    logger: Server,
) -> None:
    assert await levels_heard(logger, "modern", None) == []
    assert await levels_heard(logger, "legacy", None) == LEVELS[1:]


async def test_a_line_has_its_data_as_json_and_its_logger_if_named(logger: Server) -> None:
    inbox = Inbox()
    async with Client(logger, log_level="emergency", on_notification=inbox) as client:
        await client.call_tool("log_all")
    assert inbox.of("notifications/message") == [
        {"level": "emergency", "data": {"at": "emergency"}, "logger": "shop"},
        {"level": "emergency", "data": "plain"},
    ]


async def test_each_legacy_session_has_a_level_of_its_own(logger: Server) -> None:
    loud, quiet = Inbox(), Inbox()
    async with (
        Client(logger, era="legacy", on_notification=loud) as one,
        Client(logger, era="legacy", on_notification=quiet) as other,
    ):
        await one.request("logging/setLevel", {"level": "debug"})
        await other.request("logging/setLevel", {"level": "alert"})
        await one.call_tool("log_all")
        await other.call_tool("log_all")
    assert len(loud.all) == 9
    assert len(quiet.all) == 3


async def test_an_unknown_level_is_the_authors_mistake(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    @server.tool
    async def shout(ctx: Context) -> None:
        await ctx.log("loud", "x")

    async with Client(server, era="legacy") as client:
        assert (await client.call_tool("shout")).raw["isError"] is True
    assert "'loud'" in caplog.text


async def test_an_unknown_level_of_a_legacy_client_is_refused(logger: Server) -> None:
    async with Client(logger, era="legacy") as client:
        with pytest.raises(McpError) as error:
            await client.request("logging/setLevel", {"level": "loud"})
    assert error.value.code == -32602


async def test_a_task_shows_progress_as_its_status_and_sends_no_lines(server: Server) -> None:
    @server.tool(long=True)
    async def work(ctx: Context) -> str:
        await ctx.log("emergency", "unheard")
        await ctx.report_progress(1, message="nearly done")
        await ctx.report_progress(2)
        return "done"

    client = Steps(server, TASKS, log_level="debug")
    task = await client.call("work", _meta={"progressToken": "p"})
    state = await client.finished(task["taskId"])
    assert (state["status"], state["statusMessage"]) == ("completed", "nearly done")
    assert client.inbox.of("notifications/progress") == client.inbox.of("notifications/message") == []


async def test_closing_the_stream_means_nothing_where_there_is_none(server: Server, era: Any) -> None:
    @server.tool
    async def close(ctx: Context) -> str:
        await ctx.close_stream(retry_ms=5)
        return "went on"

    async with Client(server, era=era) as client:
        assert text_of((await client.call_tool("close")).raw) == "went on"
