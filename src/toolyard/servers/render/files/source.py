"""Log files as a source: searches logs within a period and limits, and merges the results."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, tzinfo
from threading import Event

from msgspec import Struct, structs

from ..model import (
    ALL_SERVICES,
    ANY_TYPE,
    LogEntry,
    LoggedService,
    LogNotice,
    LogQuery,
    LogResult,
    ReportProgress,
    ServiceStatus,
    clean_message,
    has_text,
    is_wanted,
    unknown_service,
)
from .folder import LogGroup, groups
from .formats import Clock, RecordReader
from .records import LogRecords, ReadBudget

MAX_BYTES = 64 * 1024 * 1024
DISORDER = 200
"""Entries may be out of order: this many too old entries in a row end the search."""


class LogHits(Struct):
    entries: list[LogEntry]
    has_more: bool
    seen: Counter[str]
    """Services with entries in the period, matching or not."""
    notices: list[LogNotice]


class ScanWindow(Struct, frozen=True):
    """The period to search, and when to stop."""

    start: datetime
    end: datetime
    deadline: float
    stop: Event

    def is_over(self) -> bool:
        return self.stop.is_set() or time.monotonic() > self.deadline


def search(
    group: LogGroup, query: LogQuery, service: str, window: ScanWindow, reader: RecordReader
) -> LogHits:
    """Returns the newest matching entries; an empty `service` means all services of the log."""
    budget = ReadBudget(MAX_BYTES)
    records = LogRecords(group, reader, budget, window.is_over)
    hits = LogHits([], False, Counter(), [])
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
        hits.entries.append(structs.replace(entry, message=clean_message(entry.message)))
    if budget.is_spent or window.is_over():
        hits.has_more = True
        size = f"{(MAX_BYTES - max(0, budget.left)) >> 20}"
        hits.notices.append(LogNotice("stopped_early", {"name": group.name, "size": size}))
    hits.notices += [
        LogNotice("file_unreadable", {"name": name, "reason": why}) for name, why in records.unread
    ]
    return hits


def newest(group: LogGroup, reader: RecordReader, window: ScanWindow) -> datetime | None:
    """The time of the newest entry."""
    records = LogRecords(group, reader, ReadBudget(MAX_BYTES), window.is_over)
    moments = (entry.timestamp for entry in records.since(window.start))
    return next((moment for moment in moments if window.start <= moment <= window.end), None)


def _condition(query: LogQuery, service: str) -> Callable[[LogEntry], bool]:
    type, level, text = query.type_or(""), query.level, query.text
    folded = service.casefold()

    def fits(entry: LogEntry) -> bool:
        return (
            (not folded or entry.service.casefold() == folded)
            and (not type or entry.type == type)
            and is_wanted(entry.level, level)
            and (not text or has_text(entry.message, text))
        )

    return fits


RECENT = LogQuery(type=ANY_TYPE, level="error", period=timedelta(minutes=15), limit=1_000)
BEGINNING_OF_TIME = datetime(1970, 1, 2, tzinfo=UTC)


class FileLogs:
    kind = "files"

    def __init__(
        self, patterns: Sequence[str], *, clock: str, zone: tzinfo | None, call_seconds: float
    ) -> None:
        self._patterns = patterns
        self._from_newest = clock == "newest"
        self._zone = zone
        self._call_seconds = call_seconds

    async def logs(self, query: LogQuery, report: ReportProgress) -> LogResult:
        known = await asyncio.to_thread(groups, self._patterns)
        wanted = query.service.strip()
        everything = not wanted or wanted.casefold() in ALL_SERVICES
        by_file = [group for group in known if group.name.casefold() == wanted.casefold()]
        chosen = known if everything else by_file or known
        service = "" if everything or by_file else wanted
        hits = await self._search(chosen, query, service, report)
        seen = sum((hit.seen for hit in hits), Counter[str]())
        if service and service.casefold() not in map(str.casefold, seen):
            raise unknown_service(wanted, _services([group.name for group in known] + list(seen)))
        found = _merge(hits, query, wanted or ALL_SERVICES[0])
        if not seen and (last := await self._newest(chosen)):
            found.notices.append(LogNotice("newest", {"moment": last.isoformat(timespec="seconds")}))
        return found

    async def statuses(
        self, explain: Callable[[LogNotice], str], report: ReportProgress
    ) -> list[ServiceStatus]:
        known = await asyncio.to_thread(groups, self._patterns)
        hits = await self._search(known, RECENT, "", report)
        found: list[ServiceStatus] = []
        for group, hit in zip(known, hits, strict=True):
            problem = " ".join(explain(notice) for notice in hit.notices) or None
            errors = Counter(entry.service for entry in hit.entries)
            found += [
                ServiceStatus(
                    name=name,
                    ok=problem is None,
                    status=None,
                    last_deploy=None,
                    type="file",
                    errors_15min=errors[name],
                    errors_has_more=hit.has_more,
                    problem=problem,
                )
                for name in sorted(hit.seen) or [group.name]
            ]
        return found

    async def names(self) -> list[str]:
        return [group.name for group in await asyncio.to_thread(groups, self._patterns)]

    async def close(self) -> None:
        pass

    async def _search(
        self, chosen: Sequence[LogGroup], query: LogQuery, service: str, report: ReportProgress
    ) -> list[LogHits]:
        """Searches one log after the other, in a thread; stops if the call is cancelled."""
        now = datetime.now(UTC)
        end = await self._newest(chosen) or now if self._from_newest else now
        reader = RecordReader(Clock(self._zone, now))
        found: list[LogHits] = []
        with self._window(end - query.period) as window:
            for count, group in enumerate(chosen, 1):
                found.append(await asyncio.to_thread(search, group, query, service, window, reader))
                await report(count, len(chosen), LogNotice("file_read", {"name": group.name}))
        return found

    async def _newest(self, chosen: Sequence[LogGroup]) -> datetime | None:
        """The time of the newest entry of all logs."""
        reader = RecordReader(Clock(self._zone, datetime.now(UTC)))
        with self._window(BEGINNING_OF_TIME) as window:
            last = [await asyncio.to_thread(newest, group, reader, window) for group in chosen]
        return max((moment for moment in last if moment), default=None)

    @contextmanager
    def _window(self, start: datetime) -> Generator[ScanWindow]:
        """The window from `start` on; stops threads that still read when the call ends."""
        stop = Event()
        try:
            # Tolerates a day of clock skew.
            end = datetime.now(UTC) + timedelta(days=1)
            yield ScanWindow(start, end, time.monotonic() + self._call_seconds, stop)
        finally:
            stop.set()


def _merge(hits: Sequence[LogHits], query: LogQuery, service: str) -> LogResult:
    entries = [entry for hit in hits for entry in hit.entries]
    entries.sort(key=lambda entry: entry.timestamp, reverse=True)
    return LogResult(
        service=service,
        type=query.type_or(""),
        entries=entries[: query.limit],
        has_more=any(hit.has_more for hit in hits) or len(entries) > query.limit,
        notices=[notice for hit in hits for notice in hit.notices],
    )


def _services(names: Sequence[str]) -> list[LoggedService]:
    return [LoggedService(id=name, name=name) for name in dict.fromkeys(names)]
