"""How a conversation opens, in either era, and what both eras share."""

import asyncio

import aiohttp
import pytest

from tests.interaction.clients import Habits, HttpClient, RpcError, soon
from tests.interaction.conftest import Connect
from tests.interaction.manifest import shows
from tests.interaction.shop import Shop
from tests.serving import serving

CAPABILITIES = {
    "logging": {},
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": {"listChanged": True},
    "completions": {},
}


@shows("opening.initialize")
async def test_a_legacy_client_learns_who_it_speaks_to_by_initialize(
    connect_legacy: Connect, shop: Shop
) -> None:
    async with connect_legacy(shop.server) as client:
        assert client.about == {
            "protocolVersion": "2025-11-25",
            "capabilities": CAPABILITIES,
            "serverInfo": {"name": "shop", "version": "1.2"},
            "instructions": "Buy something",
        }


@shows("opening.discover")
async def test_a_modern_client_learns_who_it_speaks_to_by_discover(
    connect_directly: Connect, shop: Shop
) -> None:
    async with connect_directly(shop.server) as client:
        about = client.about
    assert about["supportedVersions"] == ["2026-07-28"]
    assert about["capabilities"] == CAPABILITIES | {"extensions": {"io.modelcontextprotocol/tasks": {}}}
    assert about["instructions"] == "Buy something"
    assert about["_meta"]["io.modelcontextprotocol/serverInfo"] == {"name": "shop", "version": "1.2"}
    assert (about["ttlMs"], about["cacheScope"]) == (60_000, "private")


@shows("opening.ping")
async def test_a_legacy_client_pings(connect_legacy: Connect, shop: Shop) -> None:
    async with connect_legacy(shop.server) as client:
        assert await client.request("ping") == {}


@shows("opening.result_type")
async def test_modern_results_say_their_type_and_who_gave_them(connect_modern: Connect, shop: Shop) -> None:
    async with connect_modern(shop.server) as client:
        result = await client.call("echo", {"text": "x"})
    assert result["resultType"] == "complete"
    assert result["_meta"] == {"io.modelcontextprotocol/serverInfo": {"name": "shop", "version": "1.2"}}


@shows("opening.unknown_method")
async def test_an_unknown_method_is_not_found(connect: Connect, shop: Shop) -> None:
    async with connect(shop.server) as client:
        with pytest.raises(RpcError) as error:
            await client.request("shop/close")
        assert error.value.code == -32601
        assert await client.text("echo", {"text": "still here"}) == "still here"


@shows("opening.other_era")
async def test_the_methods_of_the_other_era_are_not_found(connect: Connect, shop: Shop) -> None:
    async with connect(shop.server) as client:
        for method in {
            "legacy": ["subscriptions/listen", "tasks/get"],
            "modern": ["ping", "logging/setLevel", "resources/subscribe"],
        }[client.era]:
            with pytest.raises(RpcError) as error:
                await client.request(method, {"level": "info", "uri": "shop://shelf", "taskId": "x"})
            assert error.value.code == -32601


@shows("opening.at_once")
async def test_many_requests_run_side_by_side(connect: Connect, shop: Shop) -> None:
    async with connect(shop.server) as client:
        waiting = client.start("tools/call", {"name": "wait", "arguments": {}})
        await soon(shop.started.wait())
        texts = [f"text {n}" for n in range(30)]
        assert await asyncio.gather(*(client.text("echo", {"text": text}) for text in texts)) == texts
        shop.go.set()
        assert (await waiting.answer())["content"][0]["text"] == "waited"


@shows("opening.both_eras")
async def test_one_endpoint_serves_both_eras_at_once(shop: Shop) -> None:
    app = shop.server.asgi()
    async with serving(app) as served, aiohttp.ClientSession() as http:
        clients = [HttpClient(Habits(era), http, served.url, app.close) for era in ("legacy", "modern")]
        for client in clients:
            await client.shake_hands()
        old, new = clients
        async with old.hearing(), new.hearing():
            shop.server.notify_tools_changed()
            for client in clients:
                await client.inbox.next("notifications/tools/list_changed")
                assert await client.text("echo", {"text": client.era}) == client.era
        for client in clients:
            await client.end()
