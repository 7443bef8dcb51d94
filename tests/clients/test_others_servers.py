"""Hosts as users have them, in front of servers as strangers write them: through a gateway nothing is lost.

Each conversation is held three times: directly, through `view = "bare"`, and through `view = "all"`. What the
host saw directly is what it has to see; nothing else is expected here.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from fastmcp.client.transports import StdioTransport
from mcp import MCPError, StdioServerParameters

from tests.clients import fastmcp_peer, mcp_peer
from tests.clients.claude_peer import claude_code
from tests.clients.conversation import soon
from tests.clients.inspector_peer import inspector
from tests.clients.others import ENVIRONMENT, SHELF, over_http, program
from tests.clients.test_mcp_remote import NODE, PROXY
from tests.through import gateway_to
from toolyard.config import Http, Stdio

Target = str | list[str]
"""An address, or a command."""
Heard = dict[str, Any]


async def outcome(call: Any) -> Any:
    try:
        return await call
    except MCPError as error:
        return error.code, error.message, error.data


async def drained(queue: asyncio.Queue[Any], count: int | None) -> list[Any]:
    """As many as the host saw directly; there, what has come."""
    return [await soon(queue.get()) for _ in range(queue.qsize() if count is None else count)]


async def hold(peer: Any, hears: bool, prefix: str = "", before: Heard | None = None) -> Heard:
    """Talk with a server, and tell what the host saw. `before` is what it saw directly."""
    person, heard = peer.person, Heard()
    person.answer = {"action": "accept", "content": {"name": "Ada"}}
    assert "Ask before you book." in await peer.instructions()
    heard["level"] = await outcome(peer.want_lines())
    heard["tools"] = await peer.tools()
    for tool in ("greet", "book", "walk", "boom"):
        heard[tool] = await outcome(peer.call(prefix + tool))
    heard["asked"] = [(one["message"], one["requestedSchema"]) for one in person.asked]
    for queue in ("progress", "lines"):
        heard[queue] = await drained(getattr(person, queue), None if before is None else len(before[queue]))
    heard["shelf"] = await peer.resources(), await peer.read(SHELF)
    async with peer.watching() if hears else nullcontext() as changed:
        heard["learn"] = await outcome(peer.call(prefix + "learn"))
        if changed is not None:
            await soon(changed())
        heard["new"] = (await peer.tools())[f"{prefix}late"]
    heard["late"] = await outcome(peer.call(prefix + "late"))
    heard["changed shelf"] = await peer.read(SHELF)
    return heard


def marked(heard: Heard) -> Heard:
    """The same where several servers may speak: under longer names, and with whose words they are."""

    def named(tool: dict[str, Any]) -> dict[str, Any]:
        return tool | ({"name": f"mcp__up__{tool['name']}"} if "name" in tool else {})

    return heard | {
        "level": None,  # the gateway keeps it
        "tools": {f"mcp__up__{name}": named(tool) for name, tool in heard["tools"].items()},
        "new": named(heard["new"]),
        "asked": [(f"Server 'up' asks: {words}", schema) for words, schema in heard["asked"]],
        "progress": [(*step, words and f"Server 'up': {words}") for *step, words in heard["progress"]],
        "lines": [(level, f"up/{name}" if name else "up", data) for level, name, data in heard["lines"]],
    }


Host = Callable[[Path, Target], AbstractAsyncContextManager[Any]]


def mcp_client(mode: str) -> Host:
    def connect(home: Path, target: Target) -> Any:
        if isinstance(target, list):
            server = StdioServerParameters(command=target[0], args=target[1:], env=ENVIRONMENT)
            return mcp_peer.connect(server, mode, "")
        return mcp_peer.connect(target, mode, "")

    return connect


def fastmcp_client(mode: str) -> Host:
    def connect(home: Path, target: Target) -> Any:
        if isinstance(target, list):
            server = StdioTransport(target[0], target[1:], env=ENVIRONMENT, keep_alive=False)
            return fastmcp_peer.connect(server, mode, "")
        return fastmcp_peer.connect(target, mode, "")

    return connect


def claude(negotiation: str) -> Host:
    async def never() -> None:
        raise AssertionError("nothing is cancelled here")

    def connect(home: Path, target: Target) -> Any:
        environment = {"MCP_PROTOCOL_NEGOTIATION": negotiation}
        server: dict[str, Any] = {"type": "http", "url": target}
        if isinstance(target, list):
            server = {"type": "stdio", "command": target[0], "args": target[1:], "env": ENVIRONMENT}
        return claude_code(home, server, "", never, environment=environment)

    return connect


def mcp_remote(protocol: str) -> Host:
    def connect(home: Path, target: Target) -> Any:
        args = [str(PROXY), str(target), "--allow-http", "--transport", "http-only", "--protocol", protocol]
        server = StdioServerParameters(command=str(NODE), args=[*args, "--silent"], env={"HOME": str(home)})
        return mcp_peer.connect(server, "legacy", "")

    return connect


def the_inspector(era: str) -> Host:
    def connect(home: Path, target: Target) -> Any:
        return inspector(home, target if isinstance(target, list) else [target], era)

    return connect


@asynccontextmanager
async def served(library: str, transport: str) -> AsyncIterator[Target]:
    if transport == "stdio":
        yield program(library)
    else:
        async with over_http(library) as url:
            yield url


def mounted(target: Target) -> Http | Stdio:
    if isinstance(target, str):
        return Http(url=target)
    return Stdio(command=target[0], args=tuple(target[1:]), env=ENVIRONMENT)


EVERYWHERE = ("directly", "bare", "all")
NO_LISTENING = ("directly", "bare")
"""It cannot listen, and hears what the server says in a call. A merged view tells those who listen."""
NEVER = ()
"""Its commands show no changes."""


@pytest.mark.parametrize(
    ("host", "library", "transport", "hears"),
    [
        pytest.param(mcp_client("legacy"), "fastmcp", "http", EVERYWHERE, id="mcp-legacy"),
        pytest.param(mcp_client("auto"), "sdk", "stdio", EVERYWHERE, id="mcp-modern"),
        pytest.param(fastmcp_client("legacy"), "sdk", "http", EVERYWHERE, id="fastmcp-legacy"),
        pytest.param(fastmcp_client("auto"), "fastmcp", "stdio", NO_LISTENING, id="fastmcp-modern"),
        pytest.param(claude("legacy"), "fastmcp", "stdio", EVERYWHERE, id="claude-legacy"),
        pytest.param(claude("auto"), "sdk", "http", EVERYWHERE, id="claude-modern"),
        pytest.param(mcp_remote("legacy"), "fastmcp", "http", EVERYWHERE, id="mcp-remote-legacy"),
        pytest.param(mcp_remote("auto"), "sdk", "http", EVERYWHERE, id="mcp-remote-modern"),
        pytest.param(the_inspector("legacy"), "fastmcp", "http", NEVER, id="inspector-legacy"),
        pytest.param(the_inspector("modern"), "sdk", "http", NEVER, id="inspector-modern"),
    ],
)
async def test_a_host_loses_nothing_of_a_strangers_server(
    host: Host, library: str, transport: str, hears: tuple[str, ...], tmp_path: Path
):
    def home(name: str) -> Path:
        (tmp_path / name).mkdir()
        return tmp_path / name

    async with served(library, transport) as target, host(home("directly"), target) as peer:
        directly = await hold(peer, "directly" in hears)
    for view in ("bare", "all"):
        async with (
            served(library, transport) as target,
            gateway_to(mounted(target), view=view) as (front, _),
            host(home(view), front.url) as peer,
        ):
            heard = await hold(peer, view in hears, "mcp__up__" if view == "all" else "", directly)
        assert heard == (marked(directly) if view == "all" else directly), view
