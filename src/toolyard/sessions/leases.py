"""Leases: the session that a conversation has at an upstream, begun once and renewed once.

Owns which session belongs to (tenant, thread, upstream) and that it is begun by one caller at a time. How a
session is begun, and whether an upstream refused one, is its users' business.
"""

import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct

from ..state.state import State


class Begun(Struct, frozen=True):
    """A session as a remote gave it."""

    id: str
    ttl: float | None = None
    """Seconds; None when it did not say."""
    source: str = ""
    """Who gave it; the upstream's name when it is empty."""
    detail: dict[str, Any] = {}
    """What its user needs with it, such as an address. It is kept as it is: no keys in it."""


Begin = Callable[[], Awaitable[Begun | None]]


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
        return self.id.startswith("local-")

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


class Leases:
    """Upstream "" is the gateway's own session of a thread. `ttl` counts where a remote names none."""

    def __init__(self, state: State, ttl: float) -> None:
        self._state = state
        self._ttl = ttl
        self._held: dict[tuple[str, str, str], Lease] = {}

    async def get(self, tenant: str, thread: str, upstream: str, begin: Begin | None = None) -> Lease:
        """The lease there is, or a new one. Local when there is no remote, or when it gives none."""
        found = await self.peek(tenant, thread, upstream)
        return found or await self.renew(tenant, thread, upstream, "", begin)

    async def peek(self, tenant: str, thread: str, upstream: str) -> Lease | None:
        return self._held.get((tenant, thread, upstream))

    async def renew(
        self, tenant: str, thread: str, upstream: str, stale: str, begin: Begin | None = None
    ) -> Lease:
        """Another than `stale`: the one that somebody has begun meanwhile, or a new one."""
        begun = None if begin is None else await begin()
        begun = begun or Begun(f"local-{uuid.uuid4()}", source="local")
        ttl = begun.ttl or self._ttl
        expires = (datetime.now(UTC) + timedelta(seconds=ttl)).isoformat(timespec="seconds")
        lease = Lease(begun.id, ttl, expires, True, begun.source or upstream, begun.detail)
        self._held[tenant, thread, upstream] = lease
        return lease

    async def drop(self, tenant: str, thread: str, upstream: str) -> None:
        self._held.pop((tenant, thread, upstream), None)
