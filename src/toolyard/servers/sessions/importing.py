"""Bringing in conversations from files: what is new in them since the last time, and nothing twice.

Owns one look through the folders and what is remembered of each file. When to look is `watching.py`'s.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from typing import BinaryIO

from msgspec.structs import replace

from .model import Owner, Session, moment
from .reading.files import Found, Tally, files_in, is_binary, mark_of, opened, parts, whole
from .reading.parts import More, Part, Titled, Whole
from .stores.bookmarks import Bookmark
from .stores.keeper import Keeper

logger = logging.getLogger("toolyard.sessions")

_AT_ONCE = 500
"""Lines that are kept in one transaction."""
_PROGRESS_EVERY = 200
"""Files between two lines in the log."""


class Importer:
    """For one owner. Its event loop should be one that may wait: reading files and parsing happens in it."""

    def __init__(
        self, keeper: Keeper, owner: Owner, roots: Sequence[Path], stopping: Event | None = None
    ) -> None:
        self._keeper = keeper
        self._owner = owner
        self._roots = roots
        self._stopping = stopping or Event()
        self._titles: list[Titled] = []

    async def look(self) -> Tally:
        """Read what is new in the files; what became of it. Ends early when it is told to stop."""
        tally = Tally()
        known = await self._keeper.bookmarks(self._owner)
        found = list({file.path: file for root in self._roots for file in files_in(root, tally)}.values())
        tally.files = len(found)
        changed = [file for file in found if not _is_as_it_was(file, known.get(str(file.path)))]
        if len(changed) > _PROGRESS_EVERY:
            logger.info("reading %d of %d files", len(changed), len(found))
        for number, file in enumerate(changed):
            if self._stopping.is_set():
                break
            if number and number % _PROGRESS_EVERY == 0:
                logger.info("read %d of %d files, %d messages so far", number, len(changed), tally.messages)
            await self._read(file, known.get(str(file.path)), tally)
        await self._entitle()
        _report(tally)
        return tally

    async def _read(self, found: Found, before: Bookmark | None, tally: Tally) -> None:
        own = Tally()
        try:
            with opened(found.path) as file:
                tally.read += 1
                await self._read_open(file, found, before, own)
        except OSError as error:
            own.unreadable += 1
            own.fault(f"{str(found.path)!r} cannot be read: {error.strerror}")
        _add_up(tally, own)

    async def _read_open(self, file: BinaryIO, found: Found, before: Bookmark | None, tally: Tally) -> None:
        place = str(found.path)
        if is_binary(file):
            tally.binary += 1
            tally.fault(f"{place!r} is no text")
            await self._mark(file, found, found.size)
            return
        one = whole(file, place, tally) if place.lower().endswith(".json") else None
        if one is not None:
            await self._keep(one, found, tally)
            await self._mark(file, found, found.size)
            return
        start = before.done if before and _goes_on(file, found, before) else 0
        await self._read_lines(file, found, start, tally)

    async def _read_lines(self, file: BinaryIO, found: Found, start: int, tally: Tally) -> None:
        gathered: list[Part] = []
        done = start
        for read, (done, part) in enumerate(parts(file, start, str(found.path), tally), start=1):
            gathered += [part] if part is not None else []
            if read % _AT_ONCE == 0:
                await self._keep(gathered, found, tally)
                gathered = []
                # Of no size: the next look must not take it for unchanged if this one ends here.
                await self._mark(file, found._replace(size=-1), done)
                if self._stopping.is_set():
                    return
        await self._keep(gathered, found, tally)
        await self._mark(file, found, done)

    async def _keep(self, gathered: Sequence[Part], found: Found, tally: Tally) -> None:
        for part in _joined(gathered):
            if isinstance(part, More):
                tally.messages += await self._keeper.append(self._owner, _dated(part.session, found))
            elif isinstance(part, Whole):
                tally.messages += await self._keeper.replace(self._owner, _dated(part.session, found))
            elif isinstance(part, Titled):
                self._titles.append(part)

    async def _mark(self, file: BinaryIO, found: Found, done: int) -> None:
        bookmark = Bookmark(found.size, found.changed, done, mark_of(file, done))
        await self._keeper.mark(self._owner, str(found.path), bookmark)

    async def _entitle(self) -> None:
        """At the end: the message that a title is for may be in a file that was read later."""
        for titled in self._titles:
            await self._keeper.entitle(self._owner, titled.message, titled.title)
        self._titles = []


def _is_as_it_was(file: Found, before: Bookmark | None) -> bool:
    return before is not None and (before.size, before.changed) == (file.size, file.changed)


def _goes_on(file: BinaryIO, found: Found, before: Bookmark) -> bool:
    """Whether a file is what it was, and perhaps more. One that was written anew is read from the start."""
    return found.size >= before.done and mark_of(file, before.done) == before.mark


def _joined(gathered: Sequence[Part]) -> list[Part]:
    """Neighbours that add to the same session as one: a transaction for each line would take long."""
    joined: list[Part] = []
    for part in gathered:
        last = joined[-1] if joined else None
        if (
            isinstance(part, More)
            and isinstance(last, More)
            and part.session.session_id == last.session.session_id
        ):
            joined[-1] = More(_sum(last.session, part.session))
        else:
            joined.append(part)
    return joined


def _sum(one: Session, more: Session) -> Session:
    better = more.title and more.named >= one.named
    return replace(
        one,
        title=more.title if better else one.title,
        named=more.named if better else one.named,
        created_at=min(filter(None, (one.created_at, more.created_at)), default=""),
        updated_at=max(one.updated_at, more.updated_at),
        cost_usd=one.cost_usd if more.cost_usd is None else more.cost_usd,
        summary=more.summary or one.summary,
        messages=(*one.messages, *more.messages),
    )


def _dated(session: Session, found: Found) -> Session:
    """One that has messages and says no time is as old as its file."""
    if session.updated_at or session.created_at or not session.messages:
        return session
    time = moment(found.changed / 1e9)
    return replace(session, created_at=time, updated_at=time)


def _add_up(tally: Tally, own: Tally) -> None:
    for name in ("lines", "messages", "broken", "unknown", "too_long", "binary", "unreadable"):
        setattr(tally, name, getattr(tally, name) + getattr(own, name))
    if own.first_fault:
        tally.fault(own.first_fault)


def _report(tally: Tally) -> None:
    if tally.read:
        logger.info(
            "%d of %d files had something new: %d messages in %d lines",
            *(tally.read, tally.files, tally.messages, tally.lines),
        )
    counts = {
        "broken lines": tally.broken,
        "lines in an unknown form": tally.unknown,
        "lines too long": tally.too_long,
        "files that are no text": tally.binary,
        "links not followed": tally.links,
        "places that cannot be read": tally.unreadable,
    }
    passed_over = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    if passed_over and (tally.read or tally.unreadable):
        logger.warning("passed over: %s; the first: %s", passed_over, tally.first_fault or "a link")
