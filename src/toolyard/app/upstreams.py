"""Builds the parts of one upstream: its mount and its health.

Also builds upstreams with sessions of their own: Composio, and servers whose sessions are leased.
"""

import logging
from collections.abc import Callable
from urllib.parse import urlsplit

from msgspec import Raw

from ..bridge import Bridge
from ..catalogue.catalogue import Catalogue, ServerCatalogue, ServerIdentity
from ..catalogue.sync import CatalogueSync
from ..config import Composio, Http, ServerConfig, Stdio
from ..dispatch import Mount
from ..dispatch.composio import ComposioUpstream
from ..dispatch.composio.sessions import ComposioSessions
from ..dispatch.composio.tools import SessionTools
from ..dispatch.mount import CallHandler, LeasedUpstream
from ..sessions.leases import Leases
from ..upstream.composio import ComposioClient, JsonApi, LabsClient, ToolRouterClient
from ..upstream.composio.rest import KEY_HEADER
from ..upstream.connection import ConnectionPool, UpstreamInfo
from ..upstream.http.client import UpstreamHttpClient
from ..upstream.http.connector import HttpConnector
from ..upstream.inprocess import InProcessUpstream
from ..wire.call import Call
from ..wire.versions import Era, era_of

UpstreamService = Bridge | InProcessUpstream | ComposioUpstream


class MountHealth:
    """An upstream's breaker and connections, as its keeper needs them."""

    def __init__(self, mount: Mount, service: UpstreamService) -> None:
        self._mount = mount
        self._service = service
        self.well = mount.breaker.well
        self.unwell = mount.breaker.unwell

    @property
    def is_open(self) -> bool:
        return self._mount.breaker.is_open

    @property
    def busy(self) -> bool:
        return self._mount.in_flight > 0

    async def reset(self) -> None:
        if isinstance(self._service, Bridge):
            await self._service.links.reset()
        elif isinstance(self._service, ComposioUpstream):
            await self._service.reset()


def on_breaker_trouble(keeper: CatalogueSync, reason: str, opened: bool) -> None:
    if opened:
        keeper.report_fault(reason)
    keeper.wake()


def make_mount(config: ServerConfig, service: UpstreamService, handler: CallHandler) -> Mount:
    """`handler` takes the calls: the service itself, or what stands before it."""
    where = config.where
    url = where.url if isinstance(where, Http) else where.base_url if isinstance(where, Composio) else ""
    mount = Mount(config, handler, "http" if url else "stdio" if isinstance(where, Stdio) else "inprocess")
    if url:
        parts = urlsplit(url)
        mount.address = parts.hostname or ""
        mount.port = parts.port or (443 if parts.scheme == "https" else 80)
    if isinstance(service, Bridge):
        mount.let_go = service.links.let_go
        mount.roots_changed = service.roots_changed
    elif isinstance(service, ComposioUpstream):
        service.guard(mount.breaker)
    return mount


async def identify_upstream(service: UpstreamService) -> ServerIdentity:
    about: UpstreamInfo
    if isinstance(service, Bridge):
        about = (await service.links.any()).about
    else:
        about = await service.about()
    return ServerIdentity(about.version, Raw(bytes(about.info)), about.capabilities, about.instructions)


logger = logging.getLogger("toolyard.app")

SANDBOX_TOOLS = ("COMPOSIO_REMOTE_WORKBENCH", "COMPOSIO_REMOTE_BASH_TOOL")

MakeBridge = Callable[[ConnectionPool], Bridge]


class _SessionConnection:
    """A bridge of its own for each session."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    async def handle(self, call: Call) -> object:
        return await self._bridge.handle(call)

    async def about(self) -> UpstreamInfo:
        return (await self._bridge.links.any()).about

    async def idle(self) -> None:
        await self._bridge.idle()

    async def close(self) -> None:
        await self._bridge.close()


def make_composio_upstream(
    config: ServerConfig,
    where: Composio,
    catalogue: Catalogue,
    server: ServerCatalogue,
    leases: Leases,
    http: UpstreamHttpClient,
    bridge: MakeBridge,
) -> ComposioUpstream:
    key = {KEY_HEADER: where.api_key}
    rest = JsonApi(config.name, http, where.base_url, key, config.connect_timeout, config.max_result)
    kind = LabsClient if where.api == "labs" else ToolRouterClient
    api: ComposioClient = kind(rest, where.toolkits, where.callback_url)

    def connect(url: str) -> _SessionConnection:
        # The key goes to where it was configured for, wherever a reply says that MCP is spoken.
        there = Http(url=url, headers=key if _origin(url) == _origin(where.base_url) else {})
        # What one session's address speaks, another's does too.
        era: Era | None = era_of(server.identity.version) if server.identity.version else None
        connector = HttpConnector(config.name, there, http, config.connect_timeout, config.max_result, era)
        return _SessionConnection(bridge(ConnectionPool(config.name, connector)))

    seats = ComposioSessions(config.name, where, api, leases)
    _warn_of_sandbox(config, server)
    return ComposioUpstream(config, where, api, seats, SessionTools(config.name, catalogue, server), connect)


def make_leased_upstream(
    config: ServerConfig, where: Http, inner: Bridge, leases: Leases, http: UpstreamHttpClient
) -> LeasedUpstream:
    rest = JsonApi(config.name, http, where.session_url, where.headers, config.connect_timeout)
    return LeasedUpstream(config.name, inner, leases, where.session_header, rest)


def _warn_of_sandbox(config: ServerConfig, server: ServerCatalogue) -> None:
    limited = config.deny or config.allow != ("*",)
    if limited and any(server.allows(tool) for tool in SANDBOX_TOOLS):
        logger.warning(
            "%s: some of its tools are denied, but code in its sandbox can call them all; "
            "hint: deny 'COMPOSIO_REMOTE_*' too",
            config.name,
        )


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname or "", port
