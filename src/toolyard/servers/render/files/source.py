"""Log files as a source: which of them are searched, and how what they had comes together."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, tzinfo
from threading import Event

from ..entries import ANY_TYPE, Found, Notice, Query, Status, Tell
from ..naming import ALL, Service, unknown
from .folder import LogGroup, groups
from .formats import Reader
from .moments import Clock
from .scan import Hits, Window, newest, search

RECENT = Query(type=ANY_TYPE, level="error", period=timedelta(minutes=15), limit=1_000)
DAWN = datetime(1970, 1, 2, tzinfo=UTC)


class Files:
    kind = "files"

    def __init__(self, patterns: Sequence[str], *, clock: str, zone: tzinfo | None, patience: float) -> None:
        self._patterns = patterns
        self._from_newest = clock == "newest"
        self._zone = zone
        self._patience = patience

    async def logs(self, query: Query, tell: Tell) -> Found:
        known = await asyncio.to_thread(groups, self._patterns)
        wanted = query.service.strip()
        everything = not wanted or wanted.casefold() in ALL
        by_file = [group for group in known if group.name.casefold() == wanted.casefold()]
        chosen = known if everything else by_file or known
        service = "" if everything or by_file else wanted
        hits = await self._search(chosen, query, service, tell)
        seen = sum((hit.seen for hit in hits), Counter[str]())
        if service and service.casefold() not in map(str.casefold, seen):
            raise unknown(wanted, _services([group.name for group in known] + list(seen)))
        found = _merged(hits, query, wanted or ALL[0])
        if not seen and (last := await self._newest(chosen)):
            found.notices.append(Notice("newest", {"moment": last.isoformat(timespec="seconds")}))
        return found

    async def statuses(self, say: Callable[[Notice], str], tell: Tell) -> list[Status]:
        known = await asyncio.to_thread(groups, self._patterns)
        hits = await self._search(known, RECENT, "", tell)
        found: list[Status] = []
        for group, hit in zip(known, hits, strict=True):
            problem = " ".join(say(notice) for notice in hit.notices) or None
            errors = Counter(entry.service for entry in hit.entries)
            found += [
                Status(
                    name=name,
                    ok=problem is None,
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

    async def _search(self, chosen: Sequence[LogGroup], query: Query, service: str, tell: Tell) -> list[Hits]:
        """One after the other, in a thread; whoever no longer waits for it ends it."""
        now = datetime.now(UTC)
        end = await self._newest(chosen) or now if self._from_newest else now
        reader = Reader(Clock(self._zone, now))
        found: list[Hits] = []
        with self._window(end - query.period) as window:
            for count, group in enumerate(chosen, 1):
                found.append(await asyncio.to_thread(search, group, query, service, window, reader))
                await tell(count, len(chosen), Notice("file_read", {"name": group.name}))
        return found

    async def _newest(self, chosen: Sequence[LogGroup]) -> datetime | None:
        """The moment of the last entry of all."""
        reader = Reader(Clock(self._zone, datetime.now(UTC)))
        with self._window(DAWN) as window:
            last = [await asyncio.to_thread(newest, group, reader, window) for group in chosen]
        return max((moment for moment in last if moment), default=None)

    @contextmanager
    def _window(self, start: datetime) -> Generator[Window]:
        """From then on; what still reads when nobody waits any more is stopped."""
        stop = Event()
        try:
            # What is of the day after tomorrow has a wrong clock; a little ahead may anybody's be.
            end = datetime.now(UTC) + timedelta(days=1)
            yield Window(start, end, time.monotonic() + self._patience, stop)
        finally:
            stop.set()


def _merged(hits: Sequence[Hits], query: Query, service: str) -> Found:
    entries = [entry for hit in hits for entry in hit.entries]
    entries.sort(key=lambda entry: entry.timestamp, reverse=True)
    return Found(
        service=service,
        type=query.type_or(""),
        entries=entries[: query.limit],
        has_more=any(hit.has_more for hit in hits) or len(entries) > query.limit,
        notices=[notice for hit in hits for notice in hit.notices],
    )


def _services(names: Sequence[str]) -> list[Service]:
    return [Service(id=name, name=name) for name in dict.fromkeys(names)]
