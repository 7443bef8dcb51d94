"""The `mcp` client in front of the search view: everything a tool can do, it can do through `call_tool`."""

import json
from pathlib import Path

import pytest
from mcp import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from tests.app.yard import at
from tests.cli.running import COMMAND
from tests.clients.conversation import converse, soon
from tests.clients.yard import ENVIRONMENT, PROGRAM, Yard
from tests.meta.office import front, in_thread
from tests.meta.through import LACKS, connect
from tests.serving import serving
from tests.through import LegacyOnly
from toolyard.config import SearchConfig

LEGACY, MODERN = "2025-11-25", "2026-07-28"


@pytest.mark.parametrize("upstream", [LEGACY, MODERN])
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_mcp_client_holds_the_conversation_through_call_tool(mode: str, upstream: str):
    app = Yard().server.asgi()
    async with (
        serving(app if upstream == MODERN else LegacyOnly(app)) as served,
        front(at(served.url, era="modern" if upstream == MODERN else "caller")) as opened,
        connect(opened.client.url, mode, upstream) as peer,
    ):
        await converse(peer, LACKS)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_mcp_client_is_answered_with_signatures_and_is_told_that_the_list_has_grown(mode: str):
    async with (
        serving(Yard().server.asgi()) as served,
        front(at(served.url), search=SearchConfig(list_found=True)) as opened,
        create_mcp_http_client(in_thread("mine")) as http,
        connect(streamable_http_client(opened.client.url, http_client=http), mode, MODERN) as peer,
    ):
        before = set(await peer.tools())
        async with peer.watching() as changed:
            found = await peer.meta("search_tools", queries=[{"use_case": "add two numbers"}])
            await soon(changed())
        (need,) = found.structured["results"]
        assert need["tools"][0].startswith("mcp__up__add(a: ")
        assert found.text == "\n".join(need["tools"])
        tools = await peer.tools()
        assert set(tools) - before >= {"mcp__up__add"}
        assert tools["mcp__up__add"]["title"] == "Addition"
        added = await peer.client.call_tool("mcp__up__add", {"a": 1, "b": 2})
        assert added.structured_content == {"total": 3, "note": None}


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_gateway_on_stdio_is_searched_and_called_in_the_same_way_as_one_conversation(
    mode: str, tmp_path: Path
):
    command, *args = PROGRAM
    config = tmp_path / "toolyard.toml"
    environment = ", ".join(f'{name} = "{value}"' for name, value in ENVIRONMENT.items())
    config.write_text(
        f'[gateway]\nview = "search"\nstate_dir = "{tmp_path}"\n[search]\nlist_found = true\n'
        f'[servers.up]\ncommand = "{command}"\n'
        f"args = {json.dumps(args)}\nenv = {{ {environment} }}\n"
    )
    start, *more = COMMAND
    program = StdioServerParameters(command=start, args=[*more, "stdio", "--config", str(config)])
    async with connect(program, mode, MODERN) as peer:
        found = await peer.meta("search_tools", queries=[{"use_case": "ask the person for a name"}])
        assert found.structured["results"][0]["tools"][0].startswith("mcp__up__greet(")
        peer.person.answer = {"action": "accept", "content": {"name": "Ada"}}
        assert (await peer.call("greet")).text == "Hello Ada"
        assert "mcp__up__greet" in await peer.tools()
