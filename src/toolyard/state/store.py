"""What every store can do, the limits of keys and values, addresses of stores, and errors.

No message contains a password.

StateError                   names the store by kind and place; `hint` says what to do
├── StateUnusableError       the address, or what is there, cannot be used: waiting does not help
│   └── StateExtraError      a package of an extra is not installed
├── StateUnavailableError    not reachable now: the next call tries again
│   └── StateTimeoutError    no answer in time; whether the work was done is unknown
├── StateFullError           takes nothing more until something is deleted or expires
└── StateEntryError          the key or the value is not one that every store takes
"""

import math
from pathlib import Path
from typing import Literal, Protocol
from urllib.parse import parse_qsl, unquote


class StateError(Exception):
    told = "the gateway's state cannot be used just now"
    """What a client may know: the message names places, which are for who runs the gateway."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message if hint is None else f"{message}; hint: {hint}")
        self.message = message
        self.hint = hint


class StateUnusableError(StateError):
    pass


class StateExtraError(StateUnusableError):
    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs a package that is not installed", f"pip install 'toolyard[{extra}]'")
        self.extra = extra


class StateUnavailableError(StateError):
    pass


class StateTimeoutError(StateUnavailableError):
    pass


class StateFullError(StateError):
    told = "the gateway's state has no room left"


class StateEntryError(StateError):
    pass


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


def check_entry(key: str, value: bytes | None = None) -> None:
    """The same limits for every store, so that what works with one works with another."""
    if not key or not key.isprintable() or len(key.encode()) > MAX_KEY:
        raise StateEntryError(
            f"{key[:40]!r} cannot be a key", f"a key is 1 to {MAX_KEY} bytes of printable text"
        )
    if value is not None and len(value) > MAX_VALUE:
        raise StateEntryError(
            f"the value for {key[:80]!r} has {len(value)} bytes", f"a value has {MAX_VALUE} at most"
        )


def checked_ttl(ttl: float | None) -> float | None:
    """Seconds that every store can count. 0 is what has expired already."""
    if ttl is None or ttl == math.inf:
        return None
    return min(ttl, MAX_TTL) if ttl > 0 else 0.0


Kind = Literal["memory", "sqlite", "redis", "postgres"]

_SCHEMES: dict[str, Kind] = {
    "": "memory",
    "memory": "memory",
    "sqlite": "sqlite",
    "redis": "redis",
    "rediss": "redis",
    "postgres": "postgres",
    "postgresql": "postgres",
}
_EXAMPLES = "memory:, sqlite:, sqlite:///path/to/file, redis://HOST, rediss://HOST or postgresql://HOST/NAME"


def kind_of(url: str) -> Kind:
    scheme = url.partition(":")[0].lower() if ":" in url else url
    kind = _SCHEMES.get(scheme)
    if kind is None or (scheme and ":" not in url):
        # Only the scheme is quoted: somebody may have put a password where the address belongs.
        named = f"of the kind {scheme!r}" if ":" in url and scheme.isalnum() else "without a known scheme"
        raise StateUnusableError(f"there is no store {named}", f"state is kept in {_EXAMPLES}")
    return kind


def is_shared(url: str) -> bool:
    """Whether other machines may use the same store."""
    return kind_of(url) in ("redis", "postgres")


def place_of(url: str) -> str:
    """The address for messages: scheme, host, port and name, and nothing before an `@` or in the query."""
    scheme, _, rest = url.partition("://")
    # The last one, in the whole of it: a password may hold an unencoded `/`, `?` or `@`.
    shown = rest.rpartition("@")[2]
    shown = shown.partition("?")[0].partition("#")[0]
    return f"{scheme}://{shown if shown.strip('/') else shown + _option(url, 'host')}"


def without_secrets(text: str, url: str) -> str:
    """Somebody else's words about an address, less its passwords, as written there and as meant."""
    written = url.partition("://")[2].rpartition("@")[0].partition(":")[2]
    for secret in sorted({written, unquote(written), _option(url, "password")}, key=len, reverse=True):
        text = text.replace(secret, "***") if secret else text
    return text


def file_of(url: str, folder: Path | None) -> Path:
    """`sqlite:` is `state.db` in the folder, `sqlite:name` is there too, `sqlite:///path` is the path."""
    rest = url.partition(":")[2]
    if rest.startswith("//"):
        rest = unquote(rest[2:])
        if not rest.startswith("/"):
            raise StateUnusableError(f"{url!r} names a host, and SQLite has none", "sqlite:///path/to/file")
        return Path("/" + rest.lstrip("/"))
    name = Path(unquote(rest) or "state.db").expanduser()
    if name.is_absolute():
        return name
    if folder is None:
        raise StateUnusableError(
            f"there is no state folder for {url!r}", "name the file: sqlite:///path/to/file"
        )
    return folder / name


def _option(url: str, name: str) -> str:
    return dict(parse_qsl(url.rpartition("?")[2])).get(name, "")
