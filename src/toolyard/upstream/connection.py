"""Connections to one upstream: the protocol that transports implement, and the pool that opens them.

An upstream is spoken to in its caller's era, if it has that era. In the modern one a connection serves all
callers. In the legacy one there is a session for each client profile, because a server learns at the start
what its client can be asked, and remembers. Transports are in `http` and `stdio`.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import Context
from typing import Any, Protocol, cast

import msgspec
from msgspec import Raw, Struct, field
from msgspec.structs import force_setattr, replace

from .._version import __version__
from ..languages import said
from ..wire.call import Call, Caller, ClientInfo, Identity, LegacySession, Principal
from ..wire.errors import METHOD_NOT_FOUND, McpError
from ..wire.messages import Id
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
    meta: Raw = Raw(b"{}")
    """What else it says of itself at a legacy handshake."""
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
        time = said(f"for {self.seconds:.0f} s", f"há {self.seconds:.0f} s")
        return f"{time}, {self.activity}" if self.activity else time


class ClientProfile(Struct, frozen=True, cache_hash=True):
    """As whom a legacy session speaks: what its client can be asked, and which client that is.

    Callers who can be asked nothing, and bring no key, may share one. The others have one each, or a
    question, or what a server remembers of a session, could be another client's.
    """

    capabilities: bytes = b"{}"
    askable: frozenset[str] = frozenset()
    principal: str = ""
    client: str = ""
    info: bytes = b""
    """The JSON of a client that speaks in its own name from the first word on; empty: it is the gateway."""
    version: str = LATEST_LEGACY
    """The legacy revision to ask for."""
    is_own: bool = False
    """The session is one client's from its `initialize` to its end, and all that is said in it is for it."""

    @property
    def may_be_asked(self) -> frozenset[str] | None:
        """The capabilities whose questions reach a client; None: all questions, and the client judges."""
        return None if self.is_own else self.askable


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


def profile_of(caller: Caller, session: LegacySession | None, *, own_sessions: bool = False) -> ClientProfile:
    """A legacy client is told from others by its session, a modern one by its name and thread.

    With `own_sessions` a legacy client has a session of its own, whatever it can be asked.
    """
    declared = askable(caller)
    if own_sessions and caller.era == "legacy" and session is not None and session.lasts:
        return ClientProfile(
            msgspec.json.encode(dict(caller.capabilities), order="sorted"),
            frozenset(declared),
            caller.identity.principal.binding,
            session.id,
            msgspec.json.encode(caller.client),
            caller.version,
            is_own=True,
        )
    if not declared:
        return NO_CLIENT
    identity = caller.identity
    client = "\0".join((identity.thread, caller.client.name, "" if session is None else session.id))
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
        as_id: Id | None = None,
    ) -> RawResult:
        """The result; McpError as the upstream said it, UpstreamError when it did not say any.

        `token` is the progress token in `params`, if there is one; `headers` are the Mcp-Param-* ones.
        `as_id` is the caller's own id of the request, for a connection on which each request stands alone.
        """
        ...

    async def notify(self, method: str, params: Params) -> None: ...

    def watch(self, watcher: ChangeWatcher) -> None:
        """Legacy: call `watcher` until `unwatch`, or until the connection closes; then with method ''."""
        ...

    def unwatch(self, watcher: ChangeWatcher) -> None: ...

    def adopt(self, listener: RequestListener | None) -> None:
        """Legacy: the connection belongs to one client; `listener` gets what is sent outside of a call."""
        ...

    async def close(self) -> None: ...


class Connector(Protocol):
    """Opens connections to one upstream: negotiates the era, shakes hands."""

    @property
    def activity(self) -> str:
        """What an upstream that is being opened wrote last; empty where it has no way to say anything."""
        ...

    async def open(self, profile: ClientProfile, era: Era | None = None) -> UpstreamConnection:
        """In this era, if the upstream has it, else in the other; None: in the one that it had last."""
        ...

    async def denies_modern(self, connection: UpstreamConnection) -> bool:
        """Whether the upstream says in a legacy session that it has nothing newer.

        Saves a process that would be started to find that out; false where finding out costs little.
        """
        ...


class Room(Struct, frozen=True):
    """How many sessions there may be with one server, and how long an idle one stays."""

    most: int
    each: int
    """Of one user and agent."""
    idle: float


PROCESSES = Room(64, 16, 300.0)
SESSIONS = Room(1024, 256, 3600.0)
"""Over HTTP, where a session costs the gateway a few kilobytes."""
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


class _Start(Struct, frozen=True, eq=False):
    """A connection that is being opened, and since when."""

    profile: ClientProfile
    since: float


class ConnectionPool:
    """All connections to one upstream, of both eras.

    `on_open` is told of each new connection that the gateway itself may use, and whether it replaces one that
    was lost. `own_sessions`: each legacy client has its own session. `modern_first`: legacy callers too are
    served in the modern era where the upstream has it. `known` is the era that an earlier process spoke.
    `start_wait` is how long after a program's start its callers wait for it; None: as the connector does.
    With `many_tenants`, callers may be strangers to each other.
    """

    def __init__(
        self,
        server: str,
        connector: Connector,
        on_open: Callable[[bool], None] = lambda again: None,
        *,
        room: Room = PROCESSES,
        own_sessions: bool = False,
        modern_first: bool = False,
        known: Era | None = None,
        start_wait: float | None = None,
        many_tenants: bool = False,
    ) -> None:
        self.server = server
        self._connector = connector
        self._on_open = on_open
        self._room = room
        self._own_sessions = own_sessions
        self._modern_first = modern_first
        self._start_wait = start_wait
        self._many_tenants = many_tenants
        self.about: UpstreamInfo | None = None
        """As the latest connection has it; None before the first."""
        self._lacks: set[Era] = {"modern"} if own_sessions and known == "legacy" else set()
        """The eras that it is known not to have. Over HTTP we look for the modern one first."""
        self._had: set[ClientProfile | None] = set()
        self._latest_client = NO_CLIENT
        """The profile to connect with when we ask in our own name and no connection is open."""
        self._latest_era: Era = "modern" if own_sessions or modern_first else known or "legacy"
        """The era for that."""
        self.shared: UpstreamConnection | None = None
        """The one connection of the modern era, for all callers."""
        self._connections: dict[ClientProfile, UpstreamConnection] = {}
        self._used: dict[ClientProfile, float] = {}
        self._known_profiles: dict[str, tuple[Caller, ClientProfile]] = {}
        """Of the legacy clients that called lately, by their sessions."""
        self._homes: dict[ClientProfile, RequestListener] = {}
        """Who hears what is said outside of calls in a client's own session."""
        self._opening: dict[ClientProfile | None, asyncio.Task[UpstreamConnection]] = {}
        self._starting: list[_Start] = []
        """One profile may have two: one of each era."""
        self._denying: tuple[UpstreamConnection, asyncio.Future[bool]] | None = None
        """The session that was asked whether there is nothing newer, and what it says."""
        self._opened_at = 0.0
        self._closing: set[asyncio.Task[None]] = set()
        self._watchers: dict[ChangeWatcher, None] = {}
        self._backoff = Backoff()
        self._closed = False

    @property
    def is_open(self) -> bool:
        return any(not connection.closed for connection in self._all())

    def starting(self) -> StartProgress | None:
        """How the first one comes along; None when there is one already, or none is being opened."""
        if not self._starting or self.is_open:
            return None
        since = min(start.since for start in self._starting)
        return StartProgress(time.monotonic() - since, self._connector.activity)

    async def get(self, call: Call) -> UpstreamConnection:
        """A connection for this call. Opens one if need be, after the pause that earlier failures ask for."""
        era: Era = "modern" if self._modern_first else call.caller.era
        shared = self.shared
        if era == "modern" and shared is not None and not shared.closed:
            return shared
        profile = self._profile(call)
        if (connection := self._ready(profile, era)) is not None:
            return connection
        if self._start_wait is None:
            return await self.by_profile(profile, era)
        try:
            start = self.starting()
            async with asyncio.timeout(self._start_wait - (start.seconds if start is not None else 0.0)):
                return await self.by_profile(profile, era)
        except TimeoutError:
            raise self._still_starting() from None

    def _still_starting(self) -> UpstreamStartingError:
        words = str(self.starting() or StartProgress(self._start_wait or 0.0))
        return UpstreamStartingError(
            self.server,
            said(
                f"it is still starting ({words}); try again in a while",
                f"ainda está iniciando ({words}); tente de novo daqui a pouco",
            ),
            AGAIN_SECONDS,
        )

    def _profile(self, call: Call) -> ClientProfile:
        session = call.session
        if session is None:
            profile = profile_of(call.caller, None)
        elif (known := self._known_profiles.get(session.id)) is not None and known[0] is call.caller:
            profile = known[1]
        else:
            if len(self._known_profiles) >= SESSIONS.most:
                self._known_profiles.clear()
            profile = profile_of(call.caller, session, own_sessions=self._own_sessions)
            self._known_profiles[session.id] = call.caller, profile
        if not call.secrets:
            return profile
        # A server may remember in a session whose key it saw there first, and use it for whoever comes next.
        principal = call.caller.principal
        if principal.kind == "local":  # the edge has told them apart by their keys
            return ClientProfile(principal=principal.binding) if profile is NO_CLIENT else profile
        marks = "+".join(sorted({secret.fingerprint for secret in call.secrets.values()}))
        return replace(profile, principal=f"{principal.binding}+{marks}")

    def session_of(self, call: Call) -> UpstreamConnection | None:
        """The connection that speaks for this call's client, if there is one."""
        is_shared = call.caller.era == "modern" and self.shared is not None
        connection = self.shared if is_shared else self._connections.get(self._profile(call))
        return None if connection is None or connection.closed else connection

    def is_own(self, call: Call) -> bool:
        """Whether this call's client has a legacy session of its own."""
        return self._own_sessions and call.session is not None and self._profile(call).is_own

    @contextmanager
    def home(self, call: Call, listener: RequestListener) -> Generator[None]:
        """Let `listener` hear what is said outside of calls in the own session of this call's client."""
        profile = self._profile(call)
        self._homes[profile] = listener
        if (connection := self._connections.get(profile)) is not None:
            connection.adopt(listener)
        try:
            yield
        finally:
            if self._homes.get(profile) is listener:
                del self._homes[profile]
                if (connection := self._connections.get(profile)) is not None:
                    connection.adopt(None)

    def _own(self) -> ClientProfile:
        """As whom we read lists for everybody: able to do what the latest client can, but nobody's session.

        What a server shows because of one tenant's answers is not another's to see; so nothing is answered.
        """
        if self._latest_client is NO_CLIENT:
            return NO_CLIENT
        return ClientProfile(self._latest_client.capabilities, client="catalogue")

    def reconfigure(self, start_wait: float | None) -> None:
        self._start_wait = start_wait

    def client_seen(self, profile: ClientProfile, era: Era) -> None:
        """A client introduced itself: without a connection, we connect as it would."""
        self._latest_client = profile
        if not self._own_sessions and not self._modern_first:
            self._latest_era = era

    def end_session(self, call: Call) -> None:
        """This call's client has gone: close the session that was its own."""
        profile = self._profile(call)
        connection = None if profile is NO_CLIENT else self._connections.pop(profile, None)
        if connection is not None:
            self._close_later(connection)
        if self._latest_client == profile:
            self._latest_client = NO_CLIENT

    async def any(self) -> UpstreamConnection:
        """A connection for what we ask in our own name, never in a session that is a client's own.

        Of those that are open the latest, where callers are not strangers to each other.
        """
        if self._many_tenants or self._own_sessions:
            return await self.by_profile(self._own(), self._latest_era)
        # Servers show more to a client that can be asked; so what is open for one of those comes first.
        asked = [connection for profile, connection in self._connections.items() if profile is not NO_CLIENT]
        others = [connection for profile, connection in self._connections.items() if profile is NO_CLIENT]
        for connection in (self.shared, *reversed(asked), *others):
            if connection is not None and not connection.closed:
                return connection
        return await self.by_profile(self._latest_client, self._latest_era)

    async def by_profile(self, profile: ClientProfile, era: Era) -> UpstreamConnection:
        """`era` is the one that is wanted."""
        while (connection := self._ready(profile, era)) is None:
            spoken = self._spoken(era)
            if spoken == "modern" and await self._denies_modern():
                self._lacks.add("modern")
            else:
                await self._open_once(profile, spoken)
        return connection

    def _spoken(self, wanted: Era) -> Era:
        """The wanted era, unless the upstream is known not to have it."""
        if wanted in self._lacks:
            return "legacy" if wanted == "modern" else "modern"
        return wanted

    def _ready(self, profile: ClientProfile, wanted: Era) -> UpstreamConnection | None:
        """The connection for these that is open, if there is one."""
        if self._spoken(wanted) == "modern":
            connection = self.shared
        elif (connection := self._connections.get(profile)) is not None:
            self._used[profile] = time.monotonic()
        return None if connection is None or connection.closed else connection

    async def _denies_modern(self) -> bool:
        """Whether a legacy session that is open says that there is nothing newer; asked once in each."""
        known = next((one for one in self._connections.values() if not one.closed), None)
        if known is None:
            return False
        if self._denying is None or self._denying[0] is not known:
            self._denying = known, asyncio.ensure_future(self._connector.denies_modern(known))
        return await asyncio.shield(self._denying[1])

    async def _open_once(self, profile: ClientProfile, era: Era) -> UpstreamConnection:
        """Callers who come while a connection is being opened wait for it together.

        Until it is known which eras the upstream has, one connection may well serve all of them.
        """
        if self._closed:
            raise NotReachedError(self.server, "it is being unmounted")
        is_apart = era == "legacy" and (profile.is_own or self.about is not None)
        key = profile if is_apart else None
        task = self._opening.get(key)
        if task is None:
            # A connection outlives the call that had it opened, and must not speak in its name in the log.
            task = self._opening[key] = asyncio.create_task(self._open(profile, era), context=Context())
            task.add_done_callback(lambda _: self._opening.pop(key, None))
            # When all who wait have given up, nobody would look at its failure.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(task)

    async def _open(self, profile: ClientProfile, era: Era) -> UpstreamConnection:
        self._drop_closed()
        if time.monotonic() - self._opened_at < LIVED_SECONDS and not self.is_open:
            self._backoff.failed()  # the last one was gone as soon as it was there
        if (pause := self._backoff.pause) > 0:
            await asyncio.sleep(pause)
        if era == "legacy":
            self._make_room(profile)
        start = _Start(profile, time.monotonic())
        self._starting.append(start)
        try:
            connection = await self._connector.open(profile, era)
        except CredentialError:
            raise
        except UpstreamError:
            self._backoff.failed()
            self._lacks.clear()  # another server may be there now
            raise
        finally:
            self._starting.remove(start)
        self._used = {known: at for known, at in self._used.items() if known in self._connections}
        if self._closed:
            await connection.close()
            raise NotReachedError(self.server, "it is being unmounted")
        if time.monotonic() - self._opened_at > LIVED_SECONDS:
            self._backoff.reset()
        self._opened_at = time.monotonic()
        self.about = about = connection.about
        self._lacks.discard(about.era)
        if about.era != era:
            self._lacks.add(era)
        is_shared = about.era == "modern"
        there = self.shared if is_shared else self._connections.get(profile)
        if (
            there is not None and not there.closed
        ):  # opened in the other era, which the upstream does not have
            await connection.close()
            return there
        kind = None if is_shared else profile
        again = kind in self._had
        if len(self._had) < self._room.most:
            self._had.add(kind)
        if is_shared:
            self.shared = connection
        else:
            self._connections[profile] = connection
            self._used[profile] = time.monotonic()
            if profile in self._homes:
                connection.adopt(self._homes[profile])
        for watcher in self._watchers:
            connection.watch(watcher)
        if is_shared or not profile.is_own:
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
        starting = (start.profile for start in self._starting)
        others = {*self._connections, *starting} - {NO_CLIENT, profile}
        theirs = {known for known in others if known.principal == profile.principal}
        for known, limit in ((theirs, self._room.each), (others, self._room.most)):
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
            if now - self._used.get(profile, 0) > self._room.idle and not self._connections[profile].busy:
                self._close_later(self._connections.pop(profile))

    def _close_later(self, connection: UpstreamConnection) -> None:
        task = asyncio.create_task(connection.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def watch(self, watcher: ChangeWatcher) -> None:
        """Hear what any connection says of its own accord, also of those that are opened later."""
        self._watchers[watcher] = None
        for connection in self._all():
            connection.watch(watcher)

    def unwatch(self, watcher: ChangeWatcher) -> None:
        self._watchers.pop(watcher, None)
        for connection in self._all():
            connection.unwatch(watcher)

    def _all(self) -> list[UpstreamConnection]:
        return [*self._connections.values(), *filter(None, [self.shared])]

    async def reset(self) -> None:
        """Close what is open; the next who needs a connection gets a new one."""
        self._lacks.clear()
        for connection in self._all():
            self._close_later(connection)
        self._connections.clear()
        self.shared = None

    async def close(self) -> None:
        self._closed = True
        opening = [*self._opening.values(), *([self._denying[1]] if self._denying is not None else [])]
        for task in opening:
            task.cancel()
        connections = self._all()
        self._connections.clear()
        self.shared = None
        closing = [
            *self._closing,
            *(asyncio.create_task(connection.close()) for connection in connections),
            *opening,
        ]
        if closing:
            await asyncio.wait(closing)
