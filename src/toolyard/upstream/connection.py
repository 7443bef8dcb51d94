"""Connections to one upstream: the protocol that transports implement, and the pool that opens them.

A modern upstream has one connection for all callers. A legacy one has a session for each client profile,
because it learns at the start what its client can be asked. Transports are in `http` and `stdio`.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextvars import Context
from typing import Any, Protocol, cast

import msgspec
from msgspec import Raw, Struct, field
from msgspec.structs import force_setattr, replace

from .._version import __version__
from ..wire.call import Call, Caller, ClientInfo, Identity, Principal
from ..wire.errors import METHOD_NOT_FOUND, McpError
from ..wire.versions import LATEST_LEGACY, LATEST_MODERN, Era, era_of
from .errors import CredentialError, NotReachedError, UpstreamBusyError, UpstreamError, UpstreamStartingError
from .messages.spool import Spooled

Params = dict[str, Raw]
RawResult = Raw | Spooled

REQUEST_CAPABILITIES = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
"""The questions there are, and the capability that says a client can be asked them."""


class UpstreamInfo(Struct, frozen=True):
    """What an upstream says of itself when asked first."""

    version: str
    info: Raw = Raw(b"{}")
    capabilities: dict[str, Any] = {}
    instructions: str | None = None
    era: Era = "modern"
    """Follows from the version."""

    def __post_init__(self) -> None:
        force_setattr(self, "era", era_of(self.version))


class StartProgress(Struct, frozen=True):
    """A connection that is being opened: for how long already, and what the upstream wrote last."""

    seconds: float
    activity: str = ""
    """A line of a program's standard error, such as what a package runner is downloading."""

    def __str__(self) -> str:
        return f"for {self.seconds:.0f} s" + (f", {self.activity}" if self.activity else "")


class ClientProfile(Struct, frozen=True):
    """As whom a legacy session speaks: what its client can be asked, and which client that is.

    Callers who can be asked nothing, and bring no key, share one. The others have one each, or a question,
    or what a server remembers of a session, could be another client's.
    """

    capabilities: bytes = b"{}"
    askable: frozenset[str] = frozenset()
    principal: str = ""
    client: str = ""
    info: bytes = b""
    """The JSON of a client that speaks in its own name from the first word on; empty: it is the gateway."""
    version: str = LATEST_LEGACY
    """The legacy revision to ask for."""


NO_CLIENT = ClientProfile()


_DETAILS = {
    "elicitation": ("form", "url"),
    "sampling": ("context", "tools"),
    "roots": ("listChanged",),
}


def askable(caller: Caller) -> dict[str, Any]:
    """What a caller declared that it can be asked, less what the protocol does not know."""
    found: dict[str, Any] = {}
    for name, details in _DETAILS.items():
        declared: Any = caller.capabilities.get(name)
        if isinstance(declared, dict):
            members = cast(dict[str, Any], declared)
            found[name] = {detail: members[detail] for detail in details if detail in members}
    return found


def profile_of(caller: Caller, session: str) -> ClientProfile:
    """`session` tells a legacy client from others; a modern one is told by its name and thread."""
    declared = askable(caller)
    if not declared:
        return NO_CLIENT
    identity = caller.identity
    client = "\0".join((identity.thread, caller.client.name, session))
    capabilities = msgspec.json.encode(declared, order="sorted")
    return ClientProfile(capabilities, frozenset(declared), identity.principal.binding, client)


GATEWAY_CALLER = Caller(
    LATEST_MODERN, {}, ClientInfo("toolyard", __version__), Identity(Principal(tenant="", agent="toolyard"))
)
"""The caller of what we ask in our own name: lists, changes, whether somebody is there."""


class RequestListener(Protocol):
    """Hears what an upstream says while it works on a request."""

    @property
    def principal(self) -> str:
        """Whose request it is; empty for what is asked in our own name."""
        ...

    @property
    def asks_immediately(self) -> bool:
        """A question is with the client as soon as it is put, and can be answered when the call is over."""
        ...

    async def notify(self, method: str, params: Raw) -> None: ...

    async def ask(self, method: str, params: Raw) -> Raw:
        """A legacy upstream's question; McpError when nobody can answer it."""
        ...

    async def release(self, retry_ms: int | None) -> None:
        """A legacy upstream let the connection of a call go, to be asked again after `retry_ms`."""
        ...

    def alive(self) -> None:
        """Something came on the call's stream, if only a ping."""
        ...


class SilentListener:
    """For what we ask of an upstream ourselves."""

    principal = ""
    asks_immediately = False

    async def notify(self, method: str, params: Raw) -> None:
        return None

    async def ask(self, method: str, params: Raw) -> Raw:
        raise McpError(METHOD_NOT_FOUND, f"no client is connected that could answer {method[:80]!r}")

    async def release(self, retry_ms: int | None) -> None:
        return None

    def alive(self) -> None:
        return None


SILENT = SilentListener()


class LegacySessionState(Struct):
    """What has been agreed on a legacy session since it began."""

    log_level: str | None = None
    held: Counter[str] = field(default_factory=Counter[str])
    """How many of our listeners want each resource; it is subscribed to once."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Subscribing and unsubscribing go one after the other."""


class ChangeWatcher(Protocol):
    """Hears what a legacy upstream says of its own accord: changed lists, updated resources."""

    def __call__(self, method: str, params: Raw) -> None: ...


class UpstreamConnection(Protocol):
    @property
    def about(self) -> UpstreamInfo: ...

    @property
    def server(self) -> str: ...

    @property
    def standing(self) -> LegacySessionState: ...

    @property
    def closed(self) -> bool:
        """It will not carry another request; a new one has to be opened."""
        ...

    @property
    def busy(self) -> bool:
        """Whether a caller's request is under way on it."""
        ...

    @property
    def shares_tokens(self) -> bool:
        """Whether progress tokens of different requests meet on it and so must differ."""
        ...

    async def request(
        self,
        method: str,
        params: Params,
        listener: RequestListener,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> RawResult:
        """The result; McpError as the upstream said it, UpstreamError when it did not say any.

        `token` is the progress token in `params`, if there is one; `headers` are the Mcp-Param-* ones.
        """
        ...

    async def notify(self, method: str, params: Params) -> None: ...

    def watch(self, watcher: ChangeWatcher) -> None:
        """Legacy: call `watcher` until `unwatch`, or until the connection closes; then with method ''."""
        ...

    def unwatch(self, watcher: ChangeWatcher) -> None: ...

    def adopt(self, listener: RequestListener) -> None:
        """Legacy: the connection belongs to one client; `listener` gets what is sent outside of a call."""
        ...

    async def close(self) -> None: ...


class Connector(Protocol):
    """Opens connections to one upstream: negotiates the era, shakes hands."""

    @property
    def activity(self) -> str:
        """What an upstream that is being opened wrote last; empty where it has no way to say anything."""
        ...

    async def open(self, profile: ClientProfile) -> UpstreamConnection: ...


MAX_CONNECTIONS = 64
MAX_CONNECTIONS_EACH = 16
IDLE_SECONDS = 300.0
LIVED_SECONDS = 1.0
FIRST_PAUSE = 0.1
LONGEST_PAUSE = 2.0
AGAIN_SECONDS = 5.0
"""When a caller may ask again for a program that is starting."""


class Backoff:
    """How long to wait after a failure: twice as long each time, with jitter, up to two seconds.

    It keeps a flood of calls from becoming a flood of attempts; a breaker is there for the rest.
    """

    def __init__(self) -> None:
        self.failures = 0
        self._until = 0.0

    @property
    def pause(self) -> float:
        """Seconds left to wait now."""
        return max(0.0, self._until - time.monotonic())

    def failed(self) -> None:
        longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2**self.failures)
        self.failures += 1
        self._until = time.monotonic() + longest * random.uniform(0.5, 1.0)

    def reset(self) -> None:
        self.failures = 0
        self._until = 0.0


class ConnectionPool:
    """`on_open` is told of each new connection, and whether it replaces one that was lost.

    `start_wait` is how long after a program's start its callers wait for it; None: as the connector does.
    With `many_tenants`, callers may be strangers to each other.
    """

    def __init__(
        self,
        server: str,
        connector: Connector,
        on_open: Callable[[bool], None] = lambda again: None,
        *,
        start_wait: float | None = None,
        many_tenants: bool = False,
    ) -> None:
        self.server = server
        self._connector = connector
        self._on_open = on_open
        self._start_wait = start_wait
        self._many_tenants = many_tenants
        self.about: UpstreamInfo | None = None
        """As the latest connection has it; None before the first."""
        self._had: set[ClientProfile | None] = set()
        self._latest_client = NO_CLIENT
        """The profile to connect with when we ask in our own name and no connection is open."""
        self.shared: UpstreamConnection | None = None
        """The one connection for all callers, of a modern upstream."""
        self._connections: dict[ClientProfile, UpstreamConnection] = {}
        self._used: dict[ClientProfile, float] = {}
        self._opening: dict[ClientProfile | None, asyncio.Task[UpstreamConnection]] = {}
        self._starting: dict[ClientProfile, float] = {}
        """Since when a connection is being opened for each of them."""
        self._opened_at = 0.0
        self._closing: set[asyncio.Task[None]] = set()
        self._watchers: dict[ChangeWatcher, None] = {}
        self._backoff = Backoff()
        self._closed = False

    @property
    def is_open(self) -> bool:
        return any(
            not connection.closed
            for connection in (*self._connections.values(), *filter(None, [self.shared]))
        )

    def starting(self) -> StartProgress | None:
        """How the first one comes along; None when there is one already, or none is being opened."""
        if not self._starting or self.is_open:
            return None
        return StartProgress(time.monotonic() - min(self._starting.values()), self._connector.activity)

    async def get(self, call: Call) -> UpstreamConnection:
        """A connection for this call. Opens one if need be, after the pause that earlier failures ask for."""
        shared = self.shared
        if shared is not None and not shared.closed:
            return shared
        profile = _profile(call)
        if self._start_wait is None:
            return await self.by_profile(profile)
        try:
            start = self.starting()
            async with asyncio.timeout(self._start_wait - (start.seconds if start is not None else 0.0)):
                return await self.by_profile(profile)
        except TimeoutError:
            raise self._still_starting() from None

    def _still_starting(self) -> UpstreamStartingError:
        words = str(self.starting() or StartProgress(self._start_wait or 0.0))
        return UpstreamStartingError(
            self.server, f"it is still starting ({words}); try again in a while", AGAIN_SECONDS
        )

    def session_of(self, call: Call) -> UpstreamConnection | None:
        """The session that speaks for this call's client, if there is one."""
        connection = self._connections.get(_profile(call))
        return None if connection is None or connection.closed else connection

    def _own(self) -> ClientProfile:
        """As whom we read lists for everybody: able to do what the latest client can, but nobody's session.

        What a server shows because of one tenant's answers is not another's to see; so nothing is answered.
        """
        if self._latest_client is NO_CLIENT:
            return NO_CLIENT
        return ClientProfile(self._latest_client.capabilities, client="catalogue")

    def reconfigure(self, start_wait: float | None) -> None:
        self._start_wait = start_wait

    def client_seen(self, profile: ClientProfile) -> None:
        """A client introduced itself: without a connection, we connect as it would."""
        self._latest_client = profile

    def end_session(self, call: Call) -> None:
        """This call's client has gone: close the session that was its own."""
        profile = _profile(call)
        connection = None if profile is NO_CLIENT else self._connections.pop(profile, None)
        if connection is not None:
            self._close_later(connection)
        if self._latest_client == profile:
            self._latest_client = NO_CLIENT

    async def any(self) -> UpstreamConnection:
        """A connection for what we ask in our own name: of those that are open the latest."""
        if self._many_tenants:
            return await self.by_profile(self._own())
        # Servers show more to a client that can be asked; so what is open for one of those comes first.
        asked = [connection for profile, connection in self._connections.items() if profile is not NO_CLIENT]
        others = [connection for profile, connection in self._connections.items() if profile is NO_CLIENT]
        for connection in (self.shared, *reversed(asked), *others):
            if connection is not None and not connection.closed:
                return connection
        return await self.by_profile(self._latest_client)

    async def by_profile(self, profile: ClientProfile) -> UpstreamConnection:
        while True:
            if self.shared is not None and not self.shared.closed:
                return self.shared
            connection = self._connections.get(profile)
            if connection is not None and not connection.closed:
                self._used[profile] = time.monotonic()
                return connection
            await self._open_once(profile)

    async def _open_once(self, profile: ClientProfile) -> UpstreamConnection:
        """Callers who come while a connection is being opened wait for it together.

        Until it is known to be a legacy upstream, one connection may well serve all of them.
        """
        if self._closed:
            raise NotReachedError(self.server, "it is being unmounted")
        key = profile if self.about is not None and self.about.era == "legacy" else None
        task = self._opening.get(key)
        if task is None:
            # A connection outlives the call that had it opened, and must not speak in its name in the log.
            task = self._opening[key] = asyncio.create_task(self._open(profile), context=Context())
            task.add_done_callback(lambda _: self._opening.pop(key, None))
            # When all who wait have given up, nobody would look at its failure.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(task)

    async def _open(self, profile: ClientProfile) -> UpstreamConnection:
        self._drop_closed()
        if time.monotonic() - self._opened_at < LIVED_SECONDS and not self.is_open:
            self._backoff.failed()  # the last one was gone as soon as it was there
        if (pause := self._backoff.pause) > 0:
            await asyncio.sleep(pause)
        self._make_room(profile)
        self._starting[profile] = time.monotonic()
        try:
            connection = await self._connector.open(profile)
        except CredentialError:
            raise
        except UpstreamError:
            self._backoff.failed()
            raise
        finally:
            del self._starting[profile]
        self._used = {known: at for known, at in self._used.items() if known in self._connections}
        if self._closed:
            await connection.close()
            raise NotReachedError(self.server, "it is being unmounted")
        if time.monotonic() - self._opened_at > LIVED_SECONDS:
            self._backoff.reset()
        self._opened_at = time.monotonic()
        self.about = connection.about
        kind = None if connection.about.era == "modern" else profile
        again = kind in self._had
        if len(self._had) < MAX_CONNECTIONS:
            self._had.add(kind)
        if connection.about.era == "modern":
            self.shared = connection
        else:
            self._connections[profile] = connection
            self._used[profile] = time.monotonic()
            for watcher in self._watchers:
                connection.watch(watcher)
        self._on_open(again)
        return connection

    def _drop_closed(self) -> None:
        for profile, connection in list(self._connections.items()):
            if connection.closed:
                self._close_later(self._connections.pop(profile))
        if self.shared is not None and self.shared.closed:
            self._close_later(self.shared)
            self.shared = None

    def _make_room(self, profile: ClientProfile) -> None:
        """Sessions are few: a principal has a share of them, and who needs none of their own is let in."""
        if profile is NO_CLIENT:
            return
        others = {*self._connections, *self._starting} - {NO_CLIENT, profile}
        theirs = {known for known in others if known.principal == profile.principal}
        for known, limit in ((theirs, MAX_CONNECTIONS_EACH), (others, MAX_CONNECTIONS)):
            idle = [one for one in known if one in self._connections and not self._connections[one].busy]
            idle.sort(key=lambda one: self._used.get(one, 0))
            for _ in range(len(known) - limit + 1):
                if not idle:
                    raise UpstreamBusyError(self.server, f"{len(known)} sessions with it are busy already")
                self._close_later(self._connections.pop(idle.pop(0)))

    def close_idle(self) -> None:
        """Let go of sessions that nobody has used for a while, but for the latest."""
        now = time.monotonic()
        for profile in sorted(self._connections, key=lambda profile: self._used.get(profile, 0))[:-1]:
            if now - self._used.get(profile, 0) > IDLE_SECONDS and not self._connections[profile].busy:
                self._close_later(self._connections.pop(profile))

    def _close_later(self, connection: UpstreamConnection) -> None:
        task = asyncio.create_task(connection.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def watch(self, watcher: ChangeWatcher) -> None:
        """Hear what any legacy session says of its own accord, also of those that are opened later."""
        self._watchers[watcher] = None
        for connection in self._connections.values():
            connection.watch(watcher)

    def unwatch(self, watcher: ChangeWatcher) -> None:
        self._watchers.pop(watcher, None)
        for connection in self._connections.values():
            connection.unwatch(watcher)

    async def reset(self) -> None:
        """Close what is open; the next who needs a connection gets a new one."""
        for connection in [*self._connections.values(), *filter(None, [self.shared])]:
            self._close_later(connection)
        self._connections.clear()
        self.shared = None

    async def close(self) -> None:
        self._closed = True
        opening = list(self._opening.values())
        for task in opening:
            task.cancel()
        connections = [*self._connections.values(), *filter(None, [self.shared])]
        self._connections.clear()
        self.shared = None
        closing = [
            *self._closing,
            *(asyncio.create_task(connection.close()) for connection in connections),
            *opening,
        ]
        if closing:
            await asyncio.wait(closing)


def _profile(call: Call) -> ClientProfile:
    profile = profile_of(call.caller, call.session.id if call.session is not None else "")
    if not call.secrets:
        return profile
    # A server may remember in a session whose key it saw there first, and use it for whoever comes next.
    principal = call.caller.principal
    if principal.kind == "local":  # the edge has told them apart by their keys
        return ClientProfile(principal=principal.binding) if profile is NO_CLIENT else profile
    marks = "+".join(sorted({secret.fingerprint for secret in call.secrets.values()}))
    return replace(profile, principal=f"{principal.binding}+{marks}")


class ConnectionPoolByEra(ConnectionPool):
    """Modern callers, and requests in our own name, use one pool; legacy callers have another."""

    def __init__(
        self,
        server: str,
        connector: Connector,
        legacy_first: Connector,
        on_open: Callable[[bool], None] = lambda again: None,
        *,
        many_tenants: bool = False,
    ) -> None:
        super().__init__(server, connector, on_open, many_tenants=many_tenants)
        self._older = ConnectionPool(server, legacy_first, many_tenants=many_tenants)

    async def get(self, call: Call) -> UpstreamConnection:
        if call.caller.era == "modern":
            return await super().get(call)
        if self.about is None:
            await self.any()
        # One that speaks nothing newer is spoken to in its own era anyway, by the sessions that are there.
        if self.about is not None and self.about.era == "legacy":
            return await super().get(call)
        return await self._older.get(call)

    def session_of(self, call: Call) -> UpstreamConnection | None:
        return self._older.session_of(call) or super().session_of(call)

    def end_session(self, call: Call) -> None:
        self._older.end_session(call)
        super().end_session(call)

    def close_idle(self) -> None:
        self._older.close_idle()
        super().close_idle()

    async def reset(self) -> None:
        await asyncio.gather(self._older.reset(), super().reset())

    async def close(self) -> None:
        await asyncio.gather(self._older.close(), super().close())
