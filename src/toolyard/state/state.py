"""The seam: what every store can do, and how long keys and values may be. Owns nothing of what is kept."""

import math
from typing import Protocol

from .errors import BadEntry

MAX_KEY = 1024
"""Bytes of UTF-8."""
MAX_VALUE = 1 << 20
MAX_TTL = 10 * 365 * 86400.0
"""Longer than anybody means, and short enough for every store's arithmetic."""


class State(Protocol):
    """Keys are printable text, values are small. An expired key is absent, whoever asks.

    Every method may raise StateError. What may be done twice is tried again, once, over a new connection
    when an old one turns out to be broken; a `swap` is not, because its answer would be a guess.
    """

    async def get(self, key: str) -> bytes | None: ...

    async def put(self, key: str, value: bytes, ttl: float | None = None) -> None:
        """`ttl` in seconds; None keeps it until it is deleted, whatever was said for the value before."""
        ...

    async def swap(self, key: str, old: bytes | None, new: bytes | None, ttl: float | None = None) -> bool:
        """Put `new` in the place of `old`, if that is what is there; None is absence. Whether it was done."""
        ...

    async def delete(self, key: str) -> bool:
        """Whether there was something."""
        ...

    async def keys(self, prefix: str) -> list[str]:
        """Sorted."""
        ...

    async def close(self) -> None: ...


def check(key: str, value: bytes | None = None) -> None:
    """The same limits for every store, so that what works with one works with another."""
    if not key or not key.isprintable() or len(key.encode()) > MAX_KEY:
        raise BadEntry(f"{key[:40]!r} cannot be a key", f"a key is 1 to {MAX_KEY} bytes of printable text")
    if value is not None and len(value) > MAX_VALUE:
        raise BadEntry(
            f"the value for {key[:80]!r} has {len(value)} bytes", f"a value has {MAX_VALUE} at most"
        )


def lifetime(ttl: float | None) -> float | None:
    """Seconds that every store can count. 0 is what has expired already."""
    if ttl is None or ttl == math.inf:
        return None
    return min(ttl, MAX_TTL) if ttl > 0 else 0.0
