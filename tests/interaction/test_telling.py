"""What a tool says while it works: progress and log lines."""

import pytest

from tests.interaction.clients import RpcError
from tests.interaction.conftest import Connect
from tests.interaction.manifest import shows
from tests.interaction.shop import Shop


@shows("progress.reported")
async def test_progress_comes_in_order_before_the_answer(connect: Connect, shop: Shop) -> None:
    async with connect(shop.server) as client:
        result = await client.call("pack", {"boxes": 3}, progress=True)
        heard = [await client.inbox.next("notifications/progress", progress=box) for box in (1, 2, 3)]
    assert result["content"][0]["text"] == "packed"
    token = heard[0]["progressToken"]
    assert heard == [
        {"progressToken": token, "progress": box, "total": 3, "message": f"box {box}"} for box in (1, 2, 3)
    ]


@shows("progress.unasked")
async def test_without_a_token_no_progress_is_sent(connect: Connect, shop: Shop) -> None:
    async with connect(shop.server) as client:
        await client.call("pack")
        await client.call("pack", {"boxes": 1}, progress=True)
        await client.inbox.next("notifications/progress")
    assert len(client.inbox.of("notifications/progress")) == 1


@shows("progress.own_token")
async def test_each_call_is_told_of_its_own_progress(connect: Connect, shop: Shop) -> None:
    async with connect(shop.server) as client:
        for boxes in (1, 2):
            await client.call("pack", {"boxes": boxes}, progress=True)
        heard = [await client.inbox.next("notifications/progress", total=total) for total in (1, 2, 2)]
    first, second, third = (params["progressToken"] for params in heard)
    assert first != second == third


@shows("logging.levels")
@pytest.mark.parametrize(("level", "count"), [("debug", 4), ("warning", 2), ("emergency", 0)])
async def test_lines_at_and_above_the_level_asked_for_are_sent(
    connect: Connect, shop: Shop, level: str, count: int
) -> None:
    async with connect(shop.server, level=level) as client:
        await client.call("mutter")
        # What comes after the lines tells that there are no more of them.
        await client.call("pack", {"boxes": 1}, progress=True)
        await client.inbox.next("notifications/progress")
    lines = client.inbox.of("notifications/message")
    expected = ["debug", "info", "warning", "error"][4 - count :]
    assert lines == [{"level": said, "logger": "till", "data": {"line": said}} for said in expected]


@shows("logging.unasked")
async def test_a_modern_client_that_names_no_level_hears_no_lines(
    connect_modern: Connect, shop: Shop
) -> None:
    async with connect_modern(shop.server) as client:
        await client.call("mutter")
        await client.call("pack", {"boxes": 1}, progress=True)
        await client.inbox.next("notifications/progress")
    assert client.inbox.of("notifications/message") == []


@shows("logging.unknown_level")
async def test_an_unknown_level_is_refused(connect_legacy: Connect, shop: Shop) -> None:
    async with connect_legacy(shop.server) as client:
        with pytest.raises(RpcError) as error:
            await client.request("logging/setLevel", {"level": "loud"})
    assert error.value.code == -32602


@shows("logging.unknown_level")
async def test_an_unknown_level_in_a_modern_request_is_refused(connect_wire: Connect, shop: Shop) -> None:
    async with connect_wire(shop.server) as client:
        client.habits.level = "loud"
        with pytest.raises(RpcError) as error:
            await client.call("mutter")
    assert error.value.code == -32602
