"""Session leases: the session that a conversation has at an upstream, begun once and renewed once.

Owns which session belongs to (tenant, thread, upstream), and that one caller in one process begins it
while the others wait: a claim in the store, which ends with its holder. How a session is begun, and
whether an upstream rejected one, is up to the caller.
"""

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import msgspec
from msgspec import Struct

from ..state.memory import FallbackState
from ..state.store import MAX_TTL, State
from ..telemetry.events import (
    LOG_ALONE,
    EventRecorder,
    SessionBegun,
    SessionLost,
    SessionRenewed,
    session_digest,
)
from ..upstream.errors import ConnectionLostError, UpstreamError, cause_of

MAX_PART = 200
"""Characters of a tenant, a thread or a name that are written out in a key."""
LOCAL = "local"


class NewSession(Struct, frozen=True):
    """A session that a remote issued."""

    id: str
    ttl: float | None = None
    """Seconds; None if the remote did not say."""
    source: str = ""
    """Who issued it; empty means the upstream itself."""
    detail: dict[str, Any] = {}
    """Further data for using it, such as an address. Stored unencrypted, so it must hold no keys."""
    generated: bool = True
    """True if it is new; False if the remote returned an existing one."""


BeginSession = Callable[[], Awaitable[NewSession | None]]
"""Returns None if the remote issues no session."""


class Lease(Struct, frozen=True):
    id: str
    ttl: float | None
    expires_at: str | None
    """ISO 8601, UTC."""
    generated: bool
    source: str
    """`local`, or the remote that issued it."""
    detail: dict[str, Any] = {}
    """Never shown."""

    @property
    def is_local(self) -> bool:
        """A local session is unknown to remotes and never sent to them."""
        return self.id.startswith(f"{LOCAL}-")

    def shown(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "ttl": self.ttl,
            "expires_at": self.expires_at,
            "generated": self.generated,
            "source": self.source,
        }

    def __repr__(self) -> str:
        return f"Lease(id={self.id!r}, source={self.source!r}, expires_at={self.expires_at!r})"


class StoredLease(Struct, frozen=True):
    """A lease as stored. `mark` makes each one unique, so a compare-and-set replaces exactly the one read."""

    lease: Lease
    until: float
    """Unix time. The store expires the entry too; this works while the store is unreachable."""
    retry_at: float = 0.0
    """For a local session: when to ask the remote again."""
    mark: str = ""

    @property
    def left(self) -> float:
        return self.until - time.time()


def local_lease(ttl: float, retry_at: float) -> StoredLease:
    return _stored_lease(f"{LOCAL}-{uuid4()}", ttl, LOCAL, retry_at=retry_at)


def session_lease(begun: NewSession, upstream: str, ttl: float) -> StoredLease:
    seconds = min(begun.ttl, MAX_TTL) if begun.ttl is not None and begun.ttl > 0 else ttl
    return _stored_lease(begun.id, seconds, begun.source or upstream, begun.generated, begun.detail)


def postpone_retry(held: StoredLease, retry_at: float) -> StoredLease:
    """The same lease, to be tried again at another time."""
    return msgspec.structs.replace(held, retry_at=retry_at, mark=uuid4().hex)


def _stored_lease(
    id: str,
    ttl: float,
    source: str,
    generated: bool = True,
    detail: dict[str, Any] | None = None,
    retry_at: float = 0.0,
) -> StoredLease:
    until = time.time() + ttl
    expires = datetime.fromtimestamp(until, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    lease = Lease(id, ttl, expires, generated, source, detail or {})
    return StoredLease(lease, until, retry_at, uuid4().hex)


encode_lease = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(StoredLease).decode


def decode_lease(raw: bytes | None) -> StoredLease | None:
    """Returns None for a lease that has expired or that another version wrote; it will be replaced."""
    if raw is None:
        return None
    try:
        held = _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return held if held.left > 0 else None


def state_key(kind: str, *parts: str) -> str:
    """Different parts give different keys: colons inside a part are escaped."""
    return ":".join((kind, *map(_part, parts)))


def _part(text: str) -> str:
    written = quote(text, safe="", errors="surrogatepass")
    if len(written) <= MAX_PART:
        return written
    # An escaped part never begins with "#".
    return "#" + hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=20).hexdigest()


CLAIM_SECONDS = 3.0
"""How long others wait if the holder of a claim was killed."""


class Claims:
    def __init__(self, state: State, seconds: float = CLAIM_SECONDS) -> None:
        self._state = state
        self._seconds = seconds

    @asynccontextmanager
    async def claim(self, key: str) -> AsyncGenerator[bool]:
        """Yields whether the claim was acquired; if so, holds it until the end of the block."""
        mine = uuid4().hex.encode()
        if not await self._state.swap(key, None, mine, self._seconds):
            yield False
            return
        holding = asyncio.create_task(self._hold(key, mine))
        try:
            yield True
        finally:
            holding.cancel()
            with suppress(asyncio.CancelledError):
                await holding
            await self._state.swap(key, mine, None)

    async def _hold(self, key: str, mine: bytes) -> None:
        while True:
            await asyncio.sleep(self._seconds / 4)
            await self._state.swap(key, mine, mine, self._seconds)


BEGIN_SECONDS = 30.0
"""How long a remote may take to issue a session."""
WAIT_SECONDS = BEGIN_SECONDS + 5.0
"""How long to wait for another process to begin a session before this one does; the store keeps one."""
POLL_SECONDS = 0.05
RETRY_SECONDS = 30.0
"""How long to use a local session before asking the remote again."""
MAX_ID = 1024

__all__ = ["BeginSession", "Lease", "Leases", "NewSession"]


class _Need(Struct, frozen=True):
    """For which server a session is begun; and if that rejected one, which and how."""

    server: str
    was: str = ""
    reason: str = ""


class Leases:
    """Upstream "" means the gateway's own session of a thread. `ttl` is used if a remote names none.

    No method fails if the store is unreachable: this process's memory is used instead.
    """

    def __init__(
        self, state: State, ttl: float, retry: float = RETRY_SECONDS, events: EventRecorder = LOG_ALONE
    ) -> None:
        self.events = events
        self._state = FallbackState(state, "sessions")
        self._claims = Claims(self._state)
        self._ttl = ttl
        self._retry = retry
        self._flights: dict[str, asyncio.Task[Lease]] = {}

    async def get(
        self, tenant: str, thread: str, upstream: str, begin: BeginSession | None = None, server: str = ""
    ) -> Lease:
        """Returns the current lease or a new one; a local one if no remote issues a session.

        `server` is the name for events; without it, that of the upstream.
        """
        key = state_key("lease", tenant, thread, upstream)
        seen = await self._state.get(key)
        held = decode_lease(seen)
        if held is not None and (begin is None or not _is_due(held) or key in self._flights):
            return held.lease
        need = _Need(server or upstream)
        return await self._together(key, lambda: self._begin(key, need, seen, held, begin))

    async def peek(self, tenant: str, thread: str, upstream: str) -> Lease | None:
        held = decode_lease(await self._state.get(state_key("lease", tenant, thread, upstream)))
        return held and held.lease

    async def renew(
        self,
        tenant: str,
        thread: str,
        upstream: str,
        stale: str,
        begin: BeginSession | None = None,
        server: str = "",
        reason: str = "",
    ) -> Lease:
        """Replaces `stale`, which the upstream rejected; returns the newer lease if there is one already.

        `reason` is how it was rejected, in few words.
        """
        key = state_key("lease", tenant, thread, upstream)
        seen = await self._state.get(key)
        held = decode_lease(seen)
        if held is not None and held.lease.id != stale:
            return held.lease
        # A local session was sent to nobody, so nobody can have rejected it.
        rejected = "" if stale.startswith(f"{LOCAL}-") else stale
        need = _Need(server or upstream, rejected, reason)
        return await self._together(key, lambda: self._begin(key, need, seen, None, begin))

    async def drop(self, tenant: str, thread: str, upstream: str) -> None:
        await self._state.delete(state_key("lease", tenant, thread, upstream))

    async def close(self) -> None:
        """Cancels sessions being begun. Does not close the store, which belongs to the caller."""
        flights = tuple(self._flights.values())
        for flight in flights:
            flight.cancel()
        await asyncio.gather(*flights, return_exceptions=True)
        await self._state.close()

    async def _together(self, key: str, begin: Callable[[], Coroutine[Any, Any, Lease]]) -> Lease:
        """Runs `begin` once for all callers in this process; a cancelled caller does not stop it."""
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = asyncio.create_task(begin())
            flight.add_done_callback(lambda landed: self._landed(key, landed))
        return await asyncio.shield(flight)

    def _landed(self, key: str, flight: asyncio.Task[Lease]) -> None:
        del self._flights[key]
        if not flight.cancelled():
            # asyncio warns about an exception that is never retrieved, as when all callers were cancelled.
            flight.exception()

    async def _begin(
        self,
        key: str,
        need: "_Need",
        seen: bytes | None,
        local: StoredLease | None,
        begin: BeginSession | None,
    ) -> Lease:
        """Begins a session in one process at a time and replaces `seen`. Others use `local` meanwhile."""
        if begin is None:
            return await self._replace(key, seen, local_lease(self._ttl, retry_at=0.0))
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            async with self._claims.claim(f"claim:{key}") as mine:
                if mine or time.monotonic() > deadline:
                    other = await self._other_than(seen, key)
                    if other is not None:
                        return other.lease
                    return await self._replace(key, seen, await self._begun(need, local, begin))
            if local is not None:
                return local.lease
            await asyncio.sleep(POLL_SECONDS)
            other = await self._other_than(seen, key)
            if other is not None:
                return other.lease

    async def _begun(self, need: "_Need", local: StoredLease | None, begin: BeginSession) -> StoredLease:
        begun = await self._begin_session(need, begin)
        if begun is not None:
            lease = session_lease(begun, need.server, self._ttl)
            self._note_begun(need, lease.lease)
            return lease
        retry_at = time.time() + self._retry
        return local_lease(self._ttl, retry_at) if local is None else postpone_retry(local, retry_at)

    async def _begin_session(self, need: "_Need", begin: BeginSession) -> NewSession | None:
        try:
            async with asyncio.timeout(BEGIN_SECONDS):
                begun = await _begin_despite_loss(begin)
        except UpstreamError as error:
            cause, said = cause_of(error), error.reason
        except TimeoutError as error:
            cause, said = cause_of(error), f"no answer within {BEGIN_SECONDS:g} s"
        else:
            if begun is None or _is_valid_id(begun.id):
                return begun
            cause, said = "invalid id", "the session id it returned is not valid"
        was = session_digest(need.was) if need.was else ""
        self.events.note(SessionLost(server=need.server, reason=cause, error=said, was=was))
        return None

    def _note_begun(self, need: "_Need", lease: Lease) -> None:
        session = session_digest(lease.id)
        if need.was:
            was = session_digest(need.was)
            event = SessionRenewed(server=need.server, reason=need.reason, session=session, was=was)
        else:
            event = SessionBegun(server=need.server, session=session, source=lease.source, ttl=lease.ttl)
        self.events.note(event)

    async def _replace(self, key: str, seen: bytes | None, new: StoredLease) -> Lease:
        """Stores `new`; returns the other lease if another process was first."""
        if not await self._state.swap(key, seen, encode_lease(new), new.left):
            other = await self._other_than(seen, key)
            if other is not None:
                return other.lease
            # The old lease expired or was dropped meanwhile.
            await self._state.swap(key, None, encode_lease(new), new.left)
        return new.lease

    async def _other_than(self, seen: bytes | None, key: str) -> StoredLease | None:
        now = await self._state.get(key)
        return None if now == seen else decode_lease(now)


def _is_due(held: StoredLease) -> bool:
    """Returns whether to ask the remote again, for a local session."""
    return held.lease.is_local and held.retry_at <= time.time()


async def _begin_despite_loss(begin: BeginSession) -> NewSession | None:
    """Begin again if the connection was lost, as by a server that closes idle ones while we send.

    A session that was begun and not answered is left unused, which harms nobody.
    """
    try:
        return await begin()
    except ConnectionLostError:
        return await begin()


def _is_valid_id(id: str) -> bool:
    """Returns whether an id can be sent in a header."""
    return 0 < len(id) <= MAX_ID and id.isascii() and id.isprintable()
