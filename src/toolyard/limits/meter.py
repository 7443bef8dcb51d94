"""Counts calls in this process's memory, where that takes no waiting and refuses nobody.

Owns the fast way of nearly every call: all counters are known, their windows run, and there is room. It then
changes them in place, as `state.counters.settle` would. In every other case `Limiter` decides.
"""

from collections.abc import Sequence
from typing import Literal

from ..state import MemoryState
from ..state.counters import SECOND, Counter, Slots, bucket_of, longest_wait, microseconds
from ..state.store import MAX_TTL, RateSpend, WindowSpend
from .table import MOST, Unit

Booking = tuple[Unit, str, float | Literal["month"]]
"""What is known only at the end of a call: unit, key and period of its counter."""
Slot = tuple[str, int]
"""Key and ceiling."""
_NO_CEILING = 1 << 62


class MemoryMeter:
    """The counters of calls of one principal to one tool."""

    __slots__ = (
        "_bookings",
        "_call_cost",
        "_clock",
        "_counters",
        "_rates",
        "_slots",
        "_token_cost",
        "_windows",
    )

    def __init__(
        self,
        memory: MemoryState,
        entries: Sequence[RateSpend | WindowSpend],
        slots: Sequence[Slot],
        bookings: Sequence[Booking],
        call_cost: int,
        token_cost: float,
    ) -> None:
        self._counters = memory.live
        self._clock = memory.clock
        self._rates: list[tuple[str, int, int]] = []
        """Key, microseconds from one token to the next, and those of a whole bucket."""
        self._windows: list[tuple[str, int, int, int]] = []
        """Key, amount, how much may have been used before, and how far the end may be away."""
        for entry in entries:
            if isinstance(entry, RateSpend):
                interval, burst = bucket_of(entry)
                self._rates.append((entry.key, interval, burst * interval))
            else:
                most = _NO_CEILING if entry.ceiling is None else entry.ceiling - max(1, entry.amount)
                self._windows.append((entry.key, entry.amount, most, longest_wait(entry.period)))
        self._slots = tuple(slots)
        self._bookings = [(unit, key, longest_wait(period)) for unit, key, period in bookings]
        self._call_cost = call_cost
        self._token_cost = token_cost

    def take(self, lease: str) -> bool:
        """Count a call that begins; False if `Limiter.admit` has to decide."""
        now = int(self._clock() * SECOND)
        counters = self._counters
        changes: list[tuple[str, Counter]] = []
        for key, interval, room in self._rates:
            full = counters.get(key)
            if type(full) is not int:
                return False
            full = (full if full > now else now) + interval
            if full > now + room:
                return False
            changes.append((key, full))
        for key, amount, most, longest in self._windows:
            window = counters.get(key)
            if type(window) is not tuple:
                return False
            used, ends = window
            if used > most or not now < ends <= now + longest:
                return False
            if amount:
                changes.append((key, (used + amount, ends)))
        taken: list[Slots] = []
        for key, ceiling in self._slots:
            held = counters.get(key)
            if type(held) is not dict or len(held) >= ceiling or (held and next(iter(held.values())) <= now):
                return False
            taken.append(held)
        counters.update(changes)
        for held in taken:
            held[lease] = now + _LEASE
        return True

    def give(self, lease: str, size: int, tokens: int, failed: bool) -> bool:
        """Free the slots of a call that `take` let in, and book what it used; False as there."""
        now = int(self._clock() * SECOND)
        counters = self._counters
        changes: list[tuple[str, Counter]] = []
        for unit, key, longest in self._bookings:
            amount = tokens if unit == "tokens" else size
            if unit == "cost":
                amount = cost_of(tokens, failed, self._call_cost, self._token_cost)
            window = counters.get(key)
            if type(window) is not tuple:
                return False
            used, ends = window
            if not now < ends <= now + longest:
                return False
            used += amount
            changes.append((key, (used if used > 0 else 0, ends)))
        for key, _ in self._slots:
            held = counters.get(key)
            if type(held) is dict:
                held.pop(lease, None)
        counters.update(changes)
        return True


_LEASE = microseconds(MAX_TTL)
"""A lease in memory ends with the process."""


def cost_of(tokens: int, failed: bool, call_cost: int, token_cost: float) -> int:
    """What a call costs at its end, besides what it cost to begin. A failed one gets that back."""
    if failed:
        return -call_cost
    return round(min(MOST, tokens * token_cost)) if token_cost else 0
