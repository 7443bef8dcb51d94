"""One log, searched: within a period of time, within limits."""

import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from threading import Event

from msgspec import Struct, structs

from ..entries import Entry, Notice, Query
from ..levels import is_wanted
from ..wording import has_text, shown
from .backwards import Budget
from .folder import LogGroup
from .formats import Reader
from .records import Records

MOST_BYTES = 64 * 1024 * 1024
DISORDER = 200
"""Several processes write one log, and not always in order: so many too old entries in a row are its end."""


class Hits(Struct):
    entries: list[Entry]
    has_more: bool
    seen: Counter[str]
    """Services that have entries in the period, fitting or not."""
    notices: list[Notice]


class Window(Struct, frozen=True):
    """The period that is looked at, and when to give up."""

    start: datetime
    end: datetime
    deadline: float
    stop: Event

    def is_over(self) -> bool:
        return self.stop.is_set() or time.monotonic() > self.deadline


def search(group: LogGroup, query: Query, service: str, window: Window, reader: Reader) -> Hits:
    """The newest entries that fit; `service` is empty when all of the log's are wanted."""
    budget = Budget(MOST_BYTES)
    records = Records(group, reader, budget, window.is_over)
    hits = Hits([], False, Counter(), [])
    fits = _condition(query, service)
    too_old = 0
    for entry in records.since(window.start):
        if entry.timestamp < window.start:
            too_old += 1
            if too_old > DISORDER:
                break
            continue
        too_old = 0
        if entry.timestamp > window.end:
            continue
        hits.seen[entry.service] += 1
        if not fits(entry):
            continue
        if len(hits.entries) == query.limit:
            hits.has_more = True
            break
        hits.entries.append(structs.replace(entry, message=shown(entry.message)))
    if budget.is_spent or window.is_over():
        hits.has_more = True
        size = f"{(MOST_BYTES - max(0, budget.left)) >> 20}"
        hits.notices.append(Notice("stopped_early", {"name": group.name, "size": size}))
    hits.notices += [Notice("file_unreadable", {"name": name, "reason": why}) for name, why in records.unread]
    return hits


def newest(group: LogGroup, reader: Reader, window: Window) -> datetime | None:
    """The moment of the last entry."""
    records = Records(group, reader, Budget(MOST_BYTES), window.is_over)
    moments = (entry.timestamp for entry in records.since(window.start))
    return next((moment for moment in moments if window.start <= moment <= window.end), None)


def _condition(query: Query, service: str) -> Callable[[Entry], bool]:
    type, level, text = query.type_or(""), query.level, query.text
    folded = service.casefold()

    def fits(entry: Entry) -> bool:
        return (
            (not folded or entry.service.casefold() == folded)
            and (not type or entry.type == type)
            and is_wanted(entry.level, level)
            and (not text or has_text(entry.message, text))
        )

    return fits
