"""The gateway, built from a configuration: upstreams, their catalogue, and the views that an edge serves.

It takes over a changed configuration while it runs: what did not change stays connected, and running
calls finish.
"""

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from .. import __version__
from ..bridge import Bridge, ParkedCalls
from ..catalogue.catalogue import Catalogue, ServerCatalogue
from ..catalogue.items import KINDS
from ..catalogue.store import CatalogueStore
from ..catalogue.sync import CatalogueSync
from ..config import Composio, Config, Http, ServerConfig, Stdio
from ..config.files import state_folder
from ..config.tables import MACHINE_KEYS
from ..dispatch import Mount
from ..dispatch.composio import ComposioUpstream
from ..dispatch.mount import CallHandler
from ..dispatch.remote import Remote
from ..edge.request import CallerKeys, CallerKeySetting
from ..pipeline import pipeline
from ..results.shaper import ResultPolicy
from ..telemetry import tracing
from ..telemetry.metrics import Metrics, UpstreamState
from ..upstream.connection import GATEWAY_CALLER, ConnectionPool, ConnectionPoolByEra, profile_of
from ..upstream.handshake import INSTANCE, MODERN_META
from ..upstream.http.client import UpstreamHttpClient
from ..upstream.http.connector import HttpConnector
from ..upstream.inprocess import InProcessUpstream
from ..upstream.stdio.connector import StdioConnector
from ..views import AllView, BareView
from ..views.context import ViewContext
from ..views.stored_results import READ_RESULT, StoredResults
from ..views.view import View
from ..wire.call import Call, Caller
from ..wire.errors import InvalidRequest
from ..wire.seal import Sealer
from ..wire.types import Implementation
from ..wire.versions import Era, era_of
from .results import ResultShaping, with_widened_schema
from .search import GatewaySearch
from .storage import GatewayStorage
from .upstreams import (
    MountHealth,
    UpstreamService,
    identify_upstream,
    make_composio_upstream,
    make_leased_upstream,
    make_mount,
    on_breaker_trouble,
)

if TYPE_CHECKING:
    from ..telemetry.spans import Tracing

logger = logging.getLogger("toolyard.app")

IDLE_CHECK_SECONDS = 60.0
LEAVING_SECONDS = 120.0
AT_ONCE = 16
"""How many upstreams whose lists are known already are looked at together."""


class _MountedUpstream(Struct):
    """An upstream and what looks after it."""

    config: ServerConfig
    mount: Mount
    keeper: CatalogueSync
    service: UpstreamService


class Gateway:
    def __init__(self, config: Config, key: bytes | None = None) -> None:
        self.config = config
        self.catalogue = Catalogue()
        self.sealer = Sealer(key, config.gateway.name)
        self.parking = ParkedCalls(self.sealer, config.gateway.park_ttl, config.gateway.park_limit)
        self.metrics = Metrics(self._states, lambda: len(self.parking)) if config.telemetry.metrics else None
        self._traces: Tracing | None = tracing.start(config.telemetry)
        self._http = UpstreamHttpClient()
        self._queue = asyncio.Semaphore(AT_ONCE)
        folder = state_folder(config)
        self._store = CatalogueStore(folder)
        self.keeping = GatewayStorage(config, folder, self.sealer)
        self.shaping = self._shaping(config)
        self._mounted: dict[str, _MountedUpstream] = {}
        self._mounts: dict[str, Mount] = {}
        self._views: dict[str, View] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._minding: asyncio.Task[None] | None = None
        self._started_with = config
        self._caller_keys: dict[str | None, CallerKeySetting] = {}
        self.many_tenants = False
        """Whether callers are told apart, and so must not see each other's affairs; set before it starts."""
        self.needs_restart: list[str] = []
        """Settings that were changed while it runs and cannot be taken over."""
        self.config_fault: str | None = None
        """Why the configuration on disk is not the one that runs."""
        forward = pipeline(self.metrics, self._traces, self.shaping, config.telemetry.access_log)
        self._yard = ViewContext(self.catalogue, self._mounts, forward, self.sealer)
        self._yard.page_size = config.gateway.page_size
        self._yard.list_wait = config.gateway.list_wait
        if self.shaping is not None:
            self._yard.stored = StoredResults(self.keeping.store, self.shaping.reader, self._read)
            self._yard.fit_task = self.shaping.fit_task
        self._yard.touch = self._touch
        self._yard.met = self._met
        self._yard.health = self.health
        keeping = self.keeping
        self.searching = GatewaySearch(
            self._yard,
            config,
            folder,
            state=keeping.state,
            leases=keeping.leases,
            remotes=self.remotes,
            profiles=keeping.profiles,
        )

    def serve_one_client(self) -> None:
        """A single client is served, as over stdio; say so before it starts."""
        self._yard.one_client = True

    def caller_keys(self, name: str | None = None) -> CallerKeySetting:
        """In which headers callers bring keys of their own: for this server, or for any of them."""
        if name not in self._caller_keys:
            self._caller_keys[name] = CallerKeySetting(_caller_keys(self.config, name))
        return self._caller_keys[name]

    def _shaping(self, config: Config) -> ResultShaping | None:
        if not config.results.shape:
            return None
        self.catalogue.dress = with_widened_schema
        return ResultShaping(config, self.catalogue, self.keeping.store, self._came)

    def _came(self, caller: Caller, tool: ResultPolicy, came: int, went: int) -> None:
        """A tool has answered: so many bytes, of which so many went on."""
        identity = caller.identity
        self.keeping.ledger.add(identity.tenant, identity.agent, tool.server, tool.name, came, went)
        if self.metrics is not None:
            self.metrics.record_result(tool.server, came, went)
        self.searching.measured(tool.name, came)

    def _read(self, caller: Caller, went: int) -> None:
        """Some of a stored result was asked for."""
        identity = caller.identity
        self.keeping.ledger.add(identity.tenant, identity.agent, "", READ_RESULT, 0, went)
        if self.metrics is not None:
            self.metrics.record_result("", 0, went)

    # Life

    async def start(self) -> None:
        await self.keeping.start()
        for server in self.config.servers:
            self._mount(server)
        if self.config.gateway.view == "search":
            await self.searching.start()
        self._minding = asyncio.create_task(self._mind_idle())

    async def close(self) -> None:
        """Everything ends: listeners, parked calls, keepers, connections, processes."""
        if self._minding is not None:
            self._minding.cancel()
        for view in self._views.values():
            await view.close()
        await self.searching.close()
        await self.parking.close()
        leaving = [asyncio.create_task(self._let_go(mounted)) for mounted in self._mounted.values()]
        if leaving or self._leaving:
            await asyncio.wait([*leaving, *self._leaving])
        await self._http.close()
        if self.shaping is not None:
            await self.shaping.close()
        await self.keeping.close()
        if self._traces is not None:
            await self._traces.close()

    async def reload(self, config: Config) -> None:
        """Take over a changed configuration. What is equal in both is not touched."""
        wanted = {server.name: server for server in config.servers}
        self.many_tenants = self.many_tenants or _caller_keys(config, None) is not None
        for name in [name for name in self._mounted if name not in wanted]:
            self._unmount(name)
            self.catalogue.remove(name)
            if self.metrics is not None:
                self.metrics.forget(name)
        for name, server in wanted.items():
            known = self._mounted.get(name)
            if known is None:
                self._mount(server)
            elif known.config != server:
                self._change(known, server)
        self.config = config
        for name, setting in self._caller_keys.items():
            setting.keys = _caller_keys(config, name)
        if self.shaping is not None:
            self.shaping.reconfigure(config)
        self.searching.reload(config)
        settings = config.gateway
        self._yard.page_size = settings.page_size
        self._yard.list_wait = settings.list_wait
        self.parking.reconfigure(settings.park_ttl, settings.park_limit)
        self.needs_restart = _needs_restart(self._started_with, config)
        if self.needs_restart:
            logger.warning("changed, but not before a restart: %s", ", ".join(self.needs_restart))

    def _change(self, known: _MountedUpstream, server: ServerConfig) -> None:
        old = known.config
        if _needs_reconnect(old, server):
            self._unmount(server.name)
            self.catalogue.remove(server.name)
            self._mount(server)
            return
        # Only what we make of it is different: the connection stays.
        known.config = server
        known.mount.reconfigure(server)
        known.keeper.reconfigure(server)
        if isinstance(server.where, Stdio) and isinstance(known.service, Bridge):
            links = known.service.links
            links.patience = _start_wait(server)
            if isinstance(links.connector, StdioConnector):
                links.connector.start_timeout = server.start_timeout
        self.catalogue.shelves[server.name].reconfigure(server)
        self.catalogue.changed(server.name, KINDS)

    def _mount(self, config: ServerConfig) -> None:
        shelf = self.catalogue.add(config)
        self._store.load(config, shelf)
        service = self._service(config, shelf)
        mount = make_mount(config, service, self._handler(config, service))
        keeper = CatalogueSync(
            config,
            shelf,
            self.catalogue,
            self._store,
            mount.service,
            lambda: identify_upstream(service),
            GATEWAY_CALLER,
            MODERN_META,
            MountHealth(mount, service),
            self._queue,
            # A process is not started for a list that is known already.
            lazy=config.start == "lazy" and isinstance(config.where, Stdio) and shelf.known,
        )
        mount.breaker.on_trouble = lambda reason, opened: on_breaker_trouble(keeper, reason, opened)
        if isinstance(service, Bridge):
            shelf.opening = service.links.opening
            service.links.on_open = lambda again: self._opened(config.name, keeper, again)
        self._count_retries(mount)
        mount.version = lambda: shelf.identity.version
        self._mounted[config.name] = _MountedUpstream(config, mount, keeper, service)
        self._mounts[config.name] = mount
        keeper.start()

    def _opened(self, server: str, keeper: CatalogueSync, again: bool) -> None:
        keeper.opened()
        if again and self.metrics is not None:
            self.metrics.reconnected(server)

    def _count_retries(self, mount: Mount) -> None:
        metrics = self.metrics
        if metrics is not None:
            mount.on_retry = lambda: metrics.retried(mount.server)

    def _handler(self, config: ServerConfig, service: UpstreamService) -> CallHandler:
        """What takes an upstream's calls: where it has sessions of its own, they are seen to first."""
        where = config.where
        if isinstance(where, Http) and where.session_url and isinstance(service, Bridge):
            return make_leased_upstream(config, where, service, self.keeping.leases, self._http)
        return service

    def _service(self, config: ServerConfig, shelf: ServerCatalogue) -> UpstreamService:
        where, name = config.where, config.name
        version = shelf.identity.version
        era: Era | None = era_of(version) if version else None
        if isinstance(where, Stdio):
            connector = StdioConnector(name, where, config.start_timeout, config.max_result, era)
        elif isinstance(where, Http):
            connector = HttpConnector(name, where, self._http, config.connect_timeout, config.max_result, era)
        elif isinstance(where, Composio):
            leases = self.keeping.leases
            return make_composio_upstream(
                config, where, self.catalogue, shelf, leases, self._http, self._bridge
            )
        else:
            return InProcessUpstream(name, where.module, where.options)
        links = ConnectionPool(name, connector)
        if isinstance(where, Stdio):
            links.patience = _start_wait(config)
        if isinstance(where, Http) and where.era == "caller":
            limits = config.connect_timeout, config.max_result
            legacy_first = HttpConnector(name, where, self._http, *limits, first="legacy")
            links = ConnectionPoolByEra(name, connector, legacy_first)
        return self._bridge(links)

    def _bridge(self, links: ConnectionPool) -> Bridge:
        links.many_tenants = self.many_tenants
        return Bridge(links, self.sealer, self.parking)

    def _unmount(self, name: str) -> None:
        mounted = self._mounted.pop(name)
        del self._mounts[name]
        view = self._views.pop(name, None)
        if view is not None:
            self._leave(view.close())
        self._leave(self._let_finish(mounted))

    def _leave(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def _let_finish(self, mounted: _MountedUpstream) -> None:
        """Its calls under way have until their own time limit."""
        await mounted.keeper.stop()
        await mounted.mount.idle(min(mounted.config.timeout, LEAVING_SECONDS))
        if not isinstance(mounted.service, InProcessUpstream):
            await mounted.service.idle()
        await mounted.service.close()

    async def _let_go(self, mounted: _MountedUpstream) -> None:
        await mounted.keeper.stop()
        await mounted.service.close()

    async def _mind_idle(self) -> None:
        while True:
            await asyncio.sleep(IDLE_CHECK_SECONDS)
            for mounted in self._mounted.values():
                if isinstance(mounted.service, Bridge):
                    mounted.service.links.close_idle()
                elif isinstance(mounted.service, ComposioUpstream):
                    mounted.service.close_idle()

    # Views

    def view(self) -> View:
        """What is served where no upstream is named."""
        settings = self.config.gateway
        if settings.view == "bare":
            return self.bare(settings.server)
        if "" not in self._views:
            implementation = Implementation(settings.name, __version__, "Toolyard")
            self._views[""] = (
                self.searching.view(self.config, implementation)
                if settings.view == "search"
                else AllView(self._yard, implementation, settings.instructions)
            )
        return self._views[""]

    def bare(self, server: str) -> View:
        if server not in self._views:
            self._views[server] = BareView(self._yard, server)
        return self._views[server]

    def remotes(self) -> Mapping[str, Remote]:
        """The upstreams that search by themselves."""
        return {
            name: mounted.service
            for name, mounted in self._mounted.items()
            if isinstance(mounted.service, ComposioUpstream)
        }

    @property
    def servers(self) -> list[str]:
        return list(self._mounted)

    def _touch(self) -> None:
        for mounted in self._mounted.values():
            mounted.keeper.touch()

    def _met(self, call: Call) -> None:
        """A client has come: what we ask in our own name, we ask as it would, and start no process twice."""
        if call.caller.client.version.endswith(f"+{INSTANCE}"):
            raise InvalidRequest("this is the gateway itself; take its own address out of its configuration")
        profile = profile_of(call.caller, call.session.id if call.session is not None else "")
        for mounted in self._mounted.values():
            if isinstance(mounted.service, Bridge):
                mounted.service.links.favourite = profile

    # What can be seen from outside

    async def checked_health(self) -> dict[str, Any]:
        """With a fresh look at the state and the store, for which nobody waits long."""
        await self.keeping.check()
        return self.health()

    def health(self) -> dict[str, Any]:
        servers = {name: self._server_health(mounted) for name, mounted in self._mounted.items()}
        broken = {item.name: {"state": "broken", "reason": item.reason} for item in self.config.broken}
        places = {name: probe.as_dict() for name, probe in self.keeping.probes.items()}
        whole = all(one["state"] != "down" for one in (*servers.values(), *places.values())) and not broken
        found: dict[str, Any] = {
            "status": "ok" if whole and self.config_fault is None else "degraded",
            "server": {"name": self._started_with.gateway.name, "version": __version__},
            "tools": sum(server["tools"] for server in servers.values()),
            "parked": len(self.parking),
            "servers": {**servers, **broken},
            **places,
        }
        if self.config_fault is not None:
            found["config"] = self.config_fault
        elif self.needs_restart:
            found["config"] = f"changed, but not before a restart: {', '.join(self.needs_restart)}"
        return found

    def _server_health(self, mounted: _MountedUpstream) -> dict[str, Any]:
        shelf = self.catalogue.shelves[mounted.config.name]
        found: dict[str, Any] = {
            "state": "up" if shelf.state == "ready" else shelf.state,
            "transport": mounted.mount.transport,
            "version": shelf.identity.version,
            "tools": len(shelf.entries["tools"]),
            "in_flight": mounted.mount.in_flight,
        }
        if shelf.state == "starting":
            start = shelf.opening()
            found["seconds"] = round(shelf.age if start is None else start.seconds, 1)
            if start is not None and start.activity:
                found["activity"] = start.activity
        if shelf.fault is not None:
            found["reason"] = shelf.fault
        if shelf.notes:
            found["notes"] = list(shelf.notes)
        return found

    def _states(self) -> list[UpstreamState]:
        return [
            UpstreamState(
                server=name,
                up=self.catalogue.shelves[name].fault is None,
                breaker_open=mounted.mount.breaker.is_open,
                in_flight=mounted.mount.in_flight,
                tools=len(self.catalogue.shelves[name].entries["tools"]),
            )
            for name, mounted in self._mounted.items()
        ]


def _start_wait(config: ServerConfig) -> float:
    """How long calls wait for a program: not until their own time is over, or they could not say why."""
    return min(config.connect_timeout, 0.9 * config.timeout)


def _needs_reconnect(old: ServerConfig, new: ServerConfig) -> bool:
    """Whether it has to be connected anew. A program is not started again for another time limit."""
    if old.where != new.where or old.max_result != new.max_result:
        return True
    return not isinstance(new.where, Stdio) and old.connect_timeout != new.connect_timeout


def _caller_keys(config: Config, name: str | None) -> CallerKeys | None:
    servers = [server for server in config.servers if name is None or server.name == name]
    headers = tuple(dict.fromkeys(header for server in servers for header in server.caller_keys))
    return CallerKeys(headers, required=False, every=True) if headers else None


def _needs_restart(before: Config, now: Config) -> list[str]:
    gateway = [
        f"gateway.{name}"
        for name in ("view", "server", "dialects", "name", "instructions", "state_dir", *MACHINE_KEYS)
        if getattr(before.gateway, name) != getattr(now.gateway, name)
    ]
    tables = [name for name in ("telemetry", "state", "store") if getattr(before, name) != getattr(now, name)]
    if before.results.shape != now.results.shape:
        tables.append("results.shape")
    return gateway + tables
