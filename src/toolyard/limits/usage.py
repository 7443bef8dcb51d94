"""What is used of each limit, read from the counters in the state store."""

import math

from msgspec import Struct

from ..state import State
from ..state.store import CounterReading
from .table import MICRO, PREFIX, Limit, LimitTable, Unit, read_scope


class LimitUsage(Struct, frozen=True):
    who: str
    per: str
    limit: str
    """The rule's name, if it has one."""
    measure: str
    """The key of the configuration: `rate`, `concurrent`, `calls`, `tokens_a_day`, …"""
    text: str
    """The limit in words."""
    unit: Unit
    used: float
    ceiling: float
    resets_at: float | None
    """Seconds since 1970; None for slots, which are free when a call ends."""
    resets_in: float | None
    """By the store's clock."""

    @property
    def left(self) -> float:
        return max(0, self.ceiling - self.used)

    @property
    def share(self) -> float:
        return self.used / self.ceiling


async def read_usage(table: LimitTable, state: State) -> list[LimitUsage]:
    """The counters in use of rules that are in the configuration, fullest first."""
    found = await state.counters(PREFIX)
    rows: list[LimitUsage] = []
    for reading in found.counters:
        known = table.find(reading.key)
        if known is not None:
            rows.append(_row(*known, reading, found.now))
    return sorted(rows, key=lambda row: (-row.share, row.who, row.text))


def _row(limit: Limit, scope: str, reading: CounterReading, now: float) -> LimitUsage:
    used, ceiling = float(reading.used), float(limit.ceiling)
    resets_at: float | None = reading.until
    if limit.measure == "rate":
        # Tokens that are missing, a token that comes soon included.
        used = min(ceiling, math.ceil((reading.until - now) * limit.rule.rate))
    elif limit.measure == "concurrent":
        resets_at = None
    elif limit.unit == "cost":
        used, ceiling = used / MICRO, ceiling / MICRO
    per, who = read_scope(scope)
    resets_in = None if resets_at is None else resets_at - now
    return LimitUsage(
        who, per, limit.rule.name, limit.measure, limit.text, limit.unit, used, ceiling, resets_at, resets_in
    )
