"""A whole conversation of the `mcp` client over HTTP, in either era; and who may begin one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from tests.emulators.tiflux import API_KEY, TifluxEmulator
from tests.servers.tiflux.talking import HEADER, made
from tests.serving import BOTH, serving
from tests.serving import Client as Plain

ERAS = ["legacy", "2026-07-28"]
OTHER = "tfx-key-of-another-tenant-0002"
ACCEPT = {"accept": BOTH, "content-type": "application/json"}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}


@asynccontextmanager
async def served(tiflux: TifluxEmulator, **settings: Any) -> AsyncIterator[Plain]:
    server = made(tiflux, **settings)
    async with serving(server.asgi()) as edge:
        yield edge
    await server.close()


@asynccontextmanager
async def client(url: str, era: str, **headers: str) -> AsyncIterator[Client]:
    async with create_mcp_http_client(headers) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode="legacy" if era == "legacy" else "auto") as client:
            yield client


async def given(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


@pytest.mark.parametrize("era", ERAS)
async def test_a_ticket_from_its_opening_to_its_end(tiflux: TifluxEmulator, era: str):
    async with served(tiflux) as edge, client(edge.url, era, **{HEADER: API_KEY}) as talk:
        assert len((await talk.list_tools()).tools) == 114
        clients = await given(talk, "search_client", client_name="cometa")
        new = {
            "title": "Caminhão sem sinal",
            "description": "<p>Rastreador mudo</p>",
            "desk_name": "Infraestrutura",
        }
        opened = await given(talk, "create_ticket", **new, client_id=clients["items"][0]["id"])
        number = str(opened["data"]["ticket_number"])
        await given(talk, "create_internal_communication", ticket_number=number, text="Trocar o chip")
        await given(talk, "update_ticket", ticket_number=number, stage_name="Aguardando cliente")
        await given(talk, "create_ticket_answer", ticket_number=number, text="Chip trocado")
        notes = await given(talk, "list_internal_communications", ticket_number=number)
        assert [note["text"] for note in notes["items"]] == ["Trocar o chip"]
        await given(talk, "close_ticket", ticket_number=number)
        ticket = (await given(talk, "get_ticket", ticket_number=number))["data"]
        assert (ticket["is_closed"], ticket["stage"]["name"]) == (True, "Aguardando cliente t0001")
        refused = await talk.call_tool("close_ticket", {"ticket_number": number})
        assert refused.is_error
        assert isinstance(refused.content[0], types.TextContent)
        assert "is not open" in refused.content[0].text


@pytest.mark.parametrize("era", ERAS)
async def test_two_tenants_at_once_see_their_own_tickets_only(tiflux: TifluxEmulator, era: str):
    tiflux.add_tenant(OTHER)
    async with (
        served(tiflux) as edge,
        client(edge.url, era, **{HEADER: API_KEY}) as ours,
        client(edge.url, era, Authorization=f"Bearer {OTHER}") as theirs,
    ):
        for number in range(1, 6):
            mine, other = await asyncio.gather(
                *(given(who, "get_ticket", ticket_number=str(number)) for who in (ours, theirs))
            )
            assert mine["data"]["title"].endswith("t0001")
            assert other["data"]["title"].endswith("t0002")
    keys = [request.key for request in tiflux.requests if request.path.startswith("/tickets/")]
    assert (keys.count(API_KEY), keys.count(OTHER)) == (5, 5)


async def test_without_a_key_or_with_a_wrong_one_nobody_comes_in(tiflux: TifluxEmulator):
    tiflux.add_tenant("key-without-mcp", enable_mcp=False)
    async with served(tiflux) as edge:
        nobody = await edge.post(ACCEPT, LIST)
        assert nobody.status == 401
        assert "www-authenticate" in nobody.headers
        assert tiflux.requests == []
        wrong = await edge.post({**ACCEPT, HEADER: "no-such-key"}, LIST)
        assert (wrong.status, "no-such-key" in wrong.body.decode()) == (401, False)
        denied = await edge.post({**ACCEPT, HEADER: "key-without-mcp"}, LIST)
        assert denied.status == 403
        assert "MCP is not enabled" in denied.json["error"]["message"]
        good = await edge.post({**ACCEPT, HEADER: API_KEY}, LIST)
        assert len(good.json["result"]["tools"]) == 114


async def test_whether_an_account_may_is_asked_once_a_minute_and_not_remembered_when_unknown(
    tiflux: TifluxEmulator,
):
    async with served(tiflux) as edge:
        tiflux.misbehave(503, "/users/me", times=-1)
        assert (await edge.post({**ACCEPT, HEADER: API_KEY}, LIST)).status == 200
        tiflux.behave()
        asked = len(tiflux.asked_for("/users/me"))
        for _ in range(3):
            assert (await edge.post({**ACCEPT, HEADER: API_KEY}, LIST)).status == 200
        assert len(tiflux.asked_for("/users/me")) == asked + 1


async def test_with_a_key_of_its_own_it_serves_those_who_bring_none(tiflux: TifluxEmulator):
    tiflux.add_tenant(OTHER)
    call = {"name": "get_ticket", "arguments": {"ticket_number": "1"}}
    request = {**LIST, "method": "tools/call", "params": call}
    async with served(tiflux, api_key=API_KEY) as edge:
        assert "t0001" in (await edge.post(ACCEPT, request)).body.decode()
        assert "t0002" in (await edge.post({**ACCEPT, HEADER: OTHER}, request)).body.decode()
    async with served(tiflux, api_key=API_KEY, require_caller_key=True) as edge:
        assert (await edge.post(ACCEPT, request)).status == 401
