"""Calls that outlive their request."""

import pytest

from tests.client.conftest import Connect
from toolyard.client import McpError, TaskError, UnsupportedError


async def test_a_long_call_becomes_a_task_whose_result_is_waited_for(connect_modern: Connect) -> None:
    async with connect_modern() as client:
        task = await client.start_task("build", {"what": "chair"})
        assert task.id
        assert (await task.result()).text == "a chair"
        assert (task.status, task.is_over) == ("completed", True)


async def test_a_task_is_found_again_by_its_id(connect_modern: Connect) -> None:
    async with connect_modern() as client:
        task = await client.start_task("build", {"what": "table"})
        again = await client.get_task(task.id)
        assert (await again.result()).text == "a table"
        with pytest.raises(McpError, match="not found"):
            await client.get_task("nothing")


async def test_a_tool_that_is_not_long_is_over_at_once(connect_modern: Connect) -> None:
    async with connect_modern() as client:
        task = await client.start_task("add", {"a": 1, "b": 1})
        assert task.is_over
        assert (await task.result()).structured == {"total": 2}


async def test_what_a_task_asks_is_answered_by_the_handlers(connect_modern: Connect) -> None:
    async with connect_modern(on_elicit=lambda form: form.accept(name="Ada")) as client:
        task = await client.start_task("commission")
        assert (await task.result()).text == "for Ada"


async def test_a_tool_that_is_a_task_only_is_followed_by_a_plain_call(connect_modern: Connect) -> None:
    async with connect_modern(on_elicit=lambda form: form.accept(name="Bob")) as client:
        assert (await client.call_tool("commission")).text == "for Bob"


async def test_a_task_can_be_cancelled(connect_modern: Connect) -> None:
    async with connect_modern() as client:
        task = await client.start_task("season")
        await task.cancel()
        assert task.status == "cancelled"
        with pytest.raises(TaskError, match="was cancelled"):
            await task.result()


async def test_a_task_whose_tool_failed_has_that_as_its_result(connect_modern: Connect) -> None:
    async with connect_modern() as client:
        result = await (await client.start_task("spoil")).result()
        assert (result.is_error, result.text) == (True, "It cracked")


async def test_what_an_era_or_a_server_has_not_is_said_so(
    connect_modern: Connect, connect_legacy: Connect
) -> None:
    async with connect_modern() as client:
        with pytest.raises(UnsupportedError, match="the modern era has no list of tasks"):
            await client.list_tasks()
    async with connect_legacy() as client:
        with pytest.raises(UnsupportedError, match="offers no tasks"):
            await client.start_task("build", {"what": "chair"})
        assert (await client.call_tool("build", {"what": "chair"})).text == "a chair"
