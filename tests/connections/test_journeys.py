"""From an empty machine to a tool behind OAuth: foreign servers, Chromium, and `toolyard` as a process."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
import pytest_asyncio
from mcp import Client as McpClient
from mcp.client import ClientRequestContext

from tests.callers.oidc import OidcProvider, oidc_provider
from tests.clients.claude_peer import claude_code
from tests.clients.conversation import Person as User
from tests.connections.foreign import fastmcp_upstream, sdk_upstream
from tests.connections.person import Person, a_person
from tests.connections.program import Machine
from tests.programs import needs
from tests.stores import free_port
from tests.waiting import until

pytestmark = [needs("chromium"), pytest.mark.asyncio(loop_scope="module")]

TOOL = "mcp__sdk__whoami"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def provider() -> AsyncIterator[OidcProvider]:
    async with oidc_provider() as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def upstream(provider: OidcProvider) -> AsyncIterator[str]:
    async with sdk_upstream(provider) as url:
        yield url


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def person() -> AsyncIterator[Person]:
    async with a_person() as found:
        yield found


async def log_in(machine: Machine, person: Person, server: str, name: str = "ana") -> str:
    login = await machine.start("login", server, "--port", str(free_port()), **machine.browser)
    page = await person.log_in(await machine.opened(), name)
    out, err = await login.communicate()
    assert login.returncode == 0, err.decode()
    assert f"logged in to {server}" in out.decode()
    return page


async def text_of(client: McpClient, tool: str = TOOL) -> tuple[bool, str]:
    result = await client.call_tool("call_tool", {"tool": tool, "arguments": {}})
    assert isinstance(result, types.CallToolResult)
    return bool(result.is_error), "".join(
        block.text for block in result.content if isinstance(block, types.TextContent)
    )


async def test_from_an_empty_machine_to_a_tool_and_back(
    provider: OidcProvider, upstream: str, person: Person, tmp_path: Path
):
    machine = Machine(tmp_path)
    status, said = await machine.run("add", "sdk", upstream)
    assert (status, "toolyard login sdk" in said) == (0, True), said
    status, said = await machine.run("list")
    assert (status, "sdk: not connected: run `toolyard login sdk`" in said) == (3, True), said

    await log_in(machine, person, "sdk")
    status, said = await machine.run("call", TOOL)
    assert (status, json.loads(said)) == (0, {"result": "ana"}), said

    for _ in range(2):  # the gateway, and the gateway after a restart
        async with machine.serving() as url, McpClient(url) as client:
            assert await text_of(client) == (False, "ana")

    async with machine.serving() as url, McpClient(url) as client:
        assert await text_of(client) == (False, "ana")
        await provider.tell("revoke")

        async def is_asked() -> bool:
            failed, said = await text_of(client)
            assert failed
            return "/oauth/connect/" in said

        await until(is_asked)  # a token of a few seconds is not doubted at once
    status, said = await machine.run("call", TOOL)
    assert (status, "toolyard login sdk" in said) == (2, True), said

    await log_in(machine, person, "sdk", "ben")
    assert (await machine.run("call", TOOL))[1] == '{"result":"ben"}\n'
    assert await machine.run("logout", "sdk") == (0, "logged out of sdk\n")
    status, said = await machine.run("list")
    assert (status, "run `toolyard login sdk`, 1 tool as last seen" in said) == (3, True), said
    status, said = await machine.run("call", TOOL)
    assert (status, "toolyard login sdk" in said) == (2, True), said


async def test_a_server_that_is_its_own_authorization_server(person: Person, tmp_path: Path):
    async with fastmcp_upstream() as (url, issuer):
        machine = Machine(tmp_path)
        assert (await machine.run("add", "own", url))[0] == 0
        await log_in(machine, person, "own")
        status, said = await machine.run("call", "mcp__own__whoami")
        assert (status, "a client with user" in said) == (0, True), said
        assert issuer.access_tokens
        assert (await machine.run("logout", "own"))[0] == 0
        assert not issuer.access_tokens


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_sdk_client_shows_the_link_and_the_call_goes_on(
    upstream: str, person: Person, tmp_path: Path, mode: Any
):
    """The link is opened in Chromium: our page, the issuer's login and consent, and our page again."""
    machine, pages = Machine(tmp_path), list[str]()
    await machine.run("add", "sdk", upstream)

    async def on_elicit(
        context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        assert isinstance(params, types.ElicitRequestURLParams)
        pages.append(await person.log_in(params.url, "ben"))
        return types.ElicitResult(action="accept")

    async with machine.serving() as url, McpClient(url, mode=mode, elicitation_callback=on_elicit) as client:
        # Nobody has logged in yet, so no tool is known: the agent is told, and gets a link for its user.
        found = await client.call_tool("search_tools", {"queries": [{"use_case": "who am I"}]})
        assert "use manage_connections" in str(found.content)
        (one,) = await connections(client, "link")
        assert await person.log_in(one["link"]) == "sdk is connected"
        (one,) = await connections(client, "wait")
        assert one["status"] == "active", one
        assert await text_of(client) == (False, "ana")
        await connections(client, "disconnect")
        assert await text_of(client) == (False, "ben")
    assert pages == ["sdk is connected"]
    assert not [line for line in person.said if "Content Security Policy" in line and "/oauth/" in line]


async def connections(client: McpClient, action: str) -> list[dict[str, Any]]:
    asked = {"action": action, "names": ["sdk"], "seconds": 20}
    result: Any = await client.call_tool("manage_connections", asked)
    return result.structured_content["connections"]


@pytest.mark.parametrize(("negotiation", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
async def test_claude_code_shows_the_link_and_the_call_goes_on(
    upstream: str, person: Person, tmp_path: Path, negotiation: str, version: str
):
    """Its user agrees to open the page; the call waits until they have logged in there."""
    machine, home = Machine(tmp_path), tmp_path / "claude"
    home.mkdir()
    await machine.run("add", "sdk", upstream)
    await log_in(machine, person, "sdk")
    user = User({"action": "accept"})
    async with machine.serving() as url:
        server = {"type": "http", "url": url}
        environment = {"MCP_PROTOCOL_NEGOTIATION": negotiation}
        async with claude_code(
            home, server, version, asyncio.Event().wait, user, environment=environment
        ) as peer:
            leaving = {"action": "disconnect", "names": ["sdk"]}
            await peer.call("call_tool", tool="manage_connections", arguments=leaving)
            calling = asyncio.create_task(peer.call("call_tool", tool=TOOL, arguments={}))

            question = home / "asked.jsonl"

            async def is_asked() -> bool:
                return calling.done() or (question.exists() and question.read_text().endswith("\n"))

            await until(is_asked)
            assert not calling.done(), calling.result()
            asked = json.loads(question.read_text())
            assert asked["mode"] == "url", asked
            assert await person.log_in(asked["url"], "ben") == "sdk is connected"
            result = await calling
            assert (result.is_error, result.structured) == (False, {"result": "ben"}), result
