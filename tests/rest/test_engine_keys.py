"""Whose key a request carries, who is let in by the gate, and which tools a caller has."""

import asyncio
import gc
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.rest.asking import KEY, asking, table
from tests.rest.loopback import Asked, Loopback, Raw, reply
from tests.serving import Answer, Client, modern, serving
from toolyard.kit import Secret
from toolyard.kit.loader import SettingsError
from toolyard.rest.definition.model import ApiDefinition
from toolyard.rest.http.client import RestRequest
from toolyard.rest.server import RestSettings, build

AUTH = {"kind": "bearer", "caller": ["x-things-key", "authorization"], "variable": "THINGS_KEY"}
ALICE, BOB = "alice-0123456789", "bob-0123456789"
GATE = {"path": "/me", "field": "enable_mcp", "denied": "Not for you"}


def said_key(asked: Asked) -> Raw:
    return reply({"who": asked.headers.get("authorization", "").removeprefix("Bearer ")[:3]})


def rows(api: Loopback, **more: Any) -> ApiDefinition:
    api.on("GET /v1/thing", said_key)
    tools = {"get": {"path": "/thing"}, "beta": {"path": "/thing", "flag": "features.beta"}}
    return table(api, tools, **{"auth": AUTH, **more})


def keys(api: Loopback) -> list[str]:
    return [asked.headers.get("authorization", "").removeprefix("Bearer ") for asked in api.asked]


async def test_the_callers_key_comes_before_our_own_and_ours_before_the_variable(
    api: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THINGS_KEY", "from-the-variable")
    async with asking(rows(api), keys={"authorization": ALICE}) as ask:
        await ask.ok("get")
    async with asking(rows(api)) as ask:
        await ask.ok("get")
    async with asking(rows(api), RestSettings()) as ask:
        await ask.ok("get")
    assert keys(api) == [ALICE, KEY, "from-the-variable"]


async def test_without_any_key_the_ways_to_give_one_are_named(api: Loopback) -> None:
    assert "THINGS_KEY" not in os.environ
    async with asking(rows(api), RestSettings()) as ask:
        text = await ask.wrong("get")
    assert all(word in text for word in ("'x-things-key'", "'authorization'", "THINGS_KEY"))
    async with asking(rows(api), RestSettings(api_key=KEY, require_caller_key=True)) as ask:
        assert "'x-things-key'" in await ask.wrong("get")
    assert api.asked == []


@pytest.mark.parametrize(
    ("auth", "sent"),
    [
        ({"kind": "header", "name": "X-Api-Key"}, ("x-api-key", KEY)),
        ({"kind": "header", "name": "Authorization", "prefix": "Token "}, ("authorization", f"Token {KEY}")),
        ({"kind": "bearer"}, ("authorization", f"Bearer {KEY}")),
    ],
)
async def test_a_key_travels_as_the_table_says(api: Loopback, auth: Any, sent: tuple[str, str]) -> None:
    async with asking(rows(api, auth=auth)) as ask:
        await ask.ok("get")
    assert sent in api.last.headers.items()


async def test_no_header_of_the_table_or_of_an_argument_stands_beside_the_key(api: Loopback) -> None:
    api.on("GET /v1/thing", reply({}))
    tool = {"path": "/thing", "parameters": {"who": {"in": "header", "as": "authorization"}}}
    whole = table(api, {"get": tool}, auth={"kind": "bearer"}, headers={"AUTHORIZATION": "Basic x"})
    async with asking(whole) as ask:
        await ask.ok("get", who="Bearer another")
    assert api.last.headers["authorization"] == f"Bearer {KEY}"


async def test_an_api_without_keys_is_sent_none(api: Loopback) -> None:
    async with asking(rows(api, auth={"kind": "none"}), keys={"authorization": ALICE}) as ask:
        await ask.ok("get")
    assert "authorization" not in api.last.headers


def test_settings_show_no_key() -> None:
    class More(RestSettings, frozen=True, kw_only=True):
        default_desk: int = 4

    shown = repr(More(api_key=KEY)) + str(list(More(api_key=KEY).__rich_repr__()))
    assert KEY not in shown
    assert "default_desk=4" in shown


async def test_a_key_from_a_file_may_end_with_a_line_but_not_have_one_inside(api: Loopback) -> None:
    async with asking(rows(api), RestSettings(api_key=f" {KEY}\r\n")) as ask:
        await ask.ok("get")
    assert keys(api) == [KEY]
    for key in ("two\nlines", "k\u00e9y", "null\0"):
        with pytest.raises(SettingsError, match="characters") as refusal:
            build(rows(api), RestSettings(api_key=key))
        assert key not in str(refusal.value)


async def test_a_base_url_that_is_none_is_a_wrong_setting(api: Loopback) -> None:
    with pytest.raises(SettingsError, match="base URL"):
        build(rows(api), RestSettings(base_url="nowhere"))


@pytest.mark.parametrize(
    "answer",
    [
        reply({"ok": True}),
        reply(None, 401),
        Raw(b"", close=True),
        Raw(b"nonsense", close=True),
        Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"),
        Raw(b"", never=True),
    ],
    ids=["good", "refused", "hung up", "garbled", "too large", "never"],
)
async def test_a_call_leaves_no_key_in_memory_for_the_collector_to_find(api: Loopback, answer: Raw) -> None:
    whole = rows(api, auth={**AUTH, "kind": "query", "name": "k"})
    api.on("GET /v1/thing", answer)
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        async with asking(whole, RestSettings(timeout=0.05), keys={"authorization": ALICE}) as ask:
            await ask.result("get")
        gc.collect()
        left = [value for thing in gc.garbage for value in gc.get_referents(thing)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    ours = [value for value in left if isinstance(value, bytes | str | Secret | RestRequest)]
    assert not [value for value in ours if isinstance(value, RestRequest | Secret) or ALICE in str(value)]


# Over HTTP


@asynccontextmanager
async def served(table: ApiDefinition, settings: RestSettings | None = None) -> AsyncIterator[Client]:
    server = build(table, settings or RestSettings())
    async with serving(server.asgi()) as client:
        yield client
    await server.close()


async def call(client: Client, tool: str = "get", **headers: str) -> Answer:
    sent, message = modern("tools/call", {"name": tool, "arguments": {}})
    return await client.post({**sent, **{k.replace("_", "-"): v for k, v in headers.items()}}, message)


async def names(client: Client, **headers: str) -> list[str]:
    sent, message = modern("tools/list")
    answer = await client.post({**sent, **{k.replace("_", "-"): v for k, v in headers.items()}}, message)
    return [tool["name"] for tool in answer.result["tools"]]


async def test_over_http_each_request_is_made_with_the_key_it_brought(api: Loopback) -> None:
    async with served(rows(api)) as client:
        assert (await call(client)).status == 401
        assert api.asked == []
        for _ in range(2):
            answers = await asyncio.gather(
                *(call(client, x_things_key=key) for key in [ALICE, BOB] * 10),
                *(call(client, Authorization=f"Bearer {key}") for key in [ALICE, BOB] * 10),
            )
            found = [answer.result["structuredContent"]["data"]["who"] for answer in answers]
            assert found == ["ali", "bob"] * 20
    assert sorted(keys(api)) == [ALICE] * 40 + [BOB] * 40
    assert len({asked.connection for asked in api.asked}) < 80


async def test_our_own_key_serves_those_without_one_unless_we_say_no(api: Loopback) -> None:
    async with served(rows(api), RestSettings(api_key=KEY)) as client:
        assert (await call(client)).status == 200
    async with served(rows(api), RestSettings(api_key=KEY, require_caller_key=True)) as client:
        assert (await call(client)).status == 401
    assert keys(api) == [KEY]


def member(asked: Asked) -> Raw:
    """What the API knows of each key."""
    known = {
        f"Bearer {ALICE}": reply({"enable_mcp": True, "features": {"beta": True}}),
        f"Bearer {BOB}": reply({"enable_mcp": False}),
        "Bearer half-0123456789": reply({"enable_mcp": True, "features": {"beta": "yes"}}),
        "Bearer forbidden-key": reply({}, 403),
        "Bearer html-0123456789": reply(b"<html>", kind="text/html"),
    }
    return known.get(asked.headers["authorization"], reply({"message": "who?"}, 401))


async def test_the_gate_lets_in_whom_the_api_lets_in(api: Loopback) -> None:
    api.on("GET /v1/me", member)
    async with served(rows(api, gate=GATE)) as client:
        assert (await call(client, x_things_key=ALICE)).status == 200
        for key in (BOB, "forbidden-key"):
            denied = await call(client, x_things_key=key)
            assert (denied.status, denied.error["message"]) == (403, "Not for you")
        unknown = await call(client, x_things_key="stranger-0123456789")
        assert unknown.status == 401
        assert "invalid_token" in unknown.headers["www-authenticate"]
        assert all("stranger" not in str(part) for part in (unknown.headers, unknown.body))
        assert keys(api).count(ALICE) == 2
        api.asked.clear()
        for key in (ALICE, BOB, "stranger-0123456789"):
            await call(client, x_things_key=key)
        assert [asked.path for asked in api.asked] == ["/v1/thing", "/v1/me"]
    async with served(rows(api, gate=GATE), RestSettings(gate=False)) as client:
        assert (await call(client, x_things_key=BOB)).status == 200


async def test_an_answer_of_the_gate_is_asked_for_again_after_its_time(api: Loopback) -> None:
    api.on("GET /v1/me", reply({"enable_mcp": True}), reply({"enable_mcp": False}))
    async with served(rows(api, gate={**GATE, "seconds": 0})) as client:
        assert (await call(client, x_things_key=ALICE)).status == 200
        assert (await call(client, x_things_key=ALICE)).status == 403


@pytest.mark.parametrize(
    "answer", [reply(None, 500), reply(None, 404), reply(b"<html>", kind="text/html"), Raw(b"", close=True)]
)
async def test_a_gate_that_cannot_say_shuts_nobody_out_and_is_asked_again(api: Loopback, answer: Raw) -> None:
    api.on("GET /v1/me", answer)
    async with served(rows(api, gate=GATE)) as client:
        assert (await call(client, x_things_key=BOB)).status == 200
        assert await names(client, x_things_key=BOB) == ["get"]
        api.on("GET /v1/me", member)
        assert (await call(client, x_things_key=BOB)).status == 403


async def test_a_list_is_shown_to_an_own_key_that_the_api_does_not_know(api: Loopback) -> None:
    api.on("GET /v1/me", member)
    for key, expected in ((KEY, ["get"]), (ALICE, ["get", "beta"])):
        async with asking(rows(api, gate=GATE), RestSettings(api_key=key)) as ask:
            assert [tool["name"] for tool in await ask.client.list_all("tools/list")] == expected


async def test_a_tool_with_a_flag_is_unknown_to_callers_without_it(api: Loopback) -> None:
    api.on("GET /v1/me", member)
    async with served(rows(api, gate=GATE)) as client:
        assert await names(client, x_things_key=ALICE) == ["get", "beta"]
        assert await names(client, x_things_key="half-0123456789") == ["get"]
        assert (await call(client, "beta", x_things_key=ALICE)).status == 200
        hidden = await call(client, "beta", x_things_key="half-0123456789")
        assert "Unknown tool: 'beta'" in hidden.error["message"]
