"""The `mcp` SDK, mcp-remote and Claude Code: each logs a person in at our own server, from its URL alone."""

import asyncio
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import aiohttp
import httpx2
import pytest
from mcp import Client as McpClient
from mcp import StdioServerParameters
from mcp.client.auth import OAuthClientProvider
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)

from tests.authserver.yard import REDIRECT, Browser, LoginYard, login_yard
from tests.callers.oidc import ROOT, node_program
from tests.clients.claude_peer import claude_code
from tests.waiting import until
from toolyard.authserver.logins import Logins

PROXY = ROOT / "build/npm/node_modules/mcp-remote/dist/proxy.js"
_VISIT = re.compile(r"http://127\.0\.0\.1:\d+/oauth/authorize\?[^\s\"\\<>)]+")


async def approve(page: str) -> None:
    """The person before the browser: signs in, allows, and is sent back to the program that waits."""
    (back,) = parse_qs(urlsplit(page).query)["redirect_uri"]
    async with Browser() as browser:
        answer = await browser.allow(page)
    async with aiohttp.ClientSession() as http, http.get(back, params=answer) as reply:
        assert reply.status == 200, await reply.text()


async def clients_of(yard: LoginYard) -> list[tuple[str, str]]:
    logins: Logins = yard.server._logins  # pyright: ignore[reportPrivateUsage]
    return [(login.person.subject, login.client_name) for login in await logins.list()]


class Memory:
    """What the SDK keeps for a user."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_sdk_logs_in_and_renews_its_token(tmp_path: Path, mode: str):
    async with login_yard(tmp_path) as yard:
        memory = Memory()
        answers: list[dict[str, str]] = []

        async def open_browser(page: str) -> None:
            async with Browser() as browser:
                answers.append(await browser.allow(page))

        async def wait_for_browser() -> AuthorizationCodeResult:
            answer = answers.pop()
            return AuthorizationCodeResult(code=answer["code"], state=answer["state"], iss=answer["iss"])

        metadata = OAuthClientMetadata(client_name="the SDK", redirect_uris=[REDIRECT])  # pyright: ignore[reportArgumentType]
        auth = OAuthClientProvider(yard.resource, metadata, memory, open_browser, wait_for_browser)
        seen: set[str] = set()
        for _ in range(2):
            async with (
                httpx2.AsyncClient(auth=auth) as inner,
                McpClient(streamable_http_client(yard.resource, http_client=inner), mode=mode) as client,
            ):
                assert (await client.list_tools()).tools
            assert memory.tokens
            seen.add(memory.tokens.access_token)
            auth.context.token_expiry_time = 1.0  # the second time it has to renew, and nobody is asked
        assert len(seen) == 2
        assert await clients_of(yard) == [("anna", "the SDK")]


async def test_mcp_remote_logs_in(tmp_path: Path):
    node = node_program(PROXY)
    async with login_yard(tmp_path / "state") as yard:
        log = tmp_path / "log"

        async def person() -> None:
            async def is_named() -> bool:
                return bool(_VISIT.search(log.read_text()))

            await until(is_named)
            found = _VISIT.search(log.read_text())
            assert found
            await approve(found[0])

        args = [str(PROXY), yard.resource, "--allow-http", "--transport", "http-only"]
        # Without a PATH it finds no browser to open.
        program = StdioServerParameters(command=node, args=args, env={"HOME": str(tmp_path), "PATH": ""})
        with log.open("w") as said:
            approving = asyncio.create_task(person())
            async with McpClient(stdio_client(program, errlog=said), mode="legacy") as client:
                assert (await client.list_tools()).tools
            await approving
        ((user, name),) = await clients_of(yard)
        assert user == "anna"
        assert name


async def test_claude_code_logs_in(tmp_path: Path):
    async with login_yard(tmp_path / "state") as yard:
        server = {"type": "http", "url": yard.resource}
        waiting = asyncio.Event()
        (tmp_path / "home").mkdir()
        async with claude_code(tmp_path / "home", server, "2026-07-28", waiting.wait) as peer:
            # What its applications do when a person presses "log in"; the Python SDK has no name for it yet.
            query: Any = peer.client._query  # pyright: ignore[reportPrivateUsage]
            begun = await query._send_control_request({"subtype": "mcp_authenticate", "serverName": "yard"})
            assert "claude-code-client-metadata" in begun["authUrl"]
            await approve(begun["authUrl"])

            async def is_connected() -> bool:
                (status,) = (await peer.client.get_mcp_status())["mcpServers"]
                return status["status"] == "connected"

            await until(is_connected)
            assert "call_tool" in await peer.tools()
        assert await clients_of(yard) == [("anna", "Claude Code")]
