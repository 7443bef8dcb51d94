"""Apps, which other systems call toolkits, and the slugs of their tools.

A `toolkit_slug` is an app of a remote if one has it, else a mounted server's name. A tool slug is a
remote's own name of a tool; a tool of another mounted server has only its full name.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from difflib import get_close_matches
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from ...catalogue.catalogue import CatalogueEntry, conversation_of
from ...catalogue.items import TOOLS, shown_name
from ...catalogue.scope import VisibleServer
from ...dispatch.remote import AppConnection, Remote, RemoteTool
from ...kit.calls.content import ToolError
from ...state.store import StateError
from ...upstream.composio.api import Toolkit
from ...upstream.errors import UpstreamError
from ...wire.call import Call
from ..meta.service import MetaToolService
from ..meta.tools import ToolMatch

MAX_ABOUT = 360
"""Characters of an app's description."""
NO_AUTH = "NO_AUTH"

T = TypeVar("T")


class App(Struct, frozen=True):
    toolkit: Toolkit
    server: str
    remote: Remote | None = None
    """None for a mounted server, which needs no connection."""

    @property
    def slug(self) -> str:
        return self.toolkit.slug

    @property
    def name(self) -> str:
        return self.toolkit.name

    @property
    def supports_oauth(self) -> bool:
        return "OAUTH2" in self.toolkit.auth_schemes


class AppTool(Struct, frozen=True):
    own: str
    """Its name at the app."""
    full: str
    description: str
    input_schema: dict[str, Any]


async def find_app(service: MetaToolService, call: Call, slug: str) -> App:
    """Find an app at the remotes or among the mounted servers, or raise ToolError."""
    app = await _remote_app(service, call, slug) or _server_app(service, call, slug)
    if app is None:
        raise ToolError(f"Could not find toolkit details for {slug[:80]!r}{_hint(service, call, slug)}")
    return app


async def _remote_app(service: MetaToolService, call: Call, slug: str) -> App | None:
    failure: UpstreamError | None = None
    for server, remote in service.context.remotes_of(call).items():
        try:
            toolkit = await remote.toolkit(call, slug.lower())
        except UpstreamError as error:
            failure = error
            continue
        if toolkit is not None:
            return App(toolkit, server, remote)
    if failure is not None and _server_app(service, call, slug) is None:
        raise failure
    return None


def _server_app(service: MetaToolService, call: Call, slug: str) -> App | None:
    apps = {app.slug.lower(): app for app in server_apps(service, call)}
    return apps.get(slug.lower())


def _hint(service: MetaToolService, call: Call, slug: str) -> str:
    known = [app.slug for app in server_apps(service, call)]
    near = get_close_matches(slug[:80], known, 3, 0.6)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else "; search for one first"


def server_apps(service: MetaToolService, call: Call) -> list[App]:
    remotes = service.context.remotes_of(call)
    servers = service.context.view_context.visible(call).servers
    return [
        App(_toolkit(server_catalogue), server)
        for server, server_catalogue in servers.items()
        if server not in remotes
    ]


def _toolkit(server: VisibleServer) -> Toolkit:
    tools = [entry.bare for entry in server.entries[TOOLS.name]]
    about = (server.identity.instructions or "").strip()
    about = about or f"{len(tools)} tools: {', '.join(tools)}"
    return Toolkit(
        slug=server.name,
        name=_title(server),
        description=about if len(about) <= MAX_ABOUT else about[: MAX_ABOUT - 1].rstrip() + "…",
        auth_schemes=(NO_AUTH,),
        connected=server.fault is None,
    )


class _Info(Struct):
    title: str | None = None


def _title(server: VisibleServer) -> str:
    try:
        return msgspec.json.decode(server.identity.info, type=_Info).title or server.name
    except msgspec.DecodeError:
        return server.name


async def search_apps(
    service: MetaToolService, call: Call, text: str, category: str, limit: int
) -> list[App]:
    """Search apps by name and description, first those of the remotes. Skips failed remotes."""
    found: list[App] = []
    for server, remote in service.context.remotes_of(call).items():
        toolkits = await _in_time(service, remote.toolkits(call, text, category, limit))
        found += [App(toolkit, server, remote) for toolkit in toolkits or ()]
    if not category:
        words = text.lower()
        found += [app for app in server_apps(service, call) if words in f"{app.slug} {app.name}".lower()]
    return found[:limit]


async def apps_of(
    service: MetaToolService, call: Call, tools: Sequence[ToolMatch]
) -> list[tuple[App, list[ToolMatch]]]:
    """Group tools by app, in the order of their best tools. Tools that a remote lists itself have no app."""
    remotes = service.context.remotes_of(call)
    groups: dict[tuple[str, str], list[ToolMatch]] = {}
    for tool in tools:
        if tool.toolkit or tool.server not in remotes:
            groups.setdefault((tool.server, tool.toolkit), []).append(tool)
    apps = await asyncio.gather(*(_app_of(service, call, server, slug) for server, slug in groups))
    return list(zip(apps, groups.values(), strict=True))


async def _app_of(service: MetaToolService, call: Call, server: str, slug: str) -> App:
    remote = service.context.remotes_of(call).get(server)
    if remote is None or not slug:
        server_catalogue = service.context.view_context.visible(call).servers.get(server)
        return App(
            Toolkit(slug=server, name=server) if server_catalogue is None else _toolkit(server_catalogue),
            server,
        )
    toolkit = await _in_time(service, remote.toolkit(call, slug))
    return App(toolkit or Toolkit(slug=slug, name=slug), server, remote)


async def _in_time(service: MetaToolService, request: Awaitable[T]) -> T | None:
    """Await a request to a remote; None if the remote is down or slow."""
    try:
        async with asyncio.timeout(service.context.settings.remote_seconds):
            return await request
    except (UpstreamError, StateError, TimeoutError):
        return None


async def tools_of(service: MetaToolService, call: Call, app: App) -> list[AppTool]:
    """Return all tools of an app; those of a remote are added to the conversation."""
    if app.remote is not None:
        permits = service.context.view_context.visible(call).permits
        tools = await app.remote.tools_of(call, app.slug)
        return [_from_remote(tool) for tool in tools if permits(app.server, tool.own)]
    server = service.context.view_context.visible(call).servers.get(app.server)
    return [] if server is None else [_from_entry(entry) for entry in server.entries[TOOLS.name]]


def _from_remote(tool: RemoteTool) -> AppTool:
    return AppTool(tool.own, tool.name, tool.description, tool.input_schema or {"type": "object"})


class _Listed(Struct, rename="camel"):
    input_schema: dict[str, Any]
    description: str | None = None


def _from_entry(entry: CatalogueEntry) -> AppTool:
    listed = msgspec.json.decode(b"{" + entry.item.rest, type=_Listed)
    return AppTool(entry.bare, entry.name, listed.description or "", listed.input_schema)


async def connection_of(service: MetaToolService, call: Call, app: App) -> AppConnection:
    """Return the current connection to an app; a mounted server is always connected."""
    if app.remote is None:
        return AppConnection(app.server, app.slug, "active")
    found = await app.remote.connections(call, [app.slug])
    return next(iter(found), AppConnection(app.server, app.slug, "none"))


PREFIX = "mcp__"


def full_name(service: MetaToolService, call: Call, slug: str) -> str:
    """Return the full name of a tool slug; an unknown slug is returned as it is."""
    if slug.startswith(PREFIX):
        return slug
    remotes = service.context.remotes_of(call)
    bare = [
        entry.name
        for server, server_catalogue in service.context.view_context.visible(call).servers.items()
        if server not in remotes and (entry := server_catalogue.find(TOOLS, slug)) is not None
    ]
    if len(bare) == 1:  # if two servers have it, the slug is ambiguous
        return bare[0]
    return next((shown_name(server, slug) for server in remotes), slug)


class ToolSlugs:
    """Turns full names back into slugs for one reply; a slug that was given is used as it came."""

    def __init__(self, service: MetaToolService, call: Call, given: Iterable[str] = ()) -> None:
        self._given = {full_name(service, call, slug): slug for slug in given}
        self._catalogue = service.context.view_context.visible(call)
        self._remotes = service.context.remotes_of(call)
        self._conversation = conversation_of(call)

    def of(self, full: str) -> str:
        if full in self._given:
            return self._given[full]
        entry = self._catalogue.find(TOOLS, full) or self._catalogue.find_discovered(full, self._conversation)
        return entry.item.own if entry is not None and entry.server in self._remotes else full
