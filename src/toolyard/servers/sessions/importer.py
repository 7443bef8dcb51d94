"""Imports conversations from files: reads only what is new since the last scan, and stores nothing twice.

The importer makes one scan of the folders; the watcher repeats it in a thread of its own.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Event, Thread
from typing import BinaryIO

from msgspec.structs import replace

from .formats.files import ConversationFile, ImportTally, files_in, is_binary, mark_of, opened, parts, whole
from .formats.parts import ConversationAddition, ConversationPart, ConversationTitle, WholeConversation
from .model import Conversation, ConversationOwner, moment
from .stores.changes import Bookmark
from .stores.script import ConversationStoreError
from .stores.store import ConversationStore

logger = logging.getLogger("toolyard.sessions")

_AT_ONCE = 500
"""Lines that are kept in one transaction."""
_PROGRESS_EVERY = 200
"""Files between two lines in the log."""


class ConversationImporter:
    """For one owner. Its event loop should be one that may wait: reading files and parsing happens in it."""

    def __init__(
        self,
        keeper: ConversationStore,
        owner: ConversationOwner,
        roots: Sequence[Path],
        stopping: Event | None = None,
    ) -> None:
        self._keeper = keeper
        self._owner = owner
        self._roots = roots
        self._stopping = stopping or Event()
        self._titles: list[ConversationTitle] = []

    async def look(self) -> ImportTally:
        """Read what is new in the files; what became of it. Ends early when it is told to stop."""
        tally = ImportTally()
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

    async def _read(self, found: ConversationFile, before: Bookmark | None, tally: ImportTally) -> None:
        own = ImportTally()
        try:
            with opened(found.path) as file:
                tally.read += 1
                await self._read_open(file, found, before, own)
        except OSError as error:
            own.unreadable += 1
            own.fault(f"{str(found.path)!r} cannot be read: {error.strerror}")
        _add_up(tally, own)

    async def _read_open(
        self, file: BinaryIO, found: ConversationFile, before: Bookmark | None, tally: ImportTally
    ) -> None:
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

    async def _read_lines(
        self, file: BinaryIO, found: ConversationFile, start: int, tally: ImportTally
    ) -> None:
        gathered: list[ConversationPart] = []
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

    async def _keep(
        self, gathered: Sequence[ConversationPart], found: ConversationFile, tally: ImportTally
    ) -> None:
        for part in _joined(gathered):
            if isinstance(part, ConversationAddition):
                tally.messages += await self._keeper.append(self._owner, _dated(part.session, found))
            elif isinstance(part, WholeConversation):
                tally.messages += await self._keeper.replace(self._owner, _dated(part.session, found))
            elif isinstance(part, ConversationTitle):
                self._titles.append(part)

    async def _mark(self, file: BinaryIO, found: ConversationFile, done: int) -> None:
        bookmark = Bookmark(found.size, found.changed, done, mark_of(file, done))
        await self._keeper.mark(self._owner, str(found.path), bookmark)

    async def _entitle(self) -> None:
        """At the end: the message that a title is for may be in a file that was read later."""
        for titled in self._titles:
            await self._keeper.entitle(self._owner, titled.message, titled.title)
        self._titles = []


def _is_as_it_was(file: ConversationFile, before: Bookmark | None) -> bool:
    return before is not None and (before.size, before.changed) == (file.size, file.changed)


def _goes_on(file: BinaryIO, found: ConversationFile, before: Bookmark) -> bool:
    """Whether a file is what it was, and perhaps more. One that was written anew is read from the start."""
    return found.size >= before.done and mark_of(file, before.done) == before.mark


def _joined(gathered: Sequence[ConversationPart]) -> list[ConversationPart]:
    """Neighbours that add to the same session as one: a transaction for each line would take long."""
    joined: list[ConversationPart] = []
    for part in gathered:
        last = joined[-1] if joined else None
        if (
            isinstance(part, ConversationAddition)
            and isinstance(last, ConversationAddition)
            and part.session.session_id == last.session.session_id
        ):
            joined[-1] = ConversationAddition(_sum(last.session, part.session))
        else:
            joined.append(part)
    return joined


def _sum(one: Conversation, more: Conversation) -> Conversation:
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


def _dated(session: Conversation, found: ConversationFile) -> Conversation:
    """One that has messages and says no time is as old as its file."""
    if session.updated_at or session.created_at or not session.messages:
        return session
    time = moment(found.changed / 1e9)
    return replace(session, created_at=time, updated_at=time)


def _add_up(tally: ImportTally, own: ImportTally) -> None:
    for name in ("lines", "messages", "broken", "unknown", "too_long", "binary", "unreadable"):
        setattr(tally, name, getattr(tally, name) + getattr(own, name))
    if own.first_fault:
        tally.fault(own.first_fault)


def _report(tally: ImportTally) -> None:
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


FIRST_SCAN_SECONDS = 2.0
"""Seconds from the start on in which an answer waits for the first look: most are over by then."""


class ImportWatcher:
    def __init__(
        self, keeper: ConversationStore, owner: ConversationOwner, roots: Sequence[Path], seconds: float
    ) -> None:
        self._keeper = keeper
        self._owner = owner
        self._roots = roots
        self._seconds = seconds
        self._stopping = Event()
        self._looked = Event()
        self._patient_until = 0.0
        self._thread = Thread(target=self._run, name="toolyard-sessions-import", daemon=True)

    async def has_looked(self) -> bool:
        """Whether all that was there at the start has been read. Who asks soon after it waits a little."""
        left = self._patient_until - time.monotonic()
        if left > 0 and not self._looked.is_set():
            await asyncio.to_thread(self._looked.wait, left)
        return self._looked.is_set()

    def start(self) -> None:
        self._patient_until = time.monotonic() + FIRST_SCAN_SECONDS
        self._thread.start()

    async def stop(self) -> None:
        """What is being written is finished first."""
        self._stopping.set()
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        asyncio.run(self._watch())

    async def _watch(self) -> None:
        keeper = self._keeper.elsewhere()
        importer = ConversationImporter(keeper, self._owner, self._roots, self._stopping)
        try:
            while not self._stopping.is_set():
                await self._look(importer)
                # Nothing else runs in this loop: it may as well stand still.
                self._stopping.wait(self._seconds)
        finally:
            await keeper.close()

    async def _look(self, importer: ConversationImporter) -> None:
        try:
            await importer.look()
            self._looked.set()
        except ConversationStoreError as error:
            logger.warning("conversations were not imported, another try follows: %s", error)
        except Exception:
            # A supervisor: one file that nobody thought of must not end the import of all others.
            logger.exception("conversations were not imported, another try follows")
