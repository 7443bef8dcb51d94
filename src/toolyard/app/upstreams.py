"""Builds upstreams from their configuration, and holds what belongs to one mounted server.

`UpstreamBuilder` is the only place that looks at the kind of a server; everywhere else it is an `Upstream`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple, Protocol, TypedDict
from urllib.parse import urlsplit

from msgspec.structs import replace

from ..bridge import Bridge, ParkedCalls
from ..catalogue.catalogue import Catalogue, ServerCatalogue
from ..catalogue.items import KINDS
from ..catalogue.store import CatalogueStore
from ..catalogue.sync import CatalogueSync
from ..composio import KEY_HEADER
from ..config import Composio, Config, Http, InProcess, ServerConfig, Stdio
from ..config.server_auth import KeyAuth
from ..connections.keys import KeyAccounts, KeySession
from ..dispatch import Breaker, Mount
from ..dispatch.accounts import AccountUpstream
from ..dispatch.composio import ComposioUpstream
from ..dispatch.composio.sessions import ComposioSessions
from ..dispatch.composio.tools import SessionTools
from ..dispatch.keyed import KeyedConnector, KeyedProgram, KeyedServer, KeyedUpstream
from ..dispatch.mount import LeasedUpstream
from ..dispatch.remote import Remote
from ..sessions.leases import Leases
from ..telemetry.events import Events
from ..telemetry.metrics import Metrics
from ..telemetry.requests import Transport
from ..upstream.accounts import Accounts
from ..upstream.base import Forward, Upstream
from ..upstream.composio import ComposioClient, JsonApi, LabsClient, ToolRouterClient
from ..upstream.connection import GATEWAY_CALLER, SESSIONS, ConnectionPool, StartProgress
from ..upstream.handshake import MODERN_META
from ..upstream.http.client import EndpointAuth, PooledHttpClient
from ..upstream.http.connector import HttpConnector
from ..upstream.inprocess import CallToolOf, InProcessUpstream
from ..upstream.stdio.connector import StdioConnector
from ..wire.call import Principal
from ..wire.seal import Sealer
from ..wire.versions import Era, era_of

logger = logging.getLogger("toolyard.app")

READ_SECONDS = 1.0
"""How long a client that lists waits for a server that may have changed its lists."""
MAX_PROGRAMS = 32
"""How many processes of one program run at a time, each with the key of another caller."""
SANDBOX_TOOLS = ("COMPOSIO_REMOTE_WORKBENCH", "COMPOSIO_REMOTE_BASH_TOOL")


class UpstreamTap(Protocol):
    """Stands between a gateway and its servers: it records their traffic, or answers in their place."""

    def configured(self, config: Config) -> None:
        """A gateway is built from this configuration."""
        ...

    def wrap(self, config: ServerConfig, upstream: Upstream) -> Upstream:
        """The upstream that the gateway uses instead; nothing has been sent to `upstream` yet."""
        ...

    def new_id(self, tool: str) -> str:
        """The id of a stored result of a tool, the same in a recording and in its replay."""
        ...


class SharedParts(NamedTuple):
    """What the servers of one gateway share."""

    catalogue: Catalogue
    store: CatalogueStore
    leases: Leases
    http: PooledHttpClient
    sealer: Sealer
    has_key: bool
    """Whether the key of the sealer is known to other processes too, and not made up for this one."""
    parked: ParkedCalls
    metrics: Metrics | None
    reads: asyncio.Semaphore
    """How many servers whose lists are known already are read at a time."""
    many_tenants: bool
    call_tool: CallToolOf
    """How a server in this process calls the other tools of a caller."""
    events: Events
    tap: UpstreamTap | None = None
    accounts: "Callable[[ServerConfig, Callable[[], None], InProcessUpstream | None], Accounts] | None" = None
    """Makes the accounts of callers at a server that has `auth`."""
    on_demand: bool = False
    """Lists are read when something needs them: clients ask the one server itself."""


class MountedServer:
    """One server: its place in the catalogue, its upstream and mount, and the sync of its lists."""

    def __init__(self, config: ServerConfig, shared: SharedParts) -> None:
        self.config = config
        self._shared = shared
        self.listing = shared.catalogue.add(config, self._start_progress)
        shared.store.load(config, self.listing)
        breaker = Breaker(config.name, self._on_trouble)
        made = _Builder(config, shared, self.listing, breaker, self._on_open, self._on_connected).build()
        if shared.tap is not None:
            made = made._replace(upstream=shared.tap.wrap(config, made.upstream))
        self._stdio = made.stdio
        self.upstream = made.upstream
        self.remote = made.remote
        self.accounts = made.accounts
        self.mount = Mount(
            config,
            made.upstream,
            made.transport,
            made.url,
            breaker=breaker,
            version=lambda: self.listing.identity.version,
            on_retry=self._on_retry,
            prepare=made.prepare,
        )
        # A process is not started for a list that is known already.
        lazy = config.start == "lazy" and made.transport == "stdio" and self.listing.was_read
        self._sync = CatalogueSync(
            config,
            self.listing,
            shared.catalogue,
            shared.store,
            made.upstream,
            GATEWAY_CALLER,
            MODERN_META,
            self,
            shared.reads,
            lazy=lazy,
            on_demand=shared.on_demand and self.listing.lists_all and made.transport != "inprocess",
        )

    def start(self) -> None:
        self._sync.start()

    def reconfigure(self, config: ServerConfig) -> None:
        """Takes over what does not need another connection."""
        self.config = config
        self.mount.reconfigure(config)
        self._sync.reconfigure(config)
        if self._stdio is not None:
            self._stdio.pool.reconfigure(start_wait(config))
            self._stdio.connector.reconfigure(config.start_timeout)
        self.listing.reconfigure(config)
        self._shared.catalogue.changed(config.name, KINDS)

    def lists_wanted(self) -> None:
        """Somebody looks at its lists: old ones are read again."""
        self._sync.refresh_if_old()

    @property
    def may_have_changed(self) -> bool:
        """Whether its lists have to be read before somebody sees them. One in this process says itself."""
        return self.mount.transport != "inprocess" and self._sync.may_have_changed

    async def read_lists(self) -> None:
        await self._sync.read_now(READ_SECONDS)

    async def finish(self, wait: float) -> None:
        """Ends it once its calls under way are done; they have so many seconds."""
        await self._sync.stop()
        await self.mount.idle(wait)
        await self.upstream.idle()
        await self.upstream.close()

    async def close(self) -> None:
        await self._sync.stop()
        await self.upstream.close()

    # What its parts report

    def _start_progress(self) -> StartProgress | None:
        return self.upstream.starting()

    def _on_trouble(self, reason: str, opened: bool) -> None:
        if opened:
            self._sync.report_fault(reason)
        self._sync.wake()

    def _on_open(self, again: bool) -> None:
        self._sync.session_opened()
        if again and self._shared.metrics is not None:
            self._shared.metrics.reconnected(self.config.name)

    def _on_connected(self) -> None:
        """Somebody connected an account: the lists may be readable now."""
        self._sync.session_opened()

    def _on_retry(self) -> None:
        if self._shared.metrics is not None:
            self._shared.metrics.retried(self.config.name)

    # Its health, as the sync needs it

    @property
    def is_open(self) -> bool:
        return self.mount.breaker.is_open

    @property
    def busy(self) -> bool:
        return self.mount.in_flight > 0

    def well(self) -> None:
        self.mount.breaker.well()

    def unwell(self, reason: str) -> None:
        self.mount.breaker.unwell(reason)

    async def reset(self) -> None:
        await self.upstream.reset()


class _Credentials(TypedDict):
    """What a connection is sent besides its headers."""

    auth: EndpointAuth | None
    caller_keys: tuple[str, ...]


class _Program(NamedTuple):
    """The parts of a child process whose time limits can change while it runs."""

    pool: ConnectionPool
    connector: StdioConnector


class _Built(NamedTuple):
    upstream: Upstream
    transport: Transport
    url: str = ""
    remote: Remote | None = None
    stdio: _Program | None = None
    accounts: Accounts | None = None
    prepare: Callable[[Forward], Awaitable[object] | None] | None = None


class _Builder:
    """Builds the upstream of one server, by the kind of its configuration."""

    def __init__(
        self,
        config: ServerConfig,
        shared: SharedParts,
        listing: ServerCatalogue,
        breaker: Breaker,
        on_open: Callable[[bool], None],
        on_connected: Callable[[], None],
    ) -> None:
        self._on_connected = on_connected
        self._config = config
        self._shared = shared
        self._listing = listing
        self._breaker = breaker
        self._on_open = on_open

    def build(self) -> _Built:
        where = self._config.where
        if isinstance(where, Stdio):
            return self._stdio(where)
        if isinstance(where, Http):
            return self._http(where)
        if isinstance(where, Composio):
            return self._composio(where)
        return self._in_process(where)

    @property
    def _known_era(self) -> Era | None:
        version = self._listing.identity.version
        return era_of(version) if version else None

    def _bridge(self, pool: ConnectionPool) -> Bridge:
        return Bridge(pool, self._shared.sealer, self._shared.parked)

    def _in_process(self, where: InProcess) -> _Built:
        shared = self._shared
        key = partial(shared.sealer.derive, "module")
        sealer = Sealer(key, self._config.name) if shared.has_key else None
        upstream = InProcessUpstream(
            *(self._config.name, where.module, where.options, shared.call_tool, sealer, shared.events)
        )
        accounts = self._accounts(upstream)
        if accounts is None:
            return _Built(upstream, "inprocess")
        keyed = KeyedServer(upstream, _keys(accounts), _lister, self._shared.sealer)
        asking = AccountUpstream(accounts, lambda _: keyed, _lister, self._shared.sealer, is_one=True)
        return _Built(asking, "inprocess", accounts=accounts, prepare=asking.agreed)

    def _accounts(self, mounted: InProcessUpstream | None = None) -> Accounts | None:
        """Of a server that has `auth`."""
        if self._config.auth is None or self._shared.accounts is None:
            return None
        return self._shared.accounts(self._config, self._on_connected, mounted)

    def _stdio(self, where: Stdio) -> _Built:
        config = self._config
        accounts = self._accounts()
        if accounts is not None:
            keys = _keys(accounts)
            upstream = AccountUpstream(
                accounts,
                lambda principal: self._program(where, keys.authorizer(principal)),
                _lister,
                self._shared.sealer,
                most=MAX_PROGRAMS,
            )
            return _Built(upstream, "stdio", accounts=accounts, prepare=upstream.agreed)
        connector = StdioConnector(
            config.name, where, config.start_timeout, config.max_result, self._known_era
        )
        pool = ConnectionPool(
            config.name,
            connector,
            self._on_open,
            modern_first=where.era == "modern",
            known=self._known_era,
            start_wait=start_wait(config),
            many_tenants=self._shared.many_tenants,
        )
        return _Built(self._bridge(pool), "stdio", stdio=_Program(pool, connector))

    def _program(self, where: Stdio, session: KeySession) -> Upstream:
        """A process of one caller, with its key."""
        config = self._config
        assert isinstance(config.auth, KeyAuth)
        variable = config.auth.variable

        def make(key: str | None) -> StdioConnector:
            own = where if key is None else replace(where, env={**where.env, variable: key})
            limits = config.start_timeout, config.max_result
            return StdioConnector(config.name, own, *limits, self._known_era, key or "")

        connector = KeyedConnector(config.name, session, make)
        pool = ConnectionPool(
            config.name,
            connector,
            self._on_open,
            modern_first=where.era == "modern",
            known=self._known_era,
            start_wait=start_wait(config),
            many_tenants=self._shared.many_tenants,
        )
        return KeyedProgram(self._bridge(pool), session, connector)

    def _http(self, where: Http) -> _Built:
        accounts = self._accounts()
        if accounts is None:
            return _Built(self._reached(where, None), "http", where.url)

        def reached(principal: Principal) -> Upstream:
            session = accounts.authorizer(principal)
            upstream = self._reached(where, session)
            return KeyedUpstream(upstream, session) if isinstance(session, KeySession) else upstream

        lister = _gateway_itself if self._config.acts_for_caller else _lister
        upstream = AccountUpstream(accounts, reached, lister, self._shared.sealer)
        return _Built(upstream, "http", where.url, accounts=accounts, prepare=upstream.prepare)

    def _reached(self, where: Http, auth: EndpointAuth | None) -> Upstream:
        config, shared = self._config, self._shared
        limits = config.connect_timeout, config.max_result
        whose: _Credentials = {"auth": auth, "caller_keys": config.caller_keys}
        connector = HttpConnector(config.name, where, shared.http, *limits, self._known_era, **whose)
        pool = ConnectionPool(
            config.name,
            connector,
            self._on_open,
            room=SESSIONS,
            own_sessions=True,
            modern_first=where.era == "modern",
            known=self._known_era,
            many_tenants=shared.many_tenants,
        )
        upstream: Upstream = self._bridge(pool)
        if where.session_url:
            rest = JsonApi(config.name, shared.http, where.session_url, where.headers, config.connect_timeout)
            upstream = LeasedUpstream(config.name, upstream, shared.leases, where.session_header, rest)
        return upstream

    def _composio(self, where: Composio) -> _Built:
        config, shared, listing = self._config, self._shared, self._listing
        key = {KEY_HEADER: where.api_key}
        rest = JsonApi(
            config.name, shared.http, where.base_url, key, config.connect_timeout, config.max_result
        )
        kind = LabsClient if where.api == "labs" else ToolRouterClient
        api: ComposioClient = kind(rest, where.toolkits, where.callback_url)

        def connect(url: str) -> Upstream:
            # The key goes only to the origin it was configured for, whatever address a reply names.
            there = Http(url=url, headers=key if _origin(url) == _origin(where.base_url) else {})
            # What one session's address speaks, another's does too.
            connector = HttpConnector(
                config.name,
                there,
                shared.http,
                config.connect_timeout,
                config.max_result,
                self._known_era,
                known=(where.api_key,),
            )
            pool = ConnectionPool(config.name, connector, modern_first=True, many_tenants=shared.many_tenants)
            return self._bridge(pool)

        sessions = ComposioSessions(config.name, where, api, shared.leases)
        tools = SessionTools(config.name, shared.catalogue, listing)
        _warn_of_sandbox(config, listing)
        upstream = ComposioUpstream(config, where, api, sessions, tools, connect, self._breaker)
        return _Built(upstream, "http", where.base_url, remote=upstream)


def _lister() -> Principal:
    """Lists are read with the account of whoever runs the gateway."""
    return Principal()


def _gateway_itself() -> Principal:
    """Where callers act in their own names, no one's account may show its lists to others."""
    return GATEWAY_CALLER.principal


def _keys(accounts: Accounts) -> KeyAccounts:
    assert isinstance(accounts, KeyAccounts), "the configuration was checked"
    return accounts


def start_wait(config: ServerConfig) -> float:
    """How long calls wait for a program that starts: less than their time limit, so they can say why."""
    return min(config.connect_timeout, 0.9 * config.timeout)


def _warn_of_sandbox(config: ServerConfig, listing: ServerCatalogue) -> None:
    limited = config.deny or config.allow != ("*",)
    if limited and any(listing.allows(tool) for tool in SANDBOX_TOOLS):
        logger.warning(
            "%s: some of its tools are denied, but code in its sandbox can call them all; "
            "hint: deny 'COMPOSIO_REMOTE_*' too",
            config.name,
        )


def _origin(url: str) -> tuple[str, str, int | None]:
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    return parts.scheme, parts.hostname or "", port
