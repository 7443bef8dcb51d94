"""Changes: said once by the server, heard by clients of both eras."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.kit.calls import Inbox, Steps, soon
from toolyard import Client
from toolyard.kit import Identity, Principal, Server
from toolyard.wire.errors import McpError
from toolyard.wire.versions import Era

LISTS = {
    "tools": ("toolsListChanged", "notifications/tools/list_changed"),
    "prompts": ("promptsListChanged", "notifications/prompts/list_changed"),
    "resources": ("resourcesListChanged", "notifications/resources/list_changed"),
}
UPDATED = "notifications/resources/updated"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


@pytest.fixture
def shop(server: Server) -> Server:
    @server.tool
    async def tool() -> None: ...

    @server.prompt
    async def prompt() -> str:
        return ""

    @server.resource("shop://shelf")
    async def shelf() -> str:
        return ""

    @server.resource("shop://item/{id}")
    async def item(id: str) -> str:
        return id

    return server


@asynccontextmanager
async def ear(server: Server, era: str, uris: list[str] | None = None) -> AsyncIterator[Inbox]:
    """Hears every list change, and the updates of `uris`, in the way of an era."""
    if era == "legacy":
        inbox = Inbox()
        async with Client(server, era="legacy") as client:
            client.connection.watch(inbox.changed)
            for uri in uris or []:
                await client.request("resources/subscribe", {"uri": uri})
            yield inbox
    else:
        wanted = {name: True for name, _ in LISTS.values()} | {"resourceSubscriptions": uris or []}
        steps = Steps(server)
        async with steps.listening(**wanted):
            yield steps.inbox


@pytest.mark.parametrize("kind", LISTS)
async def test_a_changed_list_is_heard_in_both_eras(shop: Server, era: str, kind: str) -> None:
    async with ear(shop, era) as inbox:
        getattr(shop, f"notify_{kind}_changed")()
        params = await inbox.next(LISTS[kind][1])
    assert params == ({} if era == "legacy" else {"_meta": {SUBSCRIPTION: 1}})


async def test_a_list_change_comes_after_the_change(shop: Server, era: str) -> None:
    async def late() -> None: ...

    async with ear(shop, era) as inbox, Client(shop) as client:
        shop.add_tool(late)
        shop.notify_tools_changed()
        await inbox.next("notifications/tools/list_changed")
        assert [tool["name"] for tool in await client.list_all("tools/list")] == ["tool", "late"]


async def test_an_updated_resource_is_heard_by_those_who_watch_it(shop: Server, era: str) -> None:
    async with ear(shop, era, ["shop://shelf"]) as watcher, ear(shop, era, ["shop://item/7"]) as other:
        shop.notify_resource_updated("shop://shelf")
        params = await watcher.next(UPDATED)
        assert params["uri"] == "shop://shelf"
        shop.notify_resource_updated("shop://item/7")
        assert (await other.next(UPDATED))["uri"] == "shop://item/7"
    assert len(watcher.of(UPDATED)) == len(other.of(UPDATED)) == 1


async def test_a_change_that_concerns_one_caller_is_heard_by_no_other(shop: Server, era: Era) -> None:
    wanted: list[tuple[str, str]] = []
    shop.on_subscribe(lambda uri, caller: wanted.append((uri, caller.tenant)))

    async def hear(tenant: str, client: Client) -> list[str | None]:
        """The URIs that come before the shelf of this caller alone."""
        heard: list[str | None] = []
        async with client.listen(uris=["shop://shelf", "shop://item/7"]) as changes:
            listening.append(tenant)
            if len(listening) == 2:
                begun.set()
            async for change in changes:
                heard.append(change.uri)
                if change.uri == "shop://shelf":
                    return heard
        return heard

    listening: list[str] = []
    begun = asyncio.Event()
    tenants = ("one", "two")
    clients = [Client(shop, era=era, identity=Identity(Principal(tenant=tenant))) for tenant in tenants]
    async with clients[0], clients[1]:
        hearing = [asyncio.create_task(hear(*pair)) for pair in zip(tenants, clients, strict=True)]
        await begun.wait()
        shop.notify_resource_updated("shop://item/7", lambda caller: caller.tenant == "one")
        shop.notify_resource_updated("shop://shelf", lambda caller: caller.tenant in tenants)
        assert await asyncio.gather(*hearing) == [["shop://item/7", "shop://shelf"], ["shop://shelf"]]
    assert sorted(wanted) == sorted(
        (uri, tenant) for uri in ("shop://item/7", "shop://shelf") for tenant in tenants
    )


async def test_a_function_that_fails_to_follow_does_not_fail_the_subscription(shop: Server, era: Era) -> None:
    shop.on_subscribe(lambda uri, caller: 1 / 0)
    async with Client(shop, era=era) as client, client.listen(uris=["shop://shelf"]) as changes:
        shop.notify_resource_updated("shop://shelf")
        assert (await anext(changes)).uri == "shop://shelf"


async def test_an_unsubscribed_legacy_client_hears_no_more(shop: Server) -> None:
    inbox = Inbox()
    async with Client(shop, era="legacy") as client:
        client.connection.watch(inbox.changed)
        await client.request("resources/subscribe", {"uri": "shop://shelf"})
        await client.request("resources/unsubscribe", {"uri": "shop://shelf"})
        shop.notify_resource_updated("shop://shelf")
        shop.notify_tools_changed()
        await inbox.next("notifications/tools/list_changed")
    assert inbox.of(UPDATED) == []


async def test_a_legacy_client_cannot_watch_what_is_not_there(shop: Server) -> None:
    async with Client(shop, era="legacy") as client:
        with pytest.raises(McpError) as error:
            await client.request("resources/subscribe", {"uri": "shop://nowhere"})
    assert error.value.code == -32002


async def test_a_modern_client_hears_only_what_it_asked_for(shop: Server) -> None:
    client = Steps(shop)
    async with client.listening(toolsListChanged=True, promptsListChanged=False) as agreed:
        assert agreed == {"toolsListChanged": True}
        shop.notify_prompts_changed()
        shop.notify_resources_changed()
        shop.notify_resource_updated("shop://shelf")
        shop.notify_tools_changed()
        await client.inbox.next("notifications/tools/list_changed")
    assert [method for method, _ in client.inbox.all] == [
        "notifications/subscriptions/acknowledged",
        "notifications/tools/list_changed",
    ]


async def test_what_the_server_does_not_have_is_not_agreed_to(server: Server) -> None:
    @server.tool
    async def tool() -> None: ...

    wanted = {name: True for name, _ in LISTS.values()} | {"resourceSubscriptions": ["a://b"]}
    async with Steps(server).listening(**wanted) as agreed:
        assert agreed == {"toolsListChanged": True}
    async with Steps(Server("empty")).listening(**wanted) as agreed:
        assert agreed == {}


async def test_the_acknowledgement_comes_first(shop: Server) -> None:
    client = Steps(shop)
    async with client.listening(toolsListChanged=True):
        shop.notify_tools_changed()
        await client.inbox.next("notifications/tools/list_changed")
    first, params = client.inbox.all[0]
    assert first == "notifications/subscriptions/acknowledged"
    assert params["_meta"] == {SUBSCRIPTION: 1}


async def test_two_subscriptions_of_one_client_carry_their_own_ids(shop: Server) -> None:
    client = Steps(shop)
    async with client.listening(toolsListChanged=True), client.listening(toolsListChanged=True):
        shop.notify_tools_changed()
        heard = [await client.inbox.next("notifications/tools/list_changed") for _ in range(2)]
    assert {params["_meta"][SUBSCRIPTION] for params in heard} == {1, 2}


async def test_many_changes_at_once_are_one_notification(shop: Server, era: str) -> None:
    async with ear(shop, era, ["shop://shelf", "shop://item/7"]) as inbox:
        for _ in range(1000):
            shop.notify_tools_changed()
            shop.notify_resource_updated("shop://shelf")
            shop.notify_resource_updated("shop://item/7")
        await inbox.next("notifications/tools/list_changed")
        await inbox.until(UPDATED, uri="shop://item/7")
        shop.notify_prompts_changed()
        await inbox.next("notifications/prompts/list_changed")
    heard = [method for method, _ in inbox.all if "acknowledged" not in method]
    assert sorted(heard) == sorted(
        ["notifications/tools/list_changed", UPDATED, UPDATED, "notifications/prompts/list_changed"]
    )


async def test_a_change_may_be_told_from_any_thread(shop: Server, era: str) -> None:
    async with ear(shop, era) as inbox:
        thread = threading.Thread(target=shop.notify_tools_changed)
        thread.start()
        await inbox.next("notifications/tools/list_changed")
        thread.join()


async def test_a_change_nobody_listens_to_is_forgotten(shop: Server, era: str) -> None:
    shop.notify_tools_changed()
    async with ear(shop, era) as inbox:
        shop.notify_prompts_changed()
        await inbox.next("notifications/prompts/list_changed")
    assert inbox.of("notifications/tools/list_changed") == []


async def test_closing_the_server_ends_a_subscription_with_an_answer(shop: Server) -> None:
    client = Steps(shop)
    params = {"notifications": {"toolsListChanged": True}}
    stream = asyncio.create_task(client.request("subscriptions/listen", params))
    await client.inbox.next("notifications/subscriptions/acknowledged")
    shop.notify_tools_changed()
    await shop.service.close()
    result = await soon(stream)
    assert result["resultType"] == "complete"
    assert result["_meta"][SUBSCRIPTION] == 1
    assert client.inbox.of("notifications/tools/list_changed"), "what was pending is still delivered"


async def test_a_server_that_is_started_again_after_its_close_tells_of_changes(
    shop: Server, era: str
) -> None:
    await shop.close()
    async with ear(shop, era) as heard:
        shop.notify_tools_changed()
        await heard.until("notifications/tools/list_changed")


async def test_a_subscription_that_ended_leaves_nothing_in_the_hub(shop: Server, era: str) -> None:
    async with ear(shop, era):
        assert len(shop.hub.listeners) == 1
    assert len(shop.hub.listeners) == 0


@pytest.mark.parametrize(
    "wanted", [None, 5, "tools", [], {"toolsListChanged": "yes"}, {"resourceSubscriptions": "a"}]
)
async def test_a_filter_of_the_wrong_form_is_refused(shop: Server, wanted: Any) -> None:
    with pytest.raises(McpError) as error:
        await Steps(shop).request("subscriptions/listen", {"notifications": wanted})
    assert error.value.code == -32602


async def test_a_client_may_watch_as_many_resources_as_the_server_allows(era: str) -> None:
    server = Server("small", max_subscriptions=2)

    @server.resource("a://{b}")
    async def resource(b: str) -> str:
        return b

    async with ear(server, era, ["a://1", "a://2"]):
        pass
    with pytest.raises(McpError) as error:
        async with ear(server, era, ["a://1", "a://2", "a://3"]):
            pass
    assert error.value.code == -32602


async def test_watching_one_resource_twice_counts_once(era: str) -> None:
    server = Server("small", max_subscriptions=1)

    @server.resource("a://{b}")
    async def resource(b: str) -> str:
        return b

    async with ear(server, era, ["a://1", "a://1"]) as inbox:
        server.notify_resource_updated("a://1")
        await inbox.next(UPDATED)
