"""Hearing of changes, in both eras."""

import asyncio

from tests.client.conftest import Connect
from tests.waiting import PATIENCE
from toolyard.client import Change


async def test_a_list_and_a_resource_that_changed_are_told(connect: Connect) -> None:
    async with connect() as client, client.listen(tools=True, uris=["workshop://shelf"]) as changes:
        await client.call_tool("rearrange")
        async with asyncio.timeout(PATIENCE):
            found = {await anext(changes), await anext(changes)}
    assert found == {Change("tools"), Change("resource", "workshop://shelf")}


async def test_what_was_not_asked_for_is_not_told(connect: Connect) -> None:
    async with connect() as client, client.listen(uris=["workshop://blob"]) as changes:
        await client.call_tool("rearrange")
        async with asyncio.timeout(PATIENCE):
            assert await anext(changes) == Change("resource", "workshop://blob")


async def test_a_listener_can_be_left_and_opened_again(connect: Connect) -> None:
    async with connect() as client:
        for _ in range(2):
            async with client.listen(tools=True) as changes:
                await client.call_tool("rearrange")
                async with asyncio.timeout(PATIENCE):
                    assert await anext(changes) == Change("tools")


async def test_a_task_is_told_of_until_it_is_over(connect_modern: Connect) -> None:
    async with connect_modern() as client:
        task = await client.start_task("season")
        async with client.listen(tasks=[task.id]) as changes:
            await task.cancel()
            async with asyncio.timeout(PATIENCE):
                async for change in changes:
                    assert change.task is not None
                    if change.task["status"] == "cancelled":
                        break
