"""Calls that are no longer wanted, and servers that go while calls run."""

import asyncio

from tests.interaction.clients import Json, soon
from tests.interaction.conftest import Connect
from tests.interaction.manifest import shows
from tests.interaction.shop import Shop


@shows("cancellation.stops")
async def test_cancelling_a_call_stops_its_tool(connect: Connect, shop: Shop) -> None:
    async with connect(shop.server) as client:
        call = client.start("tools/call", {"name": "wait", "arguments": {}})
        await soon(shop.started.wait())
        await call.cancel()
        await soon(shop.stopped.wait())
        assert await client.text("echo", {"text": "still here"}) == "still here"


@shows("cancellation.stops")
async def test_cancelling_a_call_that_waits_for_an_answer_ends_it(
    connect_legacy: Connect, shop: Shop
) -> None:
    asked = asyncio.Event()

    async def never(_: Json) -> Json:
        asked.set()
        await asyncio.Event().wait()
        return {}

    async with connect_legacy(shop.server, elicit=never) as client:
        call = client.start("tools/call", {"name": "greet", "arguments": {}})
        await soon(asked.wait())
        await call.cancel()
        assert await client.text("echo", {"text": "still here"}) == "still here"


@shows("cancellation.of_a_question")
async def test_a_question_the_tool_gave_up_on_is_withdrawn(
    connect_legacy_server: Connect, shop: Shop
) -> None:
    withdrawn = asyncio.Event()

    async def never(_: Json) -> Json:
        try:
            await asyncio.Event().wait()
        finally:
            withdrawn.set()
        return {}

    async with connect_legacy_server(shop.server, elicit=never) as client:
        assert await client.text("hurry") == "too slow"
        await soon(withdrawn.wait())


@shows("cancellation.others_go_on")
async def test_cancelling_one_call_leaves_the_others(connect: Connect, shop: Shop) -> None:
    async with connect(shop.server) as client:
        first = client.start("tools/call", {"name": "wait", "arguments": {}})
        await soon(shop.started.wait())
        shop.started.clear()
        second = client.start("tools/call", {"name": "wait", "arguments": {}})
        await soon(shop.started.wait())
        await first.cancel()
        await soon(shop.stopped.wait())
        shop.go.set()
        assert (await second.answer())["content"][0]["text"] == "waited"


@shows("cancellation.ignored")
async def test_cancelling_what_is_unknown_or_over_changes_nothing(connect: Connect, shop: Shop) -> None:
    async with connect(shop.server) as client:
        await client.text("echo")
        for id in (1, 99_999):
            await client.cancel(id)
        assert await client.text("echo", {"text": "still here"}) == "still here"
