"""Keys that callers bring to a gateway: each goes to the servers that are configured for it only."""

from pathlib import Path
from typing import Any, cast

import pytest

from tests.app.keyed import UNWANTED, made
from tests.app.speaker import Speaker, speaking
from tests.app.yard import at, yard
from tests.serving import serving
from tests.through import LegacyOnly
from toolyard.config import ConfigError, InProcess, ServerConfig, load
from toolyard.edge.http.app import HttpEdge
from toolyard.kit import Server

INSIDE = ServerConfig(name="inside", where=InProcess(module=str(Path(__file__).with_name("keyed.py"))))
SHOP, BANK = "shop-key-1b2c", "bank-key-9f8e"
BROUGHT = {"X-Shop-Key": SHOP, "X-Bank-Key": BANK, "Authorization": f"Bearer {SHOP}"}


def keyed(server: ServerConfig, *headers: str) -> ServerConfig:
    return ServerConfig(name=server.name, where=server.where, caller_keys=headers)


async def test_each_server_gets_the_keys_that_are_for_it():
    async with serving(made("outside").asgi()) as upstream:
        shop, bank = keyed(INSIDE, "x-shop-key"), keyed(at(upstream.url, "outside"), "x-bank-key")
        async with yard(shop, bank) as gateway:
            inside = await gateway.says("mcp__inside__keys_of", headers=BROUGHT)
            outside = await gateway.says("mcp__outside__keys_of", headers=BROUGHT)
    assert inside == f"inside {[('x-shop-key', SHOP[::-1])]}"
    assert outside == f"outside {[('x-bank-key', BANK[::-1])]}"


async def test_a_server_that_is_not_configured_for_keys_gets_none():
    async with serving(made("outside").asgi()) as upstream:
        bank = keyed(INSIDE, "x-bank-key")
        async with yard(bank, at(upstream.url, "outside")) as gateway:
            assert await gateway.says("mcp__outside__keys_of", headers=BROUGHT) == "outside []"
        async with yard(INSIDE, at(upstream.url, "outside")) as gateway:
            assert await gateway.says("mcp__inside__keys_of", headers=BROUGHT) == "inside []"


async def test_a_key_for_one_server_opens_no_session_of_its_own_at_another():
    other = Speaker("legacy")
    async with speaking(other) as url, yard(keyed(INSIDE, "x-shop-key"), at(url, "other")) as gateway:
        for _ in range(2):
            await gateway.call("mcp__other__echo", headers={"x-shop-key": SHOP})
            await gateway.call("mcp__other__echo")
        used = {call.headers["mcp-session-id"] for call in other.heard("tools/call")}
    assert len(used) == 1


async def test_a_bearer_goes_on_as_one():
    async with (
        serving(made("outside").asgi()) as upstream,
        yard(keyed(at(upstream.url, "outside"), "authorization")) as gateway,
    ):
        said = await gateway.says("mcp__outside__keys_of", headers=BROUGHT)
    assert said == f"outside {[('authorization', SHOP[::-1])]}"


async def test_the_callers_key_takes_the_place_of_the_configured_one():
    async with serving(made("outside").asgi()) as upstream:
        where = at(upstream.url, "outside", headers={"X-Shop-Key": "ours"})
        async with yard(keyed(where, "x-shop-key")) as gateway:
            theirs = await gateway.says("mcp__outside__keys_of", headers=BROUGHT)
            ours = await gateway.says("mcp__outside__keys_of")
    assert theirs == f"outside {[('x-shop-key', SHOP[::-1])]}"
    assert ours == f"outside {[('x-shop-key', 'sruo')]}"


async def test_keys_reach_a_tool_that_was_called_by_call_tool_and_at_its_own_path():
    async with yard(keyed(INSIDE, "x-shop-key"), view="search") as gateway:
        by_meta = await gateway.says("call_tool", {"tool": "mcp__inside__keys_of"}, headers=BROUGHT)
        bare = await gateway.says("keys_of", path="/mcp/inside", headers=BROUGHT)
    assert SHOP[::-1] in by_meta
    assert SHOP[::-1] in bare


async def test_a_server_in_the_gateways_process_turns_away_whom_its_own_edge_would():
    async with yard(keyed(INSIDE, "x-shop-key")) as gateway:
        refused = await gateway.call("mcp__inside__keys_of", headers={"x-shop-key": UNWANTED})
        assert refused.error["message"] == "not you"
        assert SHOP[::-1] in await gateway.says("mcp__inside__keys_of", headers=BROUGHT)


async def test_a_session_of_one_key_is_not_anothers():
    async with yard(keyed(INSIDE, "x-shop-key")) as gateway:
        said = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        opening = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "t", "version": "1"},
            },
        }
        opened = await gateway.client.post(said | {"x-shop-key": SHOP}, opening)
        session = said | {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        assert (await gateway.client.post(session | {"x-shop-key": SHOP}, ping)).status == 200
        assert (await gateway.client.post(session | {"x-shop-key": "other"}, ping)).status == 404
        assert (await gateway.client.post(session, ping)).status == 404


class Sessions(LegacyOnly):
    """Which keys came in which of its sessions."""

    def __init__(self, server: Server) -> None:
        super().__init__(server.asgi())
        self.keys: dict[bytes, set[bytes]] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        head = dict(scope.get("headers", []))
        if b"x-shop-key" in head:
            self.keys.setdefault(head[b"mcp-session-id"], set()).add(head[b"x-shop-key"])
        await super().__call__(scope, receive, send)


async def test_a_legacy_server_never_sees_two_keys_in_one_session():
    plain = Server("old", key=b"for the yards of the tests")
    plain.tool(hello)
    sessions = Sessions(plain)
    async with (
        serving(cast(HttpEdge, sessions)) as upstream,
        yard(keyed(at(upstream.url, "old"), "x-shop-key")) as gateway,
    ):
        for key in ("one", "two", "one", "three"):
            assert await gateway.says("mcp__old__hello", headers={"x-shop-key": key}) == "hello"
    assert sorted(map(sorted, sessions.keys.values())) == [[b"one"], [b"three"], [b"two"]]


async def hello() -> str:
    return "hello"


@pytest.mark.parametrize(
    ("entry", "named"),
    [
        ('command = "true"\ncaller_keys = ["x-a"]', "caller_keys"),
        ('url = "http://x/mcp"\ncaller_keys = ["x a"]', "caller_keys"),
        ('url = "http://x/mcp"\ncaller_keys = "x-a"', "caller_keys"),
    ],
)
def test_what_cannot_be_configured_is_named(tmp_path: Path, entry: str, named: str):
    file = tmp_path / "toolyard.toml"
    file.write_text(f"[servers.up]\n{entry}\n")
    with pytest.raises(ConfigError, match=named):
        load(file)


def test_names_of_headers_are_read_in_any_case(tmp_path: Path):
    file = tmp_path / "toolyard.toml"
    file.write_text('[servers.up]\nurl = "http://x/mcp"\ncaller_keys = ["X-Shop-Key"]\n')
    assert load(file).servers[0].caller_keys == ("x-shop-key",)
