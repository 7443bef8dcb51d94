"""A gateway in front of the emulated Composio, and callers of several tenants and conversations."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

from msgspec import Raw

from tests.app.yard import Yard, yard
from tests.emulators.composio import ComposioEmulator
from tests.serving import Answer
from toolyard.config import Composio, ServerConfig, StateConfig
from toolyard.dispatch.remote import Remote
from toolyard.search.documents import ToolQuery
from toolyard.wire.call import NO_CHANNEL, Call, Caller, Identity, Principal
from toolyard.wire.versions import LATEST_MODERN

PATH = "/mcp/composio"
SEARCH, EXECUTE = "COMPOSIO_SEARCH_TOOLS", "COMPOSIO_MULTI_EXECUTE_TOOL"
MAIL = {"recipient_email": "ana@example.com", "body": "Hello"}


def server(composio: ComposioEmulator, *, key: str = "", **options: Any) -> ServerConfig:
    """`options` of Composio's own, and those that every server has."""
    own = {
        name: options.pop(name) for name in ("user_id", "api", "toolkits", "callback_url") if name in options
    }
    where = Composio(api_key=key or composio.api_key, base_url=composio.url, **own)
    limits: dict[str, Any] = {"timeout": 10, "connect_timeout": 5}
    return ServerConfig(name="composio", where=where, **(limits | options))


@asynccontextmanager
async def front(
    composio: ComposioEmulator, *, state: str | None = None, kept: str = "", view: str = "all", **options: Any
) -> AsyncIterator[Yard]:
    """`kept` is where sessions are kept: the address of a store."""
    mounted = server(composio, **options)
    tables = {"state": StateConfig(url=kept)}
    async with yard(mounted, state=state, tables=tables, identify=identify, view=view) as built:
        yield built


@asynccontextmanager
async def emulated(
    *, v31: bool = True, shape: Literal["2026", "2025"] = "2026", **options: Any
) -> AsyncIterator[tuple[ComposioEmulator, Yard]]:
    """Both at once. No fixture: the emulator wants to end in the task that it began in."""
    async with ComposioEmulator(v31=v31, shape=shape) as composio, front(composio, **options) as yard:
        yield composio, yard


def identify(headers: Any) -> Principal:
    told = dict(headers)
    return Principal(tenant=told.get(b"x-tenant", b"acme").decode(), agent=told.get(b"x-agent", b"").decode())


def query(use_case: str, **more: Any) -> ToolQuery:
    return ToolQuery(use_case, **more)


async def call(
    front: Yard, tool: str, arguments: Any = None, tenant: str = "acme", thread: str = "t"
) -> Answer:
    """Call a tool by the name that Composio has for it."""
    told = {"x-tenant": tenant, "x-toolyard-thread": thread}
    return await front.call(tool, arguments or {}, path=PATH, headers=told)


async def mail(front: Yard, number: int = 1, **who: str) -> Answer:
    return await call(front, "GMAIL_SEND_EMAIL", MAIL | {"subject": str(number)}, **who)


def remote(front: Yard) -> Remote:
    return front.gateway.remotes()["composio"]


def of(tenant: str = "acme", thread: str = "t", agent: str = "") -> Call:
    """A call, as far as it says who asks."""
    caller = Caller(LATEST_MODERN, {}, identity=Identity(Principal(tenant, agent), thread))
    return Call("tools/call", Raw(b"{}"), caller, NO_CHANNEL, 1)


def sessions_of(composio: ComposioEmulator, user: str) -> list[str]:
    return [session.id for session in composio.sessions.values() if session.user_id == user]
