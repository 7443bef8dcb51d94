"""mcp-remote, the proxy for clients that only start programs: the real one from npm, driven over stdio."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from mcp import StdioServerParameters

from tests.clients.conversation import TOPICS, topics
from tests.clients.mcp_peer import McpPeer, connect
from tests.clients.yard import Yard
from tests.serving import serving

ROOT = Path(__file__).resolve().parents[2]


@asynccontextmanager
async def through_mcp_remote(home: Path, protocol: str) -> AsyncIterator[McpPeer]:
    async with serving(Yard().server.asgi()) as http:
        program = StdioServerParameters(
            command=str(ROOT/".venv/bin/node"),
            args=[str(ROOT/"build/npm/node_modules/mcp-remote/dist/proxy.js"), http.url, "--allow-http", "--transport", "http-only", "--protocol", protocol],
            env={"HOME": str(home), "MCP_REMOTE_CONFIG_DIR": str(home)},
        )
        async with connect(program, "legacy") as peer:
            yield peer


@pytest.mark.parametrize("protocol", ["legacy", "auto"])
@pytest.mark.parametrize("topic", topics())
async def test_a_client_behind_mcp_remote(protocol: str, topic: str, tmp_path: Path):
    async with through_mcp_remote(tmp_path, protocol) as peer:
        await TOPICS[topic](peer)
