"""What is used of each limit, read from the counters in the state store.

A report is also what a gateway sends over HTTP, so its types hold for what somebody else sent.
"""

import asyncio
import math
from collections.abc import Callable
from typing import Annotated

from msgspec import Meta, Struct

from ..state import State
from ..state.store import CounterReading
from .table import MICRO, PREFIX, Limit, LimitTable, Unit, read_scope

ROWS_AT_ONCE = 500
LAST_SECOND = 253_402_300_799
"""Of the year 9999, after which Python has no dates."""

CounterFilter = Callable[[str, tuple[str | None, ...]], bool]
"""Whether a counter may be shown: of what it is (`user`, `tool`, …) and whose, as `read_scope` gives them."""


class LimitUsage(Struct, frozen=True):
    who: str
    per: str
    rule: str
    """Its name, if it has one."""
    measure: str
    """The key of the configuration: `rate`, `concurrent`, `calls`, `tokens_a_day`, …"""
    limit: str
    """In words."""
    unit: Unit
    used: float
    ceiling: Annotated[float, Meta(gt=0)]
    resets_at: Annotated[float, Meta(ge=0, le=LAST_SECOND)] | None
    """Seconds since 1970; None for slots, which are free when a call ends."""
    resets_in: float | None
    """By the store's clock."""

    @property
    def left(self) -> float:
        return max(0, self.ceiling - self.used)

    @property
    def share(self) -> float:
        return self.used / self.ceiling


class UsageReport(Struct, frozen=True):
    currency: str
    """Of the rows that count costs."""
    usage: list[LimitUsage]
    """Fullest first."""


async def read_usage(table: LimitTable, state: State, sees: CounterFilter | None = None) -> UsageReport:
    """The counters in use of rules that are in the configuration, those that `sees` lets pass."""
    found = await state.counters(PREFIX)
    rows: list[LimitUsage] = []
    for number, reading in enumerate(found.counters):
        if number % ROWS_AT_ONCE == 0:
            await asyncio.sleep(0)  # a gateway has calls to answer meanwhile
        known = table.find(reading.key)
        if known is None:
            continue
        limit, key = known
        per, names, who = read_scope(key)
        if sees is None or sees(per, names):
            rows.append(_row(limit, per, who, reading, found.now))
    await asyncio.to_thread(rows.sort, key=lambda row: (-row.share, row.who, row.limit))
    return UsageReport(table.currency, rows)


def _row(limit: Limit, per: str, who: str, reading: CounterReading, now: float) -> LimitUsage:
    used, ceiling = float(reading.used), float(limit.ceiling)
    resets_at: float | None = reading.until
    if limit.measure == "rate":
        # Tokens that are missing, a token that comes soon included.
        used = min(ceiling, math.ceil((reading.until - now) * limit.rule.rate))
    elif limit.measure == "concurrent":
        resets_at = None
    elif limit.unit == "cost":
        used, ceiling = used / MICRO, ceiling / MICRO
    resets_in = None if resets_at is None else resets_at - now
    return LimitUsage(
        who, per, limit.rule.name, limit.measure, limit.text, limit.unit, used, ceiling, resets_at, resets_in
    )
