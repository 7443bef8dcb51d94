"""The gateway, built from a configuration: upstreams, their catalogue, and the views that an edge serves.

It takes over a changed configuration while it runs: what did not change stays connected, and running
calls finish.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .._version import __version__
from ..artifacts.store import new_id
from ..bridge import ParkedCalls
from ..catalogue.catalogue import Catalogue
from ..catalogue.store import CatalogueStore
from ..config import Config, ServerConfig, Stdio
from ..config.files import state_folder
from ..config.names import check_server_names
from ..config.secrets import possible_secrets
from ..config.tables import MACHINE_KEYS
from ..dispatch import Mount
from ..dispatch.remote import Remote, RemoteTool, discover
from ..edge.request import CallerKeys, CallerKeySetting, Receive, Scope, Send
from ..pipeline import pipeline
from ..results.shaper import ResultShaper
from ..search.feedback import ResultSizes
from ..telemetry import tracing
from ..telemetry.metrics import Metrics, UpstreamState
from ..telemetry.serving import RequestTracing
from ..upstream.accounts import Accounts
from ..upstream.handshake import INSTANCE
from ..upstream.http.client import PooledHttpClient
from ..upstream.inprocess import InProcessUpstream
from ..views import AllView, BareView
from ..views.context import ViewContext
from ..views.stored_results import READ_RESULT, StoredResults
from ..views.view import View
from ..wire.call import Call, Caller, Principal
from ..wire.errors import InvalidRequest
from ..wire.seal import Sealer
from ..wire.types import Implementation
from .callers import GatewayCallers
from .nested import NestedCalls
from .policy import GatewayPolicy, is_guarded
from .results import ResultShaping, with_widened_schema
from .search import GatewaySearch
from .storage import GatewayStorage
from .upstreams import MountedServer, SharedParts, UpstreamTap

if TYPE_CHECKING:
    from .connections import GatewayConnections

logger = logging.getLogger("toolyard.app")

IDLE_CHECK_SECONDS = 60.0
META_VIEWS = ("auto", "search", "index")
"""Those whose tools are called through meta tools."""
LEAVING_SECONDS = 120.0
READS_AT_ONCE = 16
"""How many upstreams whose lists are known already are looked at together."""


class Gateway:
    """With `one_client` a single client is served, as over stdio: all its calls are one conversation.

    A function gives the key when something is signed; an audit needs the key itself.

    A `tap` stands between the gateway and its servers. Lists that were saved earlier are not used then, so
    that it sees all of them.
    """

    def __init__(
        self,
        config: Config,
        key: bytes | Callable[[], bytes | None] | None = None,
        *,
        one_client: bool = False,
        tap: UpstreamTap | None = None,
    ) -> None:
        check_server_names(server.name for server in config.servers)
        self.config = config
        self._tap = tap
        if tap is not None:
            tap.configured(config)
        self.catalogue = Catalogue(with_widened_schema if config.results.shape else None)
        self.sealer = Sealer(key, config.gateway.name)
        self._has_key = key is not None
        self.parked = ParkedCalls(self.sealer, config.gateway.park_ttl, config.gateway.park_limit)
        self.metrics = (
            Metrics(self._states, lambda: len(self.parked), lambda: self.storage.ledger.totals)
            if config.telemetry.metrics
            else None
        )
        self._http = PooledHttpClient()
        self._reads = asyncio.Semaphore(READS_AT_ONCE)
        folder = state_folder(config)
        secrets = list(possible_secrets(config))
        self._traces = tracing.start(config.telemetry, folder, secrets)
        content = tracing.content_policy(config.telemetry, secrets)
        self._store = CatalogueStore(folder if tap is None else None)
        make_id = new_id if tap is None else tap.new_id
        counters = [] if self.metrics is None else [self.metrics]
        self.storage = GatewayStorage(config, folder, self.sealer, make_id=make_id, counters=counters)
        self._connections: GatewayConnections | None = None
        self._base_url = ""
        self.callers = GatewayCallers(
            config,
            folder,
            self.storage.state,
            self.sealer,
            has_key=self._has_key,
            on_refused=self._note_refused,
        )
        self.policy = (
            GatewayPolicy(
                config,
                self.catalogue,
                folder,
                self.storage.state,
                key if isinstance(key, bytes) else None,
                self.sealer,
                grants=self.callers,
                challenge=self.callers.lacking_scopes,
                one_client=one_client,
            )
            if is_guarded(config)
            else None
        )
        if self.policy is not None and self.policy.audit is not None:
            kind = config.audit.url.partition(":")[0]
            self.storage.add_probe("audit", "audit", kind, self.policy.audit.check)
        sizes = ResultSizes()
        shaper = ResultShaper(self.storage.store, self.storage.ledger, sizes, events=self.storage.events)
        self.shaping = (
            ResultShaping(config, self.catalogue, self.storage.store, shaper)
            if config.results.shape
            else None
        )
        self._servers: dict[str, MountedServer] = {}
        self._mounts: dict[str, Mount] = {}
        self._views: dict[str, View] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._idle_check: asyncio.Task[None] | None = None
        self._started_with = config
        self._caller_keys: dict[str | None, CallerKeySetting] = {}
        self._many_tenants = False
        self.needs_restart: list[str] = []
        """Settings that were changed while it runs and take effect after a restart."""
        self._config_fault: str | None = None
        self._context = ViewContext(
            self.catalogue,
            self._mounts,
            pipeline(
                self.metrics,
                self._traces,
                self.shaping,
                config.telemetry.access_log,
                None if self.policy is None else self.policy.guard.stage(),
                content,
            ),
            self.sealer,
            self,
            config.gateway,
            stored=None if self.shaping is None else self._stored(self.shaping),
            fit_task=None if self.shaping is None else self.shaping.fit_task,
            one_client=one_client,
            scope_of=None if self.policy is None else self.policy.scope_of,
            on_unknown=None if self.policy is None else self.policy.on_unknown,
            on_answered=None if self.policy is None else self.policy.guard.note_answered,
            on_session_end=None if self.policy is None else self.policy.approvals.end_session,
            count=None if self.policy is None else self.policy.guard.counted,
            tracing=None if self._traces is None else RequestTracing(self._traces, content),
            discover=self._discover,
        )
        self._context.asks_servers = self._tap is None
        self.search = GatewaySearch(
            self._context,
            config,
            folder,
            sizes=sizes,
            state=self.storage.state,
            leases=self.storage.leases,
            events=self.storage.events,
            remotes=self.remotes,
            profiles=self.storage.profiles,
            accounts=self.accounts,
        )

    async def _note_refused(self, peer: str, reason: str) -> None:
        """A credential was not accepted."""
        if self.policy is not None:
            await self.policy.guard.note_refused(peer, reason)

    def serve_many_tenants(self) -> None:
        """Callers are told apart, and must not see each other's data. To be said before it starts."""
        self._many_tenants = True

    def caller_keys(self, name: str | None = None) -> CallerKeySetting:
        """In which headers callers bring keys of their own: for this server, or for any of them."""
        if name not in self._caller_keys:
            self._caller_keys[name] = CallerKeySetting(_caller_keys(self.config, name))
        return self._caller_keys[name]

    def _stored(self, shaping: ResultShaping) -> StoredResults:
        return StoredResults(
            self.storage.store,
            shaping.reader,
            self._count_read,
            lambda call, tool: self._context.may_read_result(call, tool),
            None if self.policy is None else self.policy.on_stored_read,
        )

    def _count_read(self, caller: Caller, sent: int) -> None:
        """A part of a stored result was read."""
        self.storage.ledger.add(caller.owner, caller.agent, "", READ_RESULT, 0, sent)

    # Life

    @property
    def connections(self) -> "GatewayConnections":
        """Made for the first server with `auth`: it imports OAuth."""
        if self._connections is None:
            from .connections import GatewayConnections

            self._connections = GatewayConnections(self.storage.vault, self._http)
            self._connections.base_url = self._base_url
        return self._connections

    @property
    def base_url(self) -> str:
        """Where browsers reach the gateway; empty until it is served over HTTP."""
        return self._base_url

    @base_url.setter
    def base_url(self, url: str) -> None:
        self._base_url = url
        if self._connections is not None:
            self._connections.base_url = url

    def _open_accounts(
        self, server: ServerConfig, on_connected: Callable[[], None], mounted: InProcessUpstream | None
    ) -> Accounts:
        return self.connections.open(server, on_connected, mounted)

    async def serve_logins(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The pages on which callers log in to servers."""
        await self.connections(scope, receive, send)

    async def start(self) -> None:
        await self.storage.start()
        if self.policy is not None:
            await self.policy.start()
        for server in self.config.servers:
            self._mount(server)
        self.catalogue.arrange([server.name for server in self.config.servers])
        if self.config.gateway.view in ("auto", "search"):
            await self.search.start()
        self._idle_check = asyncio.create_task(self._close_idle())

    async def close(self) -> None:
        """Ends everything: listeners, parked calls, syncs, connections, processes."""
        if self._idle_check is not None:
            self._idle_check.cancel()
        for view in self._views.values():
            await view.close()
        await self.search.close()
        await self.parked.close()
        leaving = [asyncio.create_task(server.close()) for server in self._servers.values()]
        if leaving or self._leaving:
            await asyncio.wait([*leaving, *self._leaving])
        await self._http.close()
        if self.shaping is not None:
            await self.shaping.close()
        await self.callers.close()
        if self.policy is not None:
            await self.policy.close()
        await self.storage.close()
        if self._traces is not None:
            await self._traces.close()

    async def reload(self, config: Config) -> None:
        """Takes over a changed configuration. What is equal in both is not touched."""
        check_server_names(server.name for server in config.servers)
        if self.policy is not None:
            await self.policy.reload(config)
        wanted = {server.name: server for server in config.servers}
        # First, so that nobody calls a server that is new under a rule that is old.
        self.callers.configure(config)
        told_apart = config.auth.knows_callers or _caller_keys(config, None) is not None
        self._many_tenants = self._many_tenants or told_apart
        for name in [name for name in self._servers if name not in wanted]:
            self._unmount(name)
            if self.metrics is not None:
                self.metrics.forget(name)
            self.storage.ledger.forget(name)
        for name, server in wanted.items():
            known = self._servers.get(name)
            if known is None:
                self._mount(server)
            elif known.config != server:
                self._change(known, server)
        self.catalogue.arrange([server.name for server in config.servers])
        self.config = config
        for name, setting in self._caller_keys.items():
            setting.keys = _caller_keys(config, name)
        if self.shaping is not None:
            self.shaping.reconfigure(config)
        self.search.reload(config)
        self._context.settings = config.gateway
        self.parked.reconfigure(config.gateway.park_ttl, config.gateway.park_limit)
        self.needs_restart = _needs_restart(self._started_with, config)
        if self.needs_restart:
            logger.warning("changed, but not before a restart: %s", ", ".join(self.needs_restart))

    def _change(self, known: MountedServer, server: ServerConfig) -> None:
        if _needs_reconnect(known.config, server):
            self._unmount(server.name)
            self._mount(server)
        else:
            known.reconfigure(server)

    def _mount(self, config: ServerConfig) -> None:
        shared = SharedParts(
            self.catalogue,
            self._store,
            self.storage.leases,
            self._http,
            self.sealer,
            self._has_key,
            self.parked,
            self.metrics,
            self._reads,
            self._many_tenants,
            NestedCalls(self.view),
            self.storage.events,
            self._tap,
            self._open_accounts,
            on_demand=self.config.gateway.view == "bare" and self.policy is None and self._tap is None,
        )
        server = self._servers[config.name] = MountedServer(config, shared)
        self._mounts[config.name] = server.mount
        server.start()

    def _unmount(self, name: str) -> None:
        server = self._servers.pop(name)
        del self._mounts[name]
        if self._connections is not None:
            self._connections.forget(name)
        view = self._views.pop(name, None)
        if view is not None:
            self._leave(view.close())
        self._leave(server.finish(min(server.config.timeout, LEAVING_SECONDS)))
        self.catalogue.remove(name)

    def _leave(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def _close_idle(self) -> None:
        while True:
            await asyncio.sleep(IDLE_CHECK_SECONDS)
            for server in self._servers.values():
                server.upstream.close_idle()

    # Views

    def view(self) -> View:
        """What is served where no upstream is named."""
        settings = self.config.gateway
        if settings.view == "bare":
            return self.bare(settings.server)
        if "" not in self._views:
            implementation = Implementation(settings.name, __version__, "Toolyard")
            grants = self.callers if self.callers.makes_grants(self.config) else None
            self._views[""] = (
                self.search.view(self.config, implementation, grants)
                if settings.view in META_VIEWS
                else AllView(self._context, implementation, settings.instructions)
            )
        return self._views[""]

    def sees(self, server: str) -> Callable[[Principal], bool] | None:
        """Tells whether a principal may know of a server; None if everybody may."""
        policy = self.policy
        if policy is None:
            return None
        return lambda principal: server in policy.scope_of(principal).servers

    def bare(self, server: str) -> View:
        if server not in self._views:
            self._views[server] = BareView(self._context, server)
        return self._views[server]

    def remotes(self) -> Mapping[str, Remote]:
        """The upstreams that search by themselves."""
        return {name: one.remote for name, one in self._servers.items() if one.remote is not None}

    async def _discover(self, call: Call, name: str, servers: Sequence[str]) -> Sequence[RemoteTool]:
        remotes = {server: remote for server, remote in self.remotes().items() if server in servers}
        return await discover(remotes, call, [name], self.config.search.remote_seconds)

    def accounts(self) -> Mapping[str, Accounts]:
        """The accounts of callers, by the servers that want a login."""
        return {name: one.accounts for name, one in self._servers.items() if one.accounts is not None}

    @property
    def servers(self) -> list[str]:
        return list(self._servers)

    # What the views report

    def lists_wanted(self) -> None:
        for server in self._servers.values():
            server.lists_wanted()

    async def read_lists(self, servers: Sequence[str]) -> None:
        reading = [
            asyncio.ensure_future(self._servers[name].read_lists())
            for name in servers
            if name in self._servers and self._servers[name].may_have_changed
        ]
        if reading:
            await asyncio.gather(*reading)

    def client_seen(self, call: Call) -> None:
        """A client introduced itself; raises InvalidRequest if it is this gateway."""
        caller = call.caller
        if caller.client.version.endswith(f"+{INSTANCE}"):
            raise InvalidRequest("this is the gateway itself; take its own address out of its configuration")
        for server in self._servers.values():
            server.upstream.client_seen(call)

    # What can be seen from outside

    async def checked_health(self) -> dict[str, Any]:
        """Health, after a short check of the stores."""
        await self.storage.check()
        return self.health()

    @property
    def config_fault(self) -> str | None:
        """Why the configuration on disk is not the one that runs."""
        return self._config_fault

    def set_config_fault(self, reason: str | None) -> None:
        """Report in `health` that the configuration on disk cannot be used, or with None that it can."""
        self._config_fault = reason

    def health(self) -> dict[str, Any]:
        servers = {name: self._server_health(mounted) for name, mounted in self._servers.items()}
        broken = {item.name: {"state": "broken", "reason": item.reason} for item in self.config.broken}
        places = {name: probe.as_dict() for name, probe in self.storage.probes.items()}
        whole = all(one["state"] != "down" for one in (*servers.values(), *places.values())) and not broken
        found: dict[str, Any] = {
            "status": "ok" if whole and self.config_fault is None else "degraded",
            "server": {"name": self._started_with.gateway.name, "version": __version__},
            "tools": sum(server["tools"] for server in servers.values()),
            "parked": len(self.parked),
            "servers": {**servers, **broken},
            **places,
        }
        if self._idle_check is None:
            found |= {
                "status": "degraded",
                "start": "it has not started: the lifespan of the app does not run",
            }
        if self.config_fault is not None:
            found["config"] = self.config_fault
        elif self.needs_restart:
            found["config"] = f"changed, but not before a restart: {', '.join(self.needs_restart)}"
        return found

    def _server_health(self, mounted: MountedServer) -> dict[str, Any]:
        listing = mounted.listing
        found: dict[str, Any] = {
            "state": "up" if listing.state == "ready" else listing.state,
            "transport": mounted.mount.transport,
            "version": listing.identity.version,
            "tools": len(listing.entries["tools"]),
            "in_flight": mounted.mount.in_flight,
        }
        if listing.state == "starting":
            start = mounted.upstream.starting()
            found["seconds"] = round(listing.age if start is None else start.seconds, 1)
            if start is not None and start.activity:
                found["activity"] = start.activity
        if listing.fault is not None:
            found["reason"] = listing.fault
        if notes := [*listing.notes, *self.catalogue.clashes(listing.name)]:
            found["notes"] = notes
        return found

    def _states(self) -> list[UpstreamState]:
        return [
            UpstreamState(
                server=name,
                up=self.catalogue.servers[name].fault is None,
                breaker_open=mounted.mount.breaker.is_open,
                in_flight=mounted.mount.in_flight,
                tools=len(self.catalogue.servers[name].entries["tools"]),
            )
            for name, mounted in self._servers.items()
        ]


def _needs_reconnect(old: ServerConfig, new: ServerConfig) -> bool:
    """Whether it has to be connected anew. A program is not started again for another time limit."""
    if old.where != new.where or old.max_result != new.max_result or old.auth != new.auth:
        return True
    if not isinstance(new.where, Stdio):
        return old.connect_timeout != new.connect_timeout
    # Processes of callers are started at any time, with the limits of then.
    limits = ("timeout", "connect_timeout", "start_timeout")
    return new.auth is not None and any(getattr(old, name) != getattr(new, name) for name in limits)


def _caller_keys(config: Config, name: str | None) -> CallerKeys | None:
    servers = [server for server in config.servers if name is None or server.name == name]
    headers = tuple(dict.fromkeys(header for server in servers for header in server.caller_keys))
    tokens = any(server.acts_for_caller for server in servers)
    return CallerKeys(headers, required=False, every=True, tokens=tokens) if headers or tokens else None


def _guard_tables(before: Config, now: Config) -> list[str]:
    """The rules of a guard are taken over while it runs; the guard itself comes with a restart."""
    if is_guarded(before) or not is_guarded(now):
        return [] if before.audit == now.audit else ["audit"]
    return [
        name for name in ("auth", "access", "limits", "audit") if getattr(before, name) != getattr(now, name)
    ]


def _needs_restart(before: Config, now: Config) -> list[str]:
    gateway = [
        f"gateway.{name}"
        for name in (
            "view",
            "server",
            "dialects",
            "name",
            "instructions",
            "locale",
            "state_dir",
            *MACHINE_KEYS,
        )
        if getattr(before.gateway, name) != getattr(now.gateway, name)
    ]
    tables = [
        name
        for name in ("telemetry", "state", "vault", "store")
        if getattr(before, name) != getattr(now, name)
    ]
    tables += _guard_tables(before, now)
    if before.auth.server != now.auth.server:
        tables.append("auth.server")
    if before.results.shape != now.results.shape:
        tables.append("results.shape")
    return gateway + tables
