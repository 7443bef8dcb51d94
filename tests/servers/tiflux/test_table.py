"""The 114 tools, as TiFlux's own MCP server names them; and each of them once."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.emulators.tiflux import API_KEY, TifluxEmulator
from tests.servers.tiflux.calls import CALLS
from tests.servers.tiflux.talking import HEADER, at, made
from toolyard import Client
from toolyard.client import McpError
from toolyard.rest.definition.loader import load
from toolyard.servers.tiflux.server import TABLE

KNOWN = {
    tool["name"]: tool["inputSchema"]
    for tool in json.loads(Path(__file__).with_name("tools.json").read_text())
}
"""Names, types, enums and limits, taken from version 2.42.0 of TiFlux's server; no texts."""
LIMITS = ("enum", "minimum", "maximum", "maxLength", "minItems")


def outline(schema: Any) -> Any:
    """What of a schema must be the same, all the way down; texts and bounds may be more here."""
    kind = schema.get("type") or [choice["type"] for choice in schema["oneOf"]]
    found: dict[str, Any] = {"type": sorted(kind) if isinstance(kind, list) else kind}
    found |= {"enum": schema["enum"]} if "enum" in schema else {}
    if "items" in schema:
        found["items"] = outline(schema["items"])
    if "properties" in schema:
        found["properties"] = {name: outline(value) for name, value in schema["properties"].items()}
        found["required"] = sorted(schema.get("required", ()))
    return found


async def listed(tiflux: TifluxEmulator, **settings: Any) -> dict[str, Any]:
    server = made(tiflux, **settings)
    async with Client(server, keys={HEADER: API_KEY}) as client:
        tools = await client.list_all("tools/list")
    await server.close()
    return {tool["name"]: tool for tool in tools}


async def test_every_tool_takes_what_its_namesake_at_tiflux_takes(tiflux: TifluxEmulator):
    tools = await listed(tiflux)
    assert set(tools) == set(KNOWN)
    assert len(KNOWN) == 114
    for name, schema in KNOWN.items():
        ours = tools[name]["inputSchema"]
        assert outline(ours) == outline(schema), name
        for parameter, known in schema["properties"].items():
            for limit in set(LIMITS) & set(known):
                assert ours["properties"][parameter][limit] == known[limit], f"{name}.{parameter}"


async def test_what_only_reads_says_so_and_what_deletes_says_so(tiflux: TifluxEmulator):
    for name, tool in (await listed(tiflux)).items():
        hints = tool["annotations"]
        assert hints["readOnlyHint"] == name.startswith(("get_", "list_", "search_")), name
        assert hints["destructiveHint"] == name.startswith(("delete_", "cancel_")), name


SIXTEEN = {
    *("get_ticket", "create_ticket", "update_ticket", "cancel_ticket", "close_ticket", "list_tickets"),
    *("create_ticket_answer", "update_ticket_entities", "get_ticket_files", "search_client", "search_user"),
    *("search_stage", "search_catalog_item", "create_internal_communication"),
    *("list_internal_communications", "get_internal_communication"),
}
"""The tools of TiFlux's first Lambda."""


async def test_a_choice_of_groups_and_tools_is_all_that_there_is(tiflux: TifluxEmulator):
    assert set(await listed(tiflux, tools="core")) == SIXTEEN
    chosen = await listed(tiflux, tools="clients,get_ticket")
    assert {"search_client", "delete_client_contact", "get_ticket"} <= set(chosen)
    assert all("client" in name for name in set(chosen) - {"get_ticket"})
    async with at(tiflux, tools="core") as talk:
        assert (await talk.data("get_ticket", ticket_number="1"))["ticket_number"] == 1
        with pytest.raises(McpError, match="get_chat"):
            await talk.refusal("get_chat", id=1)


def test_every_tool_is_in_one_group_of_its_subject():
    tools = load(TABLE).tools
    assert {name for name, tool in tools.items() if "core" in tool.groups} == SIXTEEN
    assert [name for name, tool in tools.items() if len({*tool.groups} - {"core"}) != 1] == []


@pytest.mark.parametrize("verbosity", ["rich", "compact"])
async def test_every_tool_can_be_called(tiflux: TifluxEmulator, verbosity: str):
    assert set(CALLS) == set(KNOWN)
    async with at(tiflux, mcp_verbosity=verbosity) as talk:
        for name, arguments in CALLS.items():
            given = await talk.call(name, **arguments)
            assert given, name
            for item in given.get("items", ()):
                assert item, f"{name}: of an item nothing is kept"
    assert {request.status // 100 for request in tiflux.requests} == {2}
    assert {request.key for request in tiflux.requests} == {API_KEY}


@pytest.mark.parametrize("verbosity", ["rich", "compact"])
async def test_a_ticket_is_shown_at_length_or_in_short(tiflux: TifluxEmulator, verbosity: str):
    async with at(tiflux, mcp_verbosity=verbosity) as talk:
        ticket = await talk.data("get_ticket", ticket_number="2")
    assert ticket["title"].endswith("t0001")
    assert ("sla_info" in ticket, "created_by" in ticket) == (True, verbosity == "rich")
    assert set(ticket["desk"]) == (
        {"id", "name", "display_name", "active"} if verbosity == "rich" else {"name"}
    )
