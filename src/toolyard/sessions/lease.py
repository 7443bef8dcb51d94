"""The words of sessions: what a remote gives, what we hold, and under which key it is kept."""

import hashlib
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import msgspec
from msgspec import Struct

from ..state.state import MAX_TTL

MAX_PART = 200
"""Characters of a tenant, a thread or a name that are written out in a key."""
LOCAL = "local"


class Begun(Struct, frozen=True):
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


Begin = Callable[[], Awaitable[Begun | None]]
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


class Held(Struct, frozen=True):
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


def held_local(ttl: float, retry_at: float) -> Held:
    return _held(f"{LOCAL}-{uuid4()}", ttl, LOCAL, retry_at=retry_at)


def held_begun(begun: Begun, upstream: str, ttl: float) -> Held:
    seconds = min(begun.ttl, MAX_TTL) if begun.ttl is not None and begun.ttl > 0 else ttl
    return _held(begun.id, seconds, begun.source or upstream, begun.generated, begun.detail)


def later(held: Held, retry_at: float) -> Held:
    """The same lease, to be tried again at another time."""
    return msgspec.structs.replace(held, retry_at=retry_at, mark=uuid4().hex)


def _held(
    id: str,
    ttl: float,
    source: str,
    generated: bool = True,
    detail: dict[str, Any] | None = None,
    retry_at: float = 0.0,
) -> Held:
    until = time.time() + ttl
    expires = datetime.fromtimestamp(until, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    lease = Lease(id, ttl, expires, generated, source, detail or {})
    return Held(lease, until, retry_at, uuid4().hex)


encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Held).decode


def decode(raw: bytes | None) -> Held | None:
    """What cannot be read, as after a change of version, counts for nothing and is replaced."""
    if raw is None:
        return None
    try:
        held = _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return held if held.left > 0 else None


def key_of(kind: str, *parts: str) -> str:
    """No two different lists of parts have one key: within a part there is no colon."""
    return ":".join((kind, *map(_part, parts)))


def _part(text: str) -> str:
    written = quote(text, safe="", errors="surrogatepass")
    if len(written) <= MAX_PART:
        return written
    # No written part begins like this.
    return "#" + hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=20).hexdigest()
