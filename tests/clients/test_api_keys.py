"""Real clients with an API key in a static header, in front of a server that wants one."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from mcp import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from tests.clients.claude_peer import claude_code
from tests.clients.conversation import converse
from tests.clients.mcp_peer import connect
from tests.clients.test_claude_code import LACKS as CLAUDE_LACKS
from tests.clients.test_mcp import LACKS, LEGACY, MODERN
from tests.clients.test_mcp_remote import NODE, PROXY
from tests.clients.yard import Yard
from tests.serving import serving
from toolyard.callers.authenticator import Authenticator
from toolyard.callers.keys import ApiKeys, KeyHolder
from toolyard.edge.http.app import HttpEdge
from toolyard.edge.request import AuthenticatorSetting
from toolyard.state import open_state
from toolyard.wire.seal import Sealer


@asynccontextmanager
async def guarded(yard: Yard, folder: Path) -> AsyncIterator[tuple[str, str]]:
    """The yard behind an authenticator: its URL, and the header that opens it."""
    sealer = Sealer(b"0123456789abcdef")
    keys = ApiKeys(open_state("sqlite:", folder), "yard", sealer, owns_state=True)
    issued = await keys.create(KeyHolder(name="anna", agent="coder"))
    setting = AuthenticatorSetting(Authenticator([keys], required=True))
    async with serving(HttpEdge(yard.server.service, yard.server.sealer, callers=setting)) as http:
        yield http.url, f"Bearer {issued.text}"
    await keys.close()


@pytest.mark.parametrize(("mode", "version"), [("legacy", LEGACY), (MODERN, MODERN)])
async def test_the_mcp_client_holds_the_conversation_with_a_key(mode: str, version: str, tmp_path: Path):
    async with guarded(Yard(), tmp_path) as (url, key):
        client = httpx2.AsyncClient(headers={"Authorization": key}, timeout=httpx2.Timeout(30, read=300))
        async with client, connect(streamable_http_client(url, http_client=client), mode, version) as peer:
            await converse(peer, LACKS[mode])


async def test_mcp_remote_holds_the_conversation_with_a_key(tmp_path: Path):
    async with guarded(Yard(), tmp_path) as (url, key):
        args = [str(PROXY), url, "--allow-http", "--transport", "http-only", "--protocol", "legacy"]
        program = StdioServerParameters(
            command=str(NODE),
            args=[*args, "--header", f"Authorization: {key}", "--silent"],
            env={"HOME": str(tmp_path)},
        )
        async with connect(program, "legacy", LEGACY) as peer:
            await converse(peer)


@pytest.mark.parametrize(("negotiation", "version"), [("auto", MODERN), ("legacy", LEGACY)])
async def test_claude_code_holds_the_conversation_with_a_key(negotiation: str, version: str, tmp_path: Path):
    yard = Yard()
    async with guarded(yard, tmp_path / "state") as (url, key):
        server = {"type": "http", "url": url, "headers": {"Authorization": key}}
        environment = {"MCP_PROTOCOL_NEGOTIATION": negotiation}
        async with claude_code(tmp_path, server, version, yard.started.wait, environment=environment) as peer:
            await converse(peer, CLAUDE_LACKS)
