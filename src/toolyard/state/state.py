"""The seam: what every store can do, and how long keys and values may be. What is kept is its users' business."""

from typing import Protocol

from .errors import BadEntry

MAX_KEY = 1024
"""Bytes of UTF-8."""
MAX_VALUE = 1 << 20


class State(Protocol):
    """Keys are text without NUL, values are small. An expired key is absent, whoever asks.

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
    size = len(key.encode(errors="surrogatepass"))
    if not key or size > MAX_KEY or "\0" in key or not key.isprintable():
        raise BadEntry(f"a key of {size} bytes cannot be used", f"1 to {MAX_KEY} bytes of printable text")
    if value is not None and len(value) > MAX_VALUE:
        raise BadEntry(f"the value for {key[:80]!r} has {len(value)} bytes", f"at most {MAX_VALUE}")
