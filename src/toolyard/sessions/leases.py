"""Leases: the session that a conversation has at an upstream, begun once and renewed once.

Owns which session belongs to (tenant, thread, upstream), and that one caller of one process begins it while
the others wait. How a session is begun, and whether an upstream refused one, is its users' business.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any

from ..state.sheltered import Sheltered
from ..state.state import State
from ..upstream.errors import UpstreamError
from .claims import Claims
from .lease import Begin, Begun, Held, Lease, decode, encode, held_begun, held_local, key_of, later

logger = logging.getLogger("toolyard.sessions")

BEGIN_SECONDS = 30.0
"""For a remote to give a session."""
PATIENCE_SECONDS = BEGIN_SECONDS + 5.0
"""For another process to begin one. Then we do it ourselves, and the store decides whose counts."""
POLL_SECONDS = 0.05
RETRY_SECONDS = 30.0
"""How long a local session is good enough where the remote gave none."""
MAX_ID = 1024

__all__ = ["Begin", "Begun", "Lease", "Leases"]


class Leases:
    """Upstream "" is the gateway's own session of a thread. `ttl` counts where a remote names none.

    No method fails because the store is away: this process's memory stands in for it.
    """

    def __init__(self, state: State, ttl: float, retry: float = RETRY_SECONDS) -> None:
        self._state = Sheltered(state, "sessions")
        self._claims = Claims(self._state)
        self._ttl = ttl
        self._retry = retry
        self._flights: dict[str, asyncio.Task[Lease]] = {}

    async def get(self, tenant: str, thread: str, upstream: str, begin: Begin | None = None) -> Lease:
        """The lease there is, or a new one: local when there is no remote, or when it gives none."""
        key = key_of("lease", tenant, thread, upstream)
        seen = await self._state.get(key)
        held = decode(seen)
        if held is not None and (begin is None or not _is_due(held) or key in self._flights):
            return held.lease
        return await self._together(key, lambda: self._begin(key, upstream, seen, held, begin))

    async def peek(self, tenant: str, thread: str, upstream: str) -> Lease | None:
        held = decode(await self._state.get(key_of("lease", tenant, thread, upstream)))
        return held and held.lease

    async def renew(
        self, tenant: str, thread: str, upstream: str, stale: str, begin: Begin | None = None
    ) -> Lease:
        """Another than `stale`, which was refused: the one begun meanwhile by somebody else, or a new one."""
        key = key_of("lease", tenant, thread, upstream)
        seen = await self._state.get(key)
        held = decode(seen)
        if held is not None and held.lease.id != stale:
            return held.lease
        return await self._together(key, lambda: self._begin(key, upstream, seen, None, begin))

    async def drop(self, tenant: str, thread: str, upstream: str) -> None:
        await self._state.delete(key_of("lease", tenant, thread, upstream))

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
        self, key: str, upstream: str, seen: bytes | None, local: Held | None, begin: Begin | None
    ) -> Lease:
        """One process begins. `seen` is what is to be replaced, `local` what is good enough meanwhile."""
        if begin is None:
            return await self._replace(key, seen, held_local(self._ttl, retry_at=0.0))
        deadline = time.monotonic() + PATIENCE_SECONDS
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

    async def _begun(self, upstream: str, local: Held | None, begin: Begin) -> Held:
        begun = await _asked(upstream, begin)
        if begun is not None:
            return held_begun(begun, upstream, self._ttl)
        retry_at = time.time() + self._retry
        return held_local(self._ttl, retry_at) if local is None else later(local, retry_at)

    async def _replace(self, key: str, seen: bytes | None, new: Held) -> Lease:
        """The first one wins; who comes later takes what is there."""
        if not await self._state.swap(key, seen, encode(new), new.left):
            other = await self._other_than(seen, key)
            if other is not None:
                return other.lease
            # It has expired or was dropped meanwhile: ours is as good as any.
            await self._state.swap(key, None, encode(new), new.left)
        return new.lease

    async def _other_than(self, seen: bytes | None, key: str) -> Held | None:
        now = await self._state.get(key)
        return None if now == seen else decode(now)


def _is_due(held: Held) -> bool:
    """Time to ask the remote again, for a session that is only local."""
    return held.lease.is_local and held.retry_at <= time.time()


async def _asked(upstream: str, begin: Begin) -> Begun | None:
    try:
        async with asyncio.timeout(BEGIN_SECONDS):
            begun = await begin()
    except UpstreamError as error:
        reason = error.reason
    except TimeoutError:
        reason = f"it gave none within {BEGIN_SECONDS:g} s"
    else:
        if begun is None or _is_proper(begun.id):
            return begun
        reason = "the id that it gave is none"
    logger.warning("no session at %r: %s; going on with a local one", upstream, reason)
    return None


def _is_proper(id: str) -> bool:
    """It will travel in a header."""
    return 0 < len(id) <= MAX_ID and id.isascii() and id.isprintable()
