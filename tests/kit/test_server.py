"""A server as a whole: what it says of itself, which methods it knows, and which options it takes."""

from typing import Any

import pytest

from tests.kit.calls import Steps
from toolyard import Client
from toolyard.kit import Icon, Server
from toolyard.wire.errors import McpError
from toolyard.wire.seal import BrokenSeal

SERVER = "io.modelcontextprotocol/serverInfo"


def full(**options: Any) -> Server:
    server = Server("shop", version="2.1", **options)

    @server.tool
    async def tool() -> None: ...

    @server.prompt
    async def prompt(name: str) -> str:
        return name

    @server.resource("a://b")
    async def resource() -> str:
        return ""

    @server.completion(prompt="prompt", argument="name")
    async def names(value: str, context: dict[str, str]) -> list[str]:
        return []

    return server


CAPABILITIES = {
    "logging": {},
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "completions": {},
}


async def test_discover_says_what_a_modern_client_needs() -> None:
    discovered = await Steps(full(instructions="Be kind", cache_ttl=5, cache_scope="public")).request(
        "server/discover"
    )
    assert discovered == {
        "resultType": "complete",
        "_meta": {SERVER: {"name": "shop", "version": "2.1"}},
        "supportedVersions": ["2026-07-28"],
        "capabilities": CAPABILITIES,
        "instructions": "Be kind",
        "ttlMs": 5000,
        "cacheScope": "public",
    }


async def test_initialize_says_the_same_to_a_legacy_client() -> None:
    async with Client(full(instructions="Be kind"), era="legacy") as client:
        answer = await client.request("initialize")
    assert answer == {
        "protocolVersion": "2025-11-25",
        "capabilities": CAPABILITIES,
        "serverInfo": {"name": "shop", "version": "2.1"},
        "instructions": "Be kind",
    }


async def test_a_server_describes_itself_with_all_that_was_said() -> None:
    server = full(title="The shop", website_url="https://shop.example", icons=[Icon("i://c", "image/png")])
    info = (await Steps(server).request("tools/list"))["_meta"][SERVER]
    assert info == {
        "name": "shop",
        "version": "2.1",
        "title": "The shop",
        "websiteUrl": "https://shop.example",
        "icons": [{"src": "i://c", "mimeType": "image/png"}],
    }


async def test_an_empty_server_declares_nothing_and_knows_no_lists(server: Server, era: Any) -> None:
    async with Client(server, era=era) as client:
        about = await client.request("initialize" if era == "legacy" else "server/discover")
        assert set(about["capabilities"]) == {"logging"}
        for method in ("tools/list", "resources/list", "resources/templates/list", "prompts/list"):
            with pytest.raises(McpError) as error:
                await client.request(method)
            assert error.value.code == -32601


async def test_a_list_that_runs_empty_is_an_empty_list(era: Any) -> None:
    server = full()
    server.remove_tool("tool")
    server.remove_prompt("prompt")
    async with Client(server, era=era) as client:
        assert await client.list_all("tools/list") == []
        assert await client.list_all("prompts/list") == []
        about = await client.request("initialize" if era == "legacy" else "server/discover")
    assert about["capabilities"] == CAPABILITIES


LEGACY_ONLY = ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"]
MODERN_ONLY = ["server/discover", "subscriptions/listen", "tasks/get", "tasks/update", "tasks/cancel"]


@pytest.mark.parametrize("method", [*LEGACY_ONLY, "tasks/list", "tasks/result", "nope", "", "x" * 5000])
async def test_a_method_the_modern_era_does_not_have_is_unknown(method: str) -> None:
    with pytest.raises(McpError) as error:
        await Steps(full()).request(method, {})
    assert error.value.code == -32601
    assert len(error.value.message) < 200


@pytest.mark.parametrize("method", [*MODERN_ONLY, "nope"])
async def test_a_method_the_legacy_era_does_not_have_is_unknown(method: str) -> None:
    async with Client(full(), era="legacy") as client:
        with pytest.raises(McpError) as error:
            await client.request(method)
    assert error.value.code == -32601


async def test_a_legacy_client_can_ping() -> None:
    async with Client(full(), era="legacy") as client:
        assert await client.request("ping") == {}


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/list", {}),
        ("resources/list", {}),
        ("resources/templates/list", {}),
        ("prompts/list", {}),
        ("resources/read", {"uri": "a://b"}),
        ("server/discover", {}),
    ],
)
async def test_what_may_be_cached_says_for_how_long_and_for_whom(method: str, params: dict[str, Any]) -> None:
    answer = await Steps(full(cache_ttl=1.5)).request(method, params)
    assert (answer["ttlMs"], answer["cacheScope"]) == (1500, "private")


async def test_nothing_is_said_of_caching_to_a_legacy_client() -> None:
    async with Client(full(), era="legacy") as client:
        assert set(await client.request("tools/list")) == {"tools"}


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {}),
        ("tools/call", {"name": 5}),
        ("tools/list", {"cursor": 5}),
        ("resources/read", {}),
        ("resources/read", {"uri": ["a://b"]}),
        ("prompts/get", {"name": None}),
        ("completion/complete", {"ref": {"type": "ref/prompt", "name": "prompt"}}),
        ("completion/complete", {"argument": {"name": "name", "value": ""}}),
        ("subscriptions/listen", {}),
    ],
)
async def test_params_of_the_wrong_form_are_refused(method: str, params: dict[str, Any]) -> None:
    with pytest.raises(McpError) as error:
        await Steps(full()).request(method, params)
    assert error.value.code == -32602


async def test_health_counts_what_there_is() -> None:
    assert full().service.health() == {
        "status": "ok",
        "server": {"name": "shop", "version": "2.1"},
        "tools": 1,
        "resources": 1,
        "prompts": 1,
    }


@pytest.mark.parametrize(
    "options",
    [
        {"page_size": 0},
        {"page_size": -5},
        {"cache_ttl": -1},
        {"cache_scope": "shared"},
        {"state_ttl": 0},
        {"state_ttl": -1},
        {"max_subscriptions": -1},
        {"key": b"short"},
    ],
)
def test_an_option_that_makes_no_sense_is_refused_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options)).split("_")[0]):
        Server("shop", **options)


def test_a_short_key_in_the_environment_is_refused_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLYARD_KEY", "short")
    with pytest.raises(ValueError, match="16 bytes"):
        Server("shop")


async def test_the_key_of_the_environment_is_shared_by_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLYARD_KEY", "a key that all of them share")
    token = Server("one").sealer.seal(b"x", "test")
    assert Server("one").sealer.open(token, "test") == b"x"
    with pytest.raises(BrokenSeal):
        Server("another").sealer.open(token, "test")


def test_an_endpoint_needs_a_path() -> None:
    with pytest.raises(ValueError, match="'mcp'"):
        full().asgi(path="mcp")
