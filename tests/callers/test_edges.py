"""Every edge asks the authenticator before anything else, and errors carry their headers out."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.edge.lambda_client import LambdaClient
from tests.serving import Answer, Client, LegacyClient, call_asgi, http, initialize, modern, serving
from toolyard.callers.authenticator import Authenticator
from toolyard.callers.keys import ApiKeys, KeyHolder
from toolyard.edge.aws.function import LambdaEdge, LambdaRoute
from toolyard.edge.http.app import HttpEdge
from toolyard.edge.request import AuthenticatorSetting
from toolyard.kit import Context, McpError, Server
from toolyard.state import open_state
from toolyard.wire.seal import Sealer

KEY = b"0123456789abcdef"


class BusyError(McpError):
    def __init__(self) -> None:
        super().__init__(-31029, "Too many calls")

    @property
    def http_status(self) -> int:
        return 429

    @property
    def http_headers(self) -> list[tuple[bytes, bytes]]:
        return [(b"retry-after", b"7")]


class NarrowError(McpError):
    def __init__(self) -> None:
        super().__init__(-31003, "Not with these scopes")

    @property
    def http_status(self) -> int:
        return 403

    @property
    def http_headers(self) -> list[tuple[bytes, bytes]]:
        return [(b"www-authenticate", b'Bearer error="insufficient_scope", scope="a"')]


def shop() -> Server:
    server = Server("shop", key=KEY)

    @server.tool
    async def whoami(ctx: Context) -> str:
        """Who is it?"""
        who = ctx.caller.principal
        return f"{who.kind} {who.tenant} {who.subject} {who.agent}"

    @server.tool
    async def busy() -> str:
        """Has no time."""
        raise BusyError

    @server.tool
    async def narrow() -> str:
        """Wants another scope."""
        raise NarrowError

    return server


class Shop:
    def __init__(self, keys: ApiKeys, client: Client) -> None:
        self.keys = keys
        self.client = client

    async def key(self, name: str, **holder: Any) -> dict[str, str]:
        issued = await self.keys.create(KeyHolder(name=name, **holder))
        return {"Authorization": f"Bearer {issued.text}"}

    async def call(self, tool: str, headers: dict[str, str] = {}) -> Answer:  # noqa: B006 (never changed)
        told, message = modern("tools/call", {"name": tool, "arguments": {}})
        return await self.client.post(told | headers, message)


@pytest.fixture
async def keys(tmp_path: Path) -> AsyncIterator[ApiKeys]:
    opened = ApiKeys(open_state("sqlite:", tmp_path), "shop", Sealer(KEY), owns_state=True)
    yield opened
    await opened.close()


@asynccontextmanager
async def shopping(keys: ApiKeys, **options: Any) -> AsyncIterator[Shop]:
    server = shop()
    setting = AuthenticatorSetting(Authenticator([keys], **options))
    async with serving(HttpEdge(server.service, server.sealer, callers=setting)) as client:
        yield Shop(keys, client)


async def test_a_tool_sees_who_calls(keys: ApiKeys):
    async with shopping(keys) as front:
        anna = await front.key("anna", tenant="acme", agent="coder")
        said = [(await front.call("whoami", sent)).result["content"][0]["text"] for sent in (anna, {})]
    assert said == ["key acme anna coder", "local local  "]


async def test_without_a_key_the_answer_is_401_with_a_challenge(keys: ApiKeys):
    async with shopping(keys, required=True) as front:
        for wrong, challenge in (
            ({}, "Bearer"),
            ({"Authorization": "Bearer ty_x"}, 'Bearer error="invalid_token"'),
        ):
            answer = await front.call("whoami", wrong)
            assert (answer.status, answer.headers["www-authenticate"]) == (401, challenge)
            assert answer.error["code"] == -32600
        for method in ("GET", "DELETE"):
            assert (await front.client.raw(http(method, "/mcp", {"Accept": "*/*"}))).status == 401


async def test_bad_credentials_are_refused_over_the_wire(keys: ApiKeys):
    async with shopping(keys, is_open=True) as front:
        anna = await front.key("anna")
        told, message = modern("tools/list")
        twice = [*told.items(), *anna.items(), ("Authorization", "Bearer x")]
        assert (await front.client.post(twice, message)).status == 400
        in_query = await front.client.post(told | anna, message, "/mcp?access_token=x")
        assert in_query.status == 400
        assert "header" in in_query.error["message"]
        assert (
            await front.client.post(told | {"Authorization": "Bearer " + "x" * 20_000}, message)
        ).status == 431
        assert (await front.client.post(told | anna, message)).status == 200


async def test_a_browser_that_is_refused_can_read_why(keys: ApiKeys):
    async with shopping(keys, required=True) as front:
        answer = await front.call("whoami", {"Origin": "http://localhost"})
    assert answer.headers["access-control-allow-origin"] == "http://localhost"


async def test_a_legacy_session_belongs_to_who_opened_it(keys: ApiKeys):
    async with shopping(keys, required=True) as front:
        anna, ben = await front.key("anna"), await front.key("ben")
        headers, message = initialize()
        opened = await front.client.post(headers | anna, message)
        session = LegacyClient(front.client, "2025-11-25", opened.headers["mcp-session-id"])
        ask = session.message("tools/list")
        statuses = [(await front.client.post(session.headers | who, ask)).status for who in (anna, ben, {})]
    assert statuses == [200, 404, 401]


async def test_an_app_without_an_address_of_its_peer_knows_nobody(keys: ApiKeys):
    server = shop()
    edge = HttpEdge(server.service, server.sealer, callers=AuthenticatorSetting(Authenticator([keys])))
    answer = await call_asgi(edge, {}, b"{}")
    assert answer.status == 401


async def test_errors_carry_their_headers_in_either_era(keys: ApiKeys):
    async with shopping(keys) as front:
        answers = [await front.call(tool) for tool in ("busy", "narrow")]
        assert [answer.status for answer in answers] == [429, 403]
        assert answers[0].headers["retry-after"] == "7"
        assert "insufficient_scope" in answers[1].headers["www-authenticate"]
        session = await LegacyClient.start(front.client)
        legacy = [
            await front.client.post(session.headers, session.message("tools/call", {"name": tool}))
            for tool in ("busy", "narrow")
        ]
    assert [answer.status for answer in legacy] == [200, 403]
    assert legacy[0].headers["retry-after"] == "7"
    assert "insufficient_scope" in legacy[1].headers["www-authenticate"]
    assert [answer.error["code"] for answer in legacy] == [-31029, -31003]


async def test_a_function_asks_too(keys: ApiKeys):
    server = shop()
    edge = LambdaEdge(
        {"/mcp": LambdaRoute("shop", server.service, server.sealer)},
        callers=AuthenticatorSetting(Authenticator([keys])),
    )
    client = LambdaClient(edge)
    issued = await keys.create(KeyHolder(name="anna", agent="coder"))
    told, message = modern("tools/call", {"name": "whoami", "arguments": {}})
    refused = await client.post(told, message)
    assert (refused.status, refused.headers["www-authenticate"]) == (401, "Bearer")
    anna = {"Authorization": f"Bearer {issued.text}"}
    answer = await client.post(told | anna, message)
    assert answer.result["content"][0]["text"] == "key local anna coder"
    told, message = modern("tools/call", {"name": "busy", "arguments": {}})
    busy = await client.post(told | anna, message)
    assert (busy.status, busy.headers["retry-after"]) == (429, "7")
