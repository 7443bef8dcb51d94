"""Imports conversations from files: reads only what is new since the last scan, and stores nothing twice.

The importer makes one scan of the folders; the watcher repeats it in a thread of its own.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Thread
from typing import BinaryIO

from msgspec.structs import replace

from .formats.files import (
    ConversationFile,
    ImportTally,
    files_in,
    is_binary,
    mark_of,
    open_file,
    parts,
    whole,
)
from .formats.parts import (
    ConversationAddition,
    ConversationPart,
    ConversationTitle,
    NothingKept,
    WholeConversation,
)
from .model import Conversation, ConversationOwner, moment
from .stores.changes import Bookmark
from .stores.script import ConversationStoreError
from .stores.store import ConversationStore

logger = logging.getLogger("toolyard.sessions")

_AT_ONCE = 500
"""Lines stored in one transaction."""
_PROGRESS_EVERY = 200
"""Files between two lines in the log."""


class ConversationImporter:
    """Imports for one owner. Reads and parses files in the event loop, so give it one of its own."""

    def __init__(
        self,
        store: ConversationStore,
        owner: ConversationOwner,
        roots: Sequence[Path],
        stopping: Event | None = None,
    ) -> None:
        self._store = store
        self._owner = owner
        self._roots = roots
        self._stopping = stopping or Event()
        self._titles: list[ConversationTitle] = []

    async def scan(self) -> ImportTally:
        """Reads what is new in the files; ends early if it has to stop."""
        tally = ImportTally()
        known = await self._store.bookmarks(self._owner)
        found = list({file.path: file for root in self._roots for file in files_in(root, tally)}.values())
        tally.files = len(found)
        changed = [file for file in found if not _is_unchanged(file, known.get(str(file.path)))]
        if len(changed) > _PROGRESS_EVERY:
            logger.info("reading %d of %d files", len(changed), len(found))
        for number, file in enumerate(changed):
            if self._stopping.is_set():
                break
            if number and number % _PROGRESS_EVERY == 0:
                logger.info("read %d of %d files, %d messages so far", number, len(changed), tally.messages)
            await self._read(file, known.get(str(file.path)), tally)
        await self._set_titles()
        _report(tally)
        return tally

    async def _read(self, found: ConversationFile, before: Bookmark | None, tally: ImportTally) -> None:
        own = ImportTally()
        try:
            with open_file(found.path) as file:
                tally.read += 1
                await self._read_open(file, found, before, own)
        except OSError as error:
            own.unreadable += 1
            own.fault(f"{str(found.path)!r} cannot be read: {error.strerror}")
        _add(tally, own)

    async def _read_open(
        self, file: BinaryIO, found: ConversationFile, before: Bookmark | None, tally: ImportTally
    ) -> None:
        place = str(found.path)
        if is_binary(file):
            tally.binary += 1
            tally.fault(f"{place!r} is not a text file")
            await self._mark(file, found, found.size)
            return
        one = whole(file, place, tally) if place.lower().endswith(".json") else None
        if one is not None:
            await self._keep(one, found, tally)
            await self._mark(file, found, found.size)
            return
        start = before.done if before and _is_continued(file, found, before) else 0
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
                # Without a size, so that the next scan reads on if this one ends here.
                await self._mark(file, found._replace(size=-1), done)
                if self._stopping.is_set():
                    return
        await self._keep(gathered, found, tally)
        await self._mark(file, found, done)

    async def _keep(
        self, gathered: Sequence[ConversationPart], found: ConversationFile, tally: ImportTally
    ) -> None:
        for part in _joined(gathered):
            match part:
                case ConversationAddition(conversation):
                    tally.messages += await self._store.append(self._owner, _dated(conversation, found))
                case WholeConversation(conversation):
                    tally.messages += await self._store.replace(self._owner, _dated(conversation, found))
                case ConversationTitle():
                    self._titles.append(part)
                case NothingKept():
                    pass

    async def _mark(self, file: BinaryIO, found: ConversationFile, done: int) -> None:
        bookmark = Bookmark(found.size, found.changed, done, mark_of(file, done))
        await self._store.mark(self._owner, str(found.path), bookmark)

    async def _set_titles(self) -> None:
        """Runs last: the message that a title belongs to may be in a later file."""
        for titled in self._titles:
            await self._store.set_title(self._owner, titled.message, titled.title)
        self._titles = []


def _is_unchanged(file: ConversationFile, before: Bookmark | None) -> bool:
    return before is not None and (before.size, before.changed) == (file.size, file.changed)


def _is_continued(file: BinaryIO, found: ConversationFile, before: Bookmark) -> bool:
    """Whether a file was only appended to; a rewritten one is read from the start."""
    return found.size >= before.done and mark_of(file, before.done) == before.mark


def _joined(gathered: Sequence[ConversationPart]) -> list[ConversationPart]:
    """Joins neighbouring additions to the same conversation, to save transactions."""
    joined: list[ConversationPart] = []
    for part in gathered:
        last = joined[-1] if joined else None
        if (
            isinstance(part, ConversationAddition)
            and isinstance(last, ConversationAddition)
            and part.conversation.session_id == last.conversation.session_id
        ):
            joined[-1] = ConversationAddition(_sum(last.conversation, part.conversation))
        else:
            joined.append(part)
    return joined


def _sum(one: Conversation, more: Conversation) -> Conversation:
    better = more.title and more.title_source >= one.title_source
    return replace(
        one,
        title=more.title if better else one.title,
        title_source=more.title_source if better else one.title_source,
        created_at=min(filter(None, (one.created_at, more.created_at)), default=""),
        updated_at=max(one.updated_at, more.updated_at),
        cost_usd=one.cost_usd if more.cost_usd is None else more.cost_usd,
        summary=more.summary or one.summary,
        messages=(*one.messages, *more.messages),
    )


def _dated(conversation: Conversation, found: ConversationFile) -> Conversation:
    """Gives a conversation without times the time of its file."""
    if conversation.updated_at or conversation.created_at or not conversation.messages:
        return conversation
    time = moment(found.changed / 1e9)
    return replace(conversation, created_at=time, updated_at=time)


def _add(tally: ImportTally, own: ImportTally) -> None:
    for name in ("lines", "messages", "broken", "unknown", "too_long", "binary", "unreadable"):
        setattr(tally, name, getattr(tally, name) + getattr(own, name))
    if own.first_fault:
        tally.fault(own.first_fault)


def _report(tally: ImportTally) -> None:
    if tally.read:
        logger.info(
            "%d of %d files had new content: %d messages in %d lines",
            *(tally.read, tally.files, tally.messages, tally.lines),
        )
    counts = {
        "broken lines": tally.broken,
        "lines in an unknown form": tally.unknown,
        "lines too long": tally.too_long,
        "files that are not text": tally.binary,
        "links not followed": tally.links,
        "places that cannot be read": tally.unreadable,
    }
    skipped = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
    if skipped and (tally.read or tally.unreadable):
        logger.warning("skipped: %s; first: %s", skipped, tally.first_fault or "a link")


FIRST_SCAN_SECONDS = 2.0
"""Seconds after the start in which an answer waits for the first scan; most scans end within them."""


class ImportWatcher:
    def __init__(
        self, store: ConversationStore, owner: ConversationOwner, roots: Sequence[Path], seconds: float
    ) -> None:
        self._store = store
        self._owner = owner
        self._roots = roots
        self._seconds = seconds
        self._stopping = Event()
        self._scanned = Event()
        self._wait_until = 0.0
        self._thread = Thread(target=self._run, name="toolyard-sessions-import", daemon=True)

    async def first_scan_done(self) -> bool:
        """Whether the files have been read once. Soon after the start it waits a little for that."""
        left = self._wait_until - time.monotonic()
        if left > 0 and not self._scanned.is_set():
            await asyncio.to_thread(self._scanned.wait, left)
        return self._scanned.is_set()

    def start(self) -> None:
        self._wait_until = time.monotonic() + FIRST_SCAN_SECONDS
        self._thread.start()

    async def stop(self) -> None:
        """Finishes the current write first."""
        self._stopping.set()
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        asyncio.run(self._watch())

    async def _watch(self) -> None:
        store = self._store.for_thread()
        importer = ConversationImporter(store, self._owner, self._roots, self._stopping)
        try:
            while not self._stopping.is_set():
                await self._scan(importer)
                # Nothing else runs in this loop, so it may block.
                self._stopping.wait(self._seconds)
        finally:
            await store.close()

    async def _scan(self, importer: ConversationImporter) -> None:
        try:
            await importer.scan()
            self._scanned.set()
        except ConversationStoreError as error:
            logger.warning("importing conversations failed, will retry: %s", error)
        except Exception:
            if _interpreter_ends():
                return  # the next process goes on here
            # One unexpected file must not end the import of all others.
            logger.exception("importing conversations failed, will retry")


def _interpreter_ends() -> bool:
    """Whether Python starts no more work in threads. Until it ends itself, only a try can tell."""
    try:
        with ThreadPoolExecutor(1) as threads:
            threads.submit(int)
    except RuntimeError:
        return True
    return False
