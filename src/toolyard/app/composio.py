"""Upstreams with sessions of their own, put together: Composio, and servers of the Suna fork's form."""

import logging
from collections.abc import Callable
from urllib.parse import urlsplit

from ..bridge import Bridge
from ..catalogue.catalogue import Catalogue, Shelf
from ..config import Composio, Http, ServerConfig
from ..dispatch.composio import ComposioUpstream
from ..dispatch.composio.loans import Loans
from ..dispatch.composio.seats import Seats
from ..dispatch.leased import Leased
from ..sessions.leases import Leases
from ..upstream.composio import Api, ComposioApi, LabsApi, Rest
from ..upstream.composio.rest import KEY_HEADER
from ..upstream.http import HttpConnector
from ..upstream.http_client import HttpClient
from ..upstream.link import About
from ..upstream.links import Links
from ..wire.call import Call
from ..wire.versions import Era, era_of

logger = logging.getLogger("toolyard.app")

SANDBOX = ("COMPOSIO_REMOTE_WORKBENCH", "COMPOSIO_REMOTE_BASH_TOOL")

MakeBridge = Callable[[Links], Bridge]


class _Way:
    """A bridge of its own for each session."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge

    async def handle(self, call: Call) -> object:
        return await self._bridge.handle(call)

    async def about(self) -> About:
        return (await self._bridge.links.any()).about

    async def idle(self) -> None:
        await self._bridge.idle()

    async def close(self) -> None:
        await self._bridge.close()


def composio(
    config: ServerConfig,
    where: Composio,
    catalogue: Catalogue,
    shelf: Shelf,
    leases: Leases,
    http: HttpClient,
    bridge: MakeBridge,
) -> ComposioUpstream:
    key = {KEY_HEADER: where.api_key}
    rest = Rest(config.name, http, where.base_url, key, config.connect_timeout, config.max_result)
    kind = LabsApi if where.api == "labs" else ComposioApi
    api: Api = kind(rest, where.toolkits, where.callback_url)

    def connect(url: str) -> _Way:
        # The key goes to where it was configured for, wherever a reply says that MCP is spoken.
        there = Http(url=url, headers=key if _origin(url) == _origin(where.base_url) else {})
        # What one session's address speaks, another's does too.
        era: Era | None = era_of(shelf.identity.version) if shelf.identity.version else None
        connector = HttpConnector(config.name, there, http, config.connect_timeout, config.max_result, era)
        return _Way(bridge(Links(config.name, connector)))

    seats = Seats(config.name, where, api, leases)
    _warn_of_sandbox(config, shelf)
    return ComposioUpstream(config, where, api, seats, Loans(config.name, catalogue, shelf), connect)


def leased(config: ServerConfig, where: Http, inner: Bridge, leases: Leases, http: HttpClient) -> Leased:
    rest = Rest(config.name, http, where.session_url, where.headers, config.connect_timeout)
    return Leased(config.name, inner, leases, where.session_header, rest)


def _warn_of_sandbox(config: ServerConfig, shelf: Shelf) -> None:
    limited = config.deny or config.allow != ("*",)
    if limited and any(shelf.admits(tool) for tool in SANDBOX):
        logger.warning(
            "%s: some of its tools are denied, but code in its sandbox can call them all; "
            "hint: deny 'COMPOSIO_REMOTE_*' too",
            config.name,
        )


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname or "", port
