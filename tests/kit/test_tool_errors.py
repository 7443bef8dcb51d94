"""What goes wrong in a tool, and who hears what about it."""

import asyncio
import logging
import re
import sys
from typing import Any

import pytest

from tests.kit.calls import text_of
from toolyard import Client
from toolyard.kit import Server, ToolError
from toolyard.wire.errors import InvalidParams, McpError

SECRET = "postgres://admin:hunter2@db/prod"


async def call(server: Server, tool: str, era: Any = "modern", **arguments: Any) -> dict[str, Any]:
    async with Client(server, era=era) as client:
        return (await client.call_tool(tool, arguments)).raw


async def test_a_tool_error_is_a_text_for_the_model(server: Server, era: Any) -> None:
    @server.tool
    async def book(seats: int) -> dict[str, int]:
        raise ToolError(f"Only 3 seats left, not {seats}")

    result = await call(server, "book", era, seats=9)
    assert result["isError"] is True
    assert text_of(result) == "Only 3 seats left, not 9"
    assert "structuredContent" not in result


async def test_an_unexpected_exception_is_masked_and_logged_under_one_reference(
    server: Server, era: Any, caplog: pytest.LogCaptureFixture
) -> None:
    @server.tool
    async def connect() -> str:
        raise RuntimeError(SECRET)

    result = await call(server, "connect", era)
    assert result["isError"] is True
    text = text_of(result)
    assert SECRET not in text
    assert "RuntimeError" not in text
    reference = re.search(r"reference ([0-9a-f]+)", text)
    assert reference is not None
    (record,) = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert reference[1] in record.getMessage()
    assert "'connect'" in record.getMessage()
    assert SECRET in caplog.text, "the log has the whole traceback"


async def test_two_failures_have_two_references(server: Server) -> None:
    @server.tool
    async def fail() -> str:
        raise KeyError("k")

    assert text_of(await call(server, "fail")) != text_of(await call(server, "fail"))


async def test_a_protocol_error_of_the_author_reaches_the_client_as_it_is(server: Server, era: Any) -> None:
    @server.tool
    async def refuse() -> str:
        raise McpError(-32050, "Quota exhausted", {"retryAfter": 60})

    with pytest.raises(McpError, match="Quota exhausted") as error:
        await call(server, "refuse", era)
    assert (error.value.code, error.value.data) == (-32050, {"retryAfter": 60})


async def test_an_unknown_tool_is_a_protocol_error(server: Server, era: Any) -> None:
    @server.tool
    async def known() -> None: ...

    with pytest.raises(InvalidParams, match="Unknown tool: 'unknown'"):
        await call(server, "unknown", era)


async def test_a_name_of_any_length_is_cut_in_the_error(server: Server) -> None:
    @server.tool
    async def known() -> None: ...

    with pytest.raises(InvalidParams) as error:
        await call(server, "x" * 100_000)
    assert len(error.value.message) < 200


async def test_a_failing_sync_tool_is_masked_in_the_same_way(server: Server) -> None:
    @server.tool
    def connect() -> str:
        raise RuntimeError(SECRET)

    result = await call(server, "connect")
    assert result["isError"] is True
    assert SECRET not in text_of(result)


@pytest.mark.parametrize("sync", [False, True], ids=["async", "sync"])
async def test_a_tool_that_exits_does_not_take_the_server_with_it(server: Server, sync: bool) -> None:
    if sync:

        @server.tool(name="quit")
        def quits() -> str:
            sys.exit("usage: …")

    else:

        @server.tool(name="quit")
        async def quits_async() -> str:
            sys.exit("usage: …")

    try:
        result = await call(server, "quit")
    except SystemExit:
        pytest.fail("SystemExit came out of the call")
    assert result["isError"] is True


async def test_a_cancellation_that_is_not_the_calls_own_is_a_failure_like_any_other(server: Server) -> None:
    @server.tool
    async def lean() -> str:
        other = asyncio.ensure_future(asyncio.Event().wait())
        other.cancel()
        return str(await other)

    try:
        result = await call(server, "lean")
    except asyncio.CancelledError:
        pytest.fail("the client of an uncancelled call would wait for ever")
    assert result["isError"] is True


async def test_a_group_of_exceptions_is_masked_too(server: Server) -> None:
    @server.tool
    async def many() -> str:
        async def fail() -> None:
            raise RuntimeError(SECRET)

        async with asyncio.TaskGroup() as group:
            group.create_task(fail())
            group.create_task(fail())
        return "never"

    result = await call(server, "many")
    assert result["isError"] is True
    assert SECRET not in text_of(result)


async def test_cancelling_the_call_stops_an_async_tool(server: Server) -> None:
    started, stopped = asyncio.Event(), asyncio.Event()

    @server.tool
    async def wait() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    running = asyncio.create_task(call(server, "wait"))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert stopped.is_set()
