"""Changes the server tells of: lists and resources, to clients of both eras."""

import pytest

from tests.interaction.clients import ACKNOWLEDGED, SUBSCRIPTION, RpcError, soon
from tests.interaction.conftest import Connect
from tests.interaction.manifest import shows
from tests.interaction.shop import Shop

UPDATED = "notifications/resources/updated"


@shows("changes.lists")
@pytest.mark.parametrize("kind", ["tools", "prompts", "resources"])
async def test_a_changed_list_is_told(connect: Connect, shop: Shop, kind: str) -> None:
    async with connect(shop.server) as client, client.hearing():
        getattr(shop.server, f"notify_{kind}_changed")()
        await client.inbox.next(f"notifications/{kind}/list_changed")


@shows("changes.lists")
async def test_a_tool_added_at_run_time_is_there_once_it_was_told(connect: Connect, shop: Shop) -> None:
    async def late() -> str:
        return "better than never"

    async with connect(shop.server) as client, client.hearing():
        shop.server.add_tool(late)
        shop.server.notify_tools_changed()
        await client.inbox.next("notifications/tools/list_changed")
        assert await client.text("late") == "better than never"


@shows("changes.resources")
async def test_the_update_of_a_watched_resource_is_told_and_of_others_not(
    connect: Connect, shop: Shop
) -> None:
    async with connect(shop.server) as client, client.hearing("shop://shelf", "shop://item/7"):
        for uri in ("shop://photo", "shop://shelf", "shop://item/8", "shop://item/7"):
            shop.server.notify_resource_updated(uri)
        await client.inbox.next(UPDATED, uri="shop://shelf")
        await client.inbox.next(UPDATED, uri="shop://item/7")
    assert {params["uri"] for params in client.inbox.of(UPDATED)} == {"shop://shelf", "shop://item/7"}


@shows("changes.unsubscribe")
async def test_an_unsubscribed_legacy_client_hears_no_more_of_it(connect_legacy: Connect, shop: Shop) -> None:
    async with connect_legacy(shop.server) as client, client.hearing("shop://shelf"):
        await client.request("resources/unsubscribe", {"uri": "shop://shelf"})
        shop.server.notify_resource_updated("shop://shelf")
        shop.server.notify_tools_changed()
        await client.inbox.next("notifications/tools/list_changed")
    assert client.inbox.of(UPDATED) == []


@shows("changes.unsubscribe")
async def test_a_resource_that_is_not_there_cannot_be_watched(connect_legacy: Connect, shop: Shop) -> None:
    async with connect_legacy(shop.server) as client:
        with pytest.raises(RpcError) as error:
            await client.request("resources/subscribe", {"uri": "shop://nowhere"})
    assert error.value.code == -32002


@shows("subscriptions.acknowledged")
async def test_a_subscription_is_acknowledged_first_with_what_was_agreed(
    connect_modern: Connect, shop: Shop
) -> None:
    async with connect_modern(shop.server) as client, client.hearing("shop://shelf") as agreed:
        shop.server.notify_tools_changed()
        change = await client.inbox.next("notifications/tools/list_changed")
    assert agreed == {
        "toolsListChanged": True,
        "promptsListChanged": True,
        "resourcesListChanged": True,
        "resourceSubscriptions": ["shop://shelf"],
    }
    first, params = client.inbox.all[0]
    assert first == ACKNOWLEDGED
    assert params["_meta"] == change["_meta"], "both carry the id of the subscription"
    assert SUBSCRIPTION in change["_meta"]


@shows("subscriptions.filter")
async def test_only_what_was_asked_for_is_told(connect_modern: Connect, shop: Shop) -> None:
    async with connect_modern(shop.server) as client:
        stream = client.start("subscriptions/listen", {"notifications": {"promptsListChanged": True}})
        await client.inbox.next(ACKNOWLEDGED)
        shop.server.notify_tools_changed()
        shop.server.notify_resource_updated("shop://shelf")
        shop.server.notify_prompts_changed()
        await client.inbox.next("notifications/prompts/list_changed")
        await stream.cancel()
    assert len(client.inbox.all) == 2


@shows("subscriptions.several")
async def test_two_subscriptions_are_told_apart_by_their_ids(connect_modern: Connect, shop: Shop) -> None:
    async with connect_modern(shop.server) as client, client.hearing(), client.hearing():
        shop.server.notify_tools_changed()
        heard = [await client.inbox.next("notifications/tools/list_changed") for _ in range(2)]
    ids = {params["_meta"][SUBSCRIPTION] for params in heard}
    assert len(ids) == 2
    assert ids == {params["_meta"][SUBSCRIPTION] for params in client.inbox.of(ACKNOWLEDGED)}


@shows("subscriptions.cancelled")
async def test_a_cancelled_subscription_leaves_nothing_behind(connect_modern: Connect, shop: Shop) -> None:
    async with connect_modern(shop.server) as client:
        async with client.hearing():
            assert len(shop.server.hub.listeners) == 1
        async with client.hearing():
            # The server has dealt with what came before this second subscription.
            assert await client.text("echo", {"text": "x"}) == "x"
        await client.text("echo")
    assert len(shop.server.hub.listeners) == 0


@shows("subscriptions.graceful_end")
async def test_a_server_that_closes_ends_a_subscription_with_an_answer(
    connect_modern: Connect, shop: Shop
) -> None:
    async with connect_modern(shop.server) as client:
        stream = client.start("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        acknowledged = await client.inbox.next(ACKNOWLEDGED)
        await client.stop_server()
        result = await soon(stream.answer())
    assert result["resultType"] == "complete"
    assert result["_meta"][SUBSCRIPTION] == acknowledged["_meta"][SUBSCRIPTION]
