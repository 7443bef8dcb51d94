"""The server as users start it: a process of its own on stdio, and mounted in a gateway."""

import asyncio
import json
from typing import Any
from urllib.request import urlopen

from tests.app.yard import yard
from tests.cli.running import Toolyard
from tests.emulators.tiflux import API_KEY, TifluxEmulator
from tests.waiting import PATIENCE
from toolyard.config import InProcess, ServerConfig

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def asked(toolyard: Toolyard, tool: str, arguments: dict[str, Any], *options: str, **environment: str) -> Any:
    """One call of a process that is started for it."""
    params = {"name": tool, "arguments": arguments, "_meta": META}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    process = toolyard.start("run", "tiflux", *options, **environment)
    out, err = process.communicate(json.dumps(request) + "\n", timeout=PATIENCE)
    assert process.returncode == 0, err
    assert API_KEY not in err
    return json.loads(out.splitlines()[0])["result"]


async def test_as_a_process_it_takes_its_key_and_defaults_from_the_environment(
    toolyard: Toolyard, tiflux: TifluxEmulator
) -> None:
    place = {
        "TIFLUX_API_KEY": API_KEY,
        "TIFLUX_API_BASE_URL": tiflux.url,
        "TIFLUX_MCP_VERBOSITY": "compact",
        "TIFLUX_DEFAULT_CLIENT_ID": "1002",
        "TIFLUX_DEFAULT_DESK_ID": "51",
    }
    new = {"title": "Novo", "description": "Tudo"}
    result = await asyncio.to_thread(asked, toolyard, "create_ticket", new, **place)
    ticket = result["structuredContent"]["data"]
    assert ticket["client"] == {"name": "Clínica Boa Vida t0001"}
    assert tiflux.tenant.tickets.one(ticket["ticket_number"])["desk"]["id"] == 51
    assert tiflux.asked_for("/users/me") == []


def test_without_a_key_it_starts_and_says_what_is_missing_when_it_is_called(toolyard: Toolyard) -> None:
    result = asked(toolyard, "get_ticket", {"ticket_number": "1"}, TIFLUX_API_KEY="")
    assert result["isError"]
    assert "TIFLUX_API_KEY" in result["content"][0]["text"]


def test_a_process_offers_what_is_chosen_by_an_option_or_the_environment(toolyard: Toolyard) -> None:
    for command, environment in (
        (("run", "tiflux", "--tools", "core"), {}),
        (("stdio", "tiflux", "--tools", "core"), {"TIFLUX_TOOLS": "chats"}),
        (("run", "tiflux"), {"TIFLUX_TOOLS": "core"}),
    ):
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}
        process = toolyard.start(*command, **environment)
        out, err = process.communicate(json.dumps(request) + "\n", timeout=PATIENCE)
        tools = json.loads(out.splitlines()[0])["result"]["tools"]
        assert (process.returncode, len(tools)) == (0, 16), err
    with (
        toolyard.serving("tiflux", "--tools", "core") as served,
        urlopen(f"http://127.0.0.1:{served.port}/health") as health,
    ):
        assert json.load(health)["tools"] == 16
    refused = toolyard("serve", "--tools", "core")
    assert (refused.status, "--tools needs a TARGET" in refused.err) == (2, True)


def test_a_setting_that_does_not_fit_is_named(toolyard: Toolyard) -> None:
    for option, told in (
        ("mcp_verbosity=chatty", "'mcp_verbosity'"),
        ("default_desk_id=-1", "'default_desk_id'"),
        ("api_base_url=ftp://example.com", "ftp://example.com"),
        ("locale=fr", "'locale'"),
    ):
        outcome = toolyard("run", "tiflux", "-o", option)
        assert outcome.status == 2, outcome
        assert told in outcome.err


async def test_mounted_in_a_gateway_it_answers_under_its_full_name(tiflux: TifluxEmulator) -> None:
    options = {"api_base_url": tiflux.url, "api_key": API_KEY, "locale": "pt"}
    every = InProcess(module="toolyard.servers.tiflux", options=options)
    few = InProcess(module="toolyard.servers.tiflux", options=options | {"tools": ["chats", "get_desk"]})
    async with yard(ServerConfig(name="tiflux", where=every), ServerConfig(name="few", where=few)) as gateway:
        names = [name.rpartition("__") for name in await gateway.tools()]
        assert sum(server == "mcp__tiflux" for server, _, _ in names) == 114
        assert sum(server == "mcp__few" for server, _, _ in names) == 13
        assert "t0001" in await gateway.says("mcp__tiflux__get_ticket", {"ticket_number": "1"})
