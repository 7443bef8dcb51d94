"""The arithmetic of counters, for the stores that count in this process: memory and SQLite.

Owns how a counter is written as a value, which Redis and PostgreSQL share; they do the same sums by
themselves, so that one message to them is enough. Owns no clock and no storage.

Times are whole microseconds since 1970, so that all stores compute the same. Clocks may jump: one that goes
back neither opens a window again nor fills a bucket, and what was counted in a future that did not come
counts in the window that is open.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal, TypeAlias

from .store import (
    CounterReading,
    RateSpend,
    SlotSpend,
    Spend,
    SpendRefusal,
    SpendResult,
    WindowSpend,
    checked_ttl,
)

SECOND = 1_000_000
LONGEST_MONTH = 31 * 86400 * SECOND
LONGEST = 36500 * 86400 * SECOND
"""The longest window, and the longest time to fill a bucket. Redis counts exactly up to 285 years."""

Window: TypeAlias = tuple[int, int]
"""What is used, and when the window ends."""
Slots: TypeAlias = dict[str, int]
"""When each lease ends."""
Counter: TypeAlias = Window | int | Slots
"""The bucket of a rate is one number: when it is full again."""

DONE = SpendResult()


def settle(
    entries: Sequence[Spend], read: Callable[[str], Counter | None], now: int
) -> tuple[SpendResult, list[tuple[str, Counter]]]:
    """Say what is refused, and which counters get which values.

    If something is refused, only counters change that were left behind by a clock that was ahead.
    """
    refused: list[SpendRefusal] = []
    changes: list[tuple[str, Counter]] = []
    repairs: list[tuple[str, Counter]] = []
    for position, entry in enumerate(entries):
        kind, key = type(entry), entry.key
        before = read(key)
        if kind is WindowSpend:
            after, wait = _add(entry, before, now)  # pyright: ignore[reportArgumentType]: `kind` says so
        elif kind is RateSpend:
            after, wait = _take(entry, before, now)  # pyright: ignore[reportArgumentType]
        else:
            after, wait = _hold(entry, before, now)  # pyright: ignore[reportArgumentType]
        if wait is None:
            changes.append((key, after))
        else:
            refused.append(SpendRefusal(position, wait / SECOND, (now + wait) / SECOND))
            if before is not None and type(after) is not dict and end_of(before) > end_of(after):
                repairs.append((key, after))
    return (SpendResult(tuple(refused)), repairs) if refused else (DONE, changes)


def _add(entry: WindowSpend, before: Counter | None, now: int) -> tuple[Window, int | None]:
    used, ends = before if isinstance(before, tuple) else (0, 0)
    if ends <= now:
        used, ends = 0, window_end(entry.period, now)
    elif ends - now > longest_wait(entry.period):
        ends = window_end(entry.period, now)
    amount, ceiling = entry.amount, entry.ceiling
    if ceiling is not None and used + (amount if amount > 1 else 1) > ceiling:
        return (used, ends), ends - now
    used += amount
    return (used if used > 0 else 0, ends), None


def _take(entry: RateSpend, before: Counter | None, now: int) -> tuple[int, int | None]:
    interval, burst = _bucket(entry.rate, entry.burst)
    room = burst * interval
    full = now
    if isinstance(before, int) and before > now:
        full = before if before < now + room else now + room  # beyond that, the clock was ahead
    wait = full + interval - now - room
    return (full + interval, None) if wait <= 0 else (full, wait)


def _hold(entry: SlotSpend, before: Counter | None, now: int) -> tuple[Slots, int | None]:
    leases, ceiling = entry.leases, entry.ceiling
    kept = before.copy() if isinstance(before, dict) else {}
    for lease in leases:
        kept.pop(lease, None)
    if ceiling is not None:
        # Looked for when room is short, and when the oldest has expired: with many slots a search takes long.
        is_short = len(kept) + len(leases) > ceiling
        if kept and (is_short or next(iter(kept.values())) <= now):
            kept = {lease: ends for lease, ends in kept.items() if ends > now}
        if len(kept) + len(leases) > ceiling:
            return kept, 0
    if ttl := microseconds(entry.ttl):
        ends = now + ttl
        for lease in leases:
            kept[lease] = ends
    return kept, None


# Rules have few rates and periods, and each comes again with every call.


@lru_cache(maxsize=1024)
def microseconds(ttl: float) -> int:
    return round((checked_ttl(ttl) or 0) * SECOND)


def bucket_of(entry: RateSpend) -> tuple[int, int]:
    """Microseconds from one token to the next, and how many there are at most."""
    return _bucket(entry.rate, entry.burst)


@lru_cache(maxsize=1024)
def _bucket(rate: float, burst: int) -> tuple[int, int]:
    interval = max(1, round(min(SECOND / rate, LONGEST)))
    return interval, max(1, min(burst, LONGEST // interval))


@lru_cache(maxsize=1024)
def period_length(period: float | Literal["month"]) -> int:
    return LONGEST_MONTH if period == "month" else max(1, round(min(period * SECOND, LONGEST)))


def longest_wait(period: float | Literal["month"]) -> int:
    """How far away the end of a window may be; beyond that the clock was ahead, or the period was longer."""
    return 2 * period_length(period)


def window_end(period: float | Literal["month"], now: int) -> int:
    if period != "month":
        length = period_length(period)
        return (now // length + 1) * length
    today = datetime.fromtimestamp(now // SECOND, UTC)
    year, month = (today.year + 1, 1) if today.month == 12 else (today.year, today.month + 1)
    return int(datetime(year, month, 1, tzinfo=UTC).timestamp()) * SECOND


def end_of(counter: Counter) -> int:
    """When the counter is as good as none."""
    match counter:
        case int():
            return counter
        case tuple():
            return counter[1]
        case dict():
            return max(counter.values(), default=0)


def encode(counter: Counter) -> bytes:
    match counter:
        case int():
            return b"r %d" % counter
        case tuple():
            return b"w %d %d" % counter
        case dict():
            return " ".join(["s", *(f"{lease}={ends}" for lease, ends in counter.items())]).encode()


def decode(value: bytes) -> Counter | None:
    """None for a value that is no counter."""
    kind, *parts = value.decode(errors="replace").split(" ")
    try:
        match kind, parts:
            case "r", [full]:
                return int(full)
            case "w", [used, ends]:
                return int(used), int(ends)
            case "s", _:
                pairs = (part.partition("=") for part in parts if part)
                return {lease: int(ends) for lease, _, ends in pairs}
            case _:
                return None
    except ValueError:
        return None


def readings(counters: Iterable[tuple[str, Counter | None]], now: int) -> tuple[CounterReading, ...]:
    """What is in use now."""
    found: list[CounterReading] = []
    for key, counter in counters:
        if counter is None or end_of(counter) <= now:
            continue
        used = 0
        if isinstance(counter, tuple):
            used = counter[0]
        elif isinstance(counter, dict):
            used = sum(ends > now for ends in counter.values())
        found.append(CounterReading(key, used, end_of(counter) / SECOND))
    return tuple(sorted(found, key=lambda reading: reading.key))
