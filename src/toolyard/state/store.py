"""The interface of state stores and their counters, the limits of keys and values, URLs, and errors.

No message contains a password.

StateError                   names the store by kind and place; `hint` says what to do
├── StateUnusableError       the URL or the store cannot be used; waiting does not help
│   └── StateExtraError      a package of an extra is not installed
├── StateUnavailableError    not reachable now; the next call tries again
│   └── StateTimeoutError    no answer in time; the write may have been done
├── StateFullError           no room until entries are deleted or expire
└── StateEntryError          a key or value that stores do not accept
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Literal, Protocol, TypeAlias
from urllib.parse import unquote

from msgspec import Struct

from ..extras import install_command
from ..languages import said


class StateError(Exception):
    @property
    def public_message(self) -> str:
        """The text for clients. The message itself names addresses and is for operators only."""
        return said(
            "the gateway's state store is not available now",
            "o armazenamento de estado do gateway não está disponível agora",
        )

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message if hint is None else f"{message}; hint: {hint}")
        self.message = message
        self.hint = hint


class StateUnusableError(StateError):
    pass


class StateExtraError(StateUnusableError):
    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs a package that is not installed", install_command(extra))
        self.extra = extra


class StateUnavailableError(StateError):
    pass


class StateTimeoutError(StateUnavailableError):
    pass


class StateFullError(StateError):
    @property
    def public_message(self) -> str:
        return said("the gateway's state store is full", "o armazenamento de estado do gateway está cheio")


class StateEntryError(StateError):
    pass


MAX_KEY = 1024
"""Bytes of UTF-8."""
MAX_VALUE = 1 << 20
MAX_TTL = 10 * 365 * 86400.0
"""Short enough for the arithmetic of every store."""


DAY = 86400.0


class WindowSpend(Struct, frozen=True):
    """Adds to what was used since the window began, if that stays within the ceiling.

    Windows follow each other in UTC, for everybody at the same time. Without an amount it asks whether
    anything is left. Without a ceiling it always adds; a negative amount gives back, down to zero.
    """

    key: str
    amount: int
    ceiling: int | None
    period: float | Literal["month"]
    """Seconds, or a month of the calendar."""

    def __post_init__(self) -> None:
        _check_counter_key(self.key)


class RateSpend(Struct, frozen=True):
    """Takes one token out of a bucket that holds `burst` and gets `rate` a second."""

    key: str
    rate: float
    burst: int

    def __post_init__(self) -> None:
        _check_counter_key(self.key)


class SlotSpend(Struct, frozen=True):
    """Takes a slot for each lease; a slot is free again after `ttl` seconds, or at once if that is 0.

    A lease that is held already is renewed. Without a ceiling the slots are taken in any case.
    """

    key: str
    leases: tuple[str, ...]
    """Letters, digits and hyphens."""
    ceiling: int | None
    ttl: float

    def __post_init__(self) -> None:
        _check_counter_key(self.key)


Spend: TypeAlias = WindowSpend | RateSpend | SlotSpend


class SpendRefusal(Struct, frozen=True):
    position: int
    """Of the entry that was asked for."""
    wait: float
    """Seconds until it may succeed, by the store's clock; 0 if a slot has to be freed first."""
    free_at: float
    """The same as a time, in seconds since 1970."""


class SpendResult(Struct, frozen=True):
    """What `spend` did: everything, or nothing because of these."""

    refused: tuple[SpendRefusal, ...] = ()


class CounterReading(Struct, frozen=True):
    key: str
    used: int
    """Of a window, or how many slots are taken. 0 for a bucket, whose `until` says how much is missing."""
    until: float
    """When the window ends, the bucket is full again, or the last lease ends; in seconds since 1970."""


class CounterReadings(Struct, frozen=True):
    now: float
    """The store's clock, in seconds since 1970."""
    counters: tuple[CounterReading, ...]


class State(Protocol):
    """Keys are printable text, values are small. An expired key is absent.

    Every method may raise StateError. If a connection is broken, a call is tried once more over a new one,
    except `swap` and `spend`: whether the first try succeeded is unknown.
    """

    async def get(self, key: str) -> bytes | None: ...

    async def put(self, key: str, value: bytes, ttl: float | None = None) -> None:
        """Replaces value and time limit. `ttl` in seconds; None keeps the entry until it is deleted."""
        ...

    async def swap(self, key: str, old: bytes | None, new: bytes | None, ttl: float | None = None) -> bool:
        """Replace `old` by `new` if `old` is the current value. None means absent. Returns whether it did."""
        ...

    async def delete(self, key: str) -> bool:
        """Returns whether the key existed."""
        ...

    async def keys(self, prefix: str) -> list[str]:
        """Sorted."""
        ...

    async def spend(self, entries: Sequence[Spend]) -> SpendResult:
        """Do all of it or nothing, in one step and by the store's own clock. The keys differ.

        A counter has a key of its own: nothing else is kept there, and `keys` may name it.
        """
        ...

    async def counters(self, prefix: str) -> CounterReadings:
        """The counters in use whose keys begin so, sorted."""
        ...

    async def close(self) -> None: ...


async def try_state(state: State) -> None:
    """Write an entry and delete it, as calls do: a full store still reads."""
    await state.put("health", b"", 60.0)
    await state.delete("health")


def check_entry(key: str, value: bytes | None = None) -> None:
    """The same limits for every store, so that stores can be exchanged."""
    if not key or not key.isprintable() or len(key.encode()) > MAX_KEY:
        raise StateEntryError(f"invalid key {key[:40]!r}", f"a key is 1 to {MAX_KEY} bytes of printable text")
    if value is not None and len(value) > MAX_VALUE:
        raise StateEntryError(
            f"the value for {key[:80]!r} has {len(value)} bytes", f"a value has {MAX_VALUE} at most"
        )


# The keys of counters come again with every call, and checking one anew takes a microsecond.
_check_counter_key = lru_cache(maxsize=4096)(check_entry)


def checked_ttl(ttl: float | None) -> float | None:
    """The seconds within what every store can count. 0: expired already; None: no limit."""
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
        # Quote only the scheme: the rest may hold a password.
        problem = f"unknown store type {scheme!r}" if ":" in url and scheme.isalnum() else "no store type"
        raise StateUnusableError(f"{problem} in the url of [state]", f"use {_EXAMPLES}")
    return kind


def is_shared(url: str) -> bool:
    """Whether other machines may use the same store."""
    return kind_of(url) in ("redis", "postgres")


def file_of(url: str, folder: Path | None) -> Path:
    """`sqlite:` is `state.db` in the folder, `sqlite:name` that file there, `sqlite:///path` is the path."""
    rest = url.partition(":")[2]
    if rest.startswith("//"):
        rest = unquote(rest[2:])
        if not rest.startswith("/"):
            raise StateUnusableError(f"{url!r} names a host; SQLite uses a file", "sqlite:///path/to/file")
        return Path("/" + rest.lstrip("/"))
    name = Path(unquote(rest) or "state.db").expanduser()
    if name.is_absolute():
        return name
    if folder is None:
        raise StateUnusableError(
            f"there is no state folder for {url!r}", "give the whole path: sqlite:///path/to/file"
        )
    return folder / name
