"""Session leases: the session that a conversation has at an upstream, begun once and renewed once.

Owns which session belongs to (tenant, thread, upstream), and that one caller in one process begins it
while the others wait: a claim in the store, which ends with its holder. How a session is begun, and
whether an upstream rejected one, is up to the caller.
"""

import asyncio
import hashlib
import logging
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
from ..upstream.errors import UpstreamError

MAX_PART = 200
"""Characters of a tenant, a thread or a name that are written out in a key."""
LOCAL = "local"


class NewSession(Struct, frozen=True):
    """A session as a remote gave it."""

    id: str
    ttl: float | None = None
    """Seconds; None when it did not say."""
    source: str = ""
    """Who gave it; the upstream's name when it is empty."""
    detail: dict[str, Any] = {}
    """What its user needs with it, such as an address. It is kept as it is: no keys in it."""
    generated: bool = True
    """It was made for us, and not merely found again."""


BeginSession = Callable[[], Awaitable[NewSession | None]]
"""None when the remote gives no session."""


class Lease(Struct, frozen=True):
    id: str
    ttl: float | None
    expires_at: str | None
    """ISO 8601, UTC."""
    generated: bool
    source: str
    """`local`, or who gave it."""
    detail: dict[str, Any] = {}
    """Never shown."""

    @property
    def is_local(self) -> bool:
        """No remote knows it: it is never sent to one."""
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
    """A lease as it is kept. No two are alike, so that who swaps one knows that it was his."""

    lease: Lease
    until: float
    """Seconds since 1970. The store lets it expire too; this counts where the store is away."""
    retry_at: float = 0.0
    """A local one: when to ask the remote again."""
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
    """What cannot be read, as after a change of version, counts for nothing and is replaced."""
    if raw is None:
        return None
    try:
        held = _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return held if held.left > 0 else None


def state_key(kind: str, *parts: str) -> str:
    """No two different lists of parts have one key: within a part there is no colon."""
    return ":".join((kind, *map(_part, parts)))


def _part(text: str) -> str:
    written = quote(text, safe="", errors="surrogatepass")
    if len(written) <= MAX_PART:
        return written
    # No written part begins like this.
    return "#" + hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=20).hexdigest()


CLAIM_SECONDS = 3.0
"""What a holder that was killed costs those who wait."""


class Claims:
    def __init__(self, state: State, seconds: float = CLAIM_SECONDS) -> None:
        self._state = state
        self._seconds = seconds

    @asynccontextmanager
    async def claim(self, key: str) -> AsyncGenerator[bool]:
        """Whether it is ours; if so, it stays ours to the end of the block."""
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


logger = logging.getLogger("toolyard.sessions")

BEGIN_SECONDS = 30.0
"""For a remote to give a session."""
WAIT_SECONDS = BEGIN_SECONDS + 5.0
"""For another process to begin one. Then we do it ourselves, and the store decides whose counts."""
POLL_SECONDS = 0.05
RETRY_SECONDS = 30.0
"""How long a local session is good enough where the remote gave none."""
MAX_ID = 1024

__all__ = ["BeginSession", "Lease", "Leases", "NewSession"]


class Leases:
    """Upstream "" is the gateway's own session of a thread. `ttl` counts where a remote names none.

    No method fails because the store is away: this process's memory stands in for it.
    """

    def __init__(self, state: State, ttl: float, retry: float = RETRY_SECONDS) -> None:
        self._state = FallbackState(state, "sessions")
        self._claims = Claims(self._state)
        self._ttl = ttl
        self._retry = retry
        self._flights: dict[str, asyncio.Task[Lease]] = {}

    async def get(self, tenant: str, thread: str, upstream: str, begin: BeginSession | None = None) -> Lease:
        """The lease there is, or a new one: local when there is no remote, or when it gives none."""
        key = state_key("lease", tenant, thread, upstream)
        seen = await self._state.get(key)
        held = decode_lease(seen)
        if held is not None and (begin is None or not _is_due(held) or key in self._flights):
            return held.lease
        return await self._together(key, lambda: self._begin(key, upstream, seen, held, begin))

    async def peek(self, tenant: str, thread: str, upstream: str) -> Lease | None:
        held = decode_lease(await self._state.get(state_key("lease", tenant, thread, upstream)))
        return held and held.lease

    async def renew(
        self, tenant: str, thread: str, upstream: str, stale: str, begin: BeginSession | None = None
    ) -> Lease:
        """Another than `stale`, which was refused: the one begun meanwhile by somebody else, or a new one."""
        key = state_key("lease", tenant, thread, upstream)
        seen = await self._state.get(key)
        held = decode_lease(seen)
        if held is not None and held.lease.id != stale:
            return held.lease
        return await self._together(key, lambda: self._begin(key, upstream, seen, None, begin))

    async def drop(self, tenant: str, thread: str, upstream: str) -> None:
        await self._state.delete(state_key("lease", tenant, thread, upstream))

    async def close(self) -> None:
        """The store itself is closed by whoever opened it."""
        flights = tuple(self._flights.values())
        for flight in flights:
            flight.cancel()
        await asyncio.gather(*flights, return_exceptions=True)
        await self._state.close()

    async def _together(self, key: str, begin: Callable[[], Coroutine[Any, Any, Lease]]) -> Lease:
        """One of this process's callers begins. Whoever goes away meanwhile stops it for nobody."""
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = asyncio.create_task(begin())
            flight.add_done_callback(lambda landed: self._landed(key, landed))
        return await asyncio.shield(flight)

    def _landed(self, key: str, flight: asyncio.Task[Lease]) -> None:
        del self._flights[key]
        if not flight.cancelled():
            # Looked at, for when all who waited have gone: asyncio would complain that nobody did.
            flight.exception()

    async def _begin(
        self,
        key: str,
        upstream: str,
        seen: bytes | None,
        local: StoredLease | None,
        begin: BeginSession | None,
    ) -> Lease:
        """One process begins. `seen` is what is to be replaced, `local` what is good enough meanwhile."""
        if begin is None:
            return await self._replace(key, seen, local_lease(self._ttl, retry_at=0.0))
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            async with self._claims.claim(f"claim:{key}") as mine:
                if mine or time.monotonic() > deadline:
                    other = await self._other_than(seen, key)
                    if other is not None:
                        return other.lease
                    return await self._replace(key, seen, await self._begun(upstream, local, begin))
            if local is not None:
                return local.lease
            await asyncio.sleep(POLL_SECONDS)
            other = await self._other_than(seen, key)
            if other is not None:
                return other.lease

    async def _begun(self, upstream: str, local: StoredLease | None, begin: BeginSession) -> StoredLease:
        begun = await _begin_session(upstream, begin)
        if begun is not None:
            return session_lease(begun, upstream, self._ttl)
        retry_at = time.time() + self._retry
        return local_lease(self._ttl, retry_at) if local is None else postpone_retry(local, retry_at)

    async def _replace(self, key: str, seen: bytes | None, new: StoredLease) -> Lease:
        """The first one wins; who comes later takes what is there."""
        if not await self._state.swap(key, seen, encode_lease(new), new.left):
            other = await self._other_than(seen, key)
            if other is not None:
                return other.lease
            # It has expired or was dropped meanwhile: ours is as good as any.
            await self._state.swap(key, None, encode_lease(new), new.left)
        return new.lease

    async def _other_than(self, seen: bytes | None, key: str) -> StoredLease | None:
        now = await self._state.get(key)
        return None if now == seen else decode_lease(now)


def _is_due(held: StoredLease) -> bool:
    """Time to ask the remote again, for a session that is only local."""
    return held.lease.is_local and held.retry_at <= time.time()


async def _begin_session(upstream: str, begin: BeginSession) -> NewSession | None:
    try:
        async with asyncio.timeout(BEGIN_SECONDS):
            begun = await begin()
    except UpstreamError as error:
        reason = error.reason
    except TimeoutError:
        reason = f"it gave none within {BEGIN_SECONDS:g} s"
    else:
        if begun is None or _is_valid_id(begun.id):
            return begun
        reason = "the id that it gave is none"
    logger.warning("no session at %r: %s; going on with a local one", upstream, reason)
    return None


def _is_valid_id(id: str) -> bool:
    """It will travel in a header."""
    return 0 < len(id) <= MAX_ID and id.isascii() and id.isprintable()
