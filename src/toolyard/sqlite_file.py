"""SQLite files of our own: private to this user, shared by several processes, used from one thread.

Owns opening, the thread, and what went wrong in plain words. Owns no tables: each store prepares its own.
"""

import asyncio
import errno
import logging
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias, TypeVar

from .file_access import FileFault, explain, refusal

logger = logging.getLogger("toolyard")

T = TypeVar("T")
SqliteFileError: TypeAlias = sqlite3.Error | OSError


class SqliteThread:
    """One database, used in a thread of its own, so that a slow disk does not block the event loop.

    Opens it at the first use. After an error a file is closed, and the next use opens it again.
    """

    def __init__(
        self,
        path: Path | None,
        prepare: Callable[[sqlite3.Connection], object],
        translate_error: Callable[[SqliteFileError], Exception],
        *,
        busy_seconds: float,
        name: str,
    ) -> None:
        """Without a path the database is in memory. `prepare` makes the tables.

        `busy_seconds` is how long a statement waits for another process that writes; `name` is the thread's.
        """
        self._path = path
        self._prepare = prepare
        self._translate_error = translate_error
        self._busy_seconds = busy_seconds
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._connection: sqlite3.Connection | None = None

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._run, work)

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._disconnect)
        self._thread.shutdown(wait=False)

    def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            if self._connection is None:
                self._connection = connect(self._path, self._prepare, self._busy_seconds)
            return work(self._connection)
        except (sqlite3.Error, OSError) as error:
            if self._path is not None:  # closing a database in memory would lose it
                self._disconnect()
            raise self._translate_error(error) from None

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


@contextmanager
def transaction(connection: sqlite3.Connection, begin: str = "BEGIN IMMEDIATE") -> Generator[None]:
    connection.execute(begin)
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # some errors have rolled it back already
            connection.execute("ROLLBACK")
        raise


_REASONS = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: "the disk cannot be read or written; it may be full",
    sqlite3.SQLITE_READONLY: "the file is read-only",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened",
    sqlite3.SQLITE_PERM: "the file cannot be opened",
    sqlite3.SQLITE_NOTADB: "the file is not a database",
    sqlite3.SQLITE_CORRUPT: "the file is damaged",
    sqlite3.SQLITE_BUSY: "another process holds the write lock",
    sqlite3.SQLITE_LOCKED: "another process holds the write lock",
}


def explain_fault(error: SqliteFileError, path: Path) -> FileFault:
    """Say why a file cannot be used, for whoever runs this process."""
    if isinstance(error, OSError):
        return explain(error, path)
    if (found := refusal(path)) is not None:
        return found
    return FileFault(f"{reason(error, None)} ({error})", "is it on a local disk, with room?")


def reason(error: SqliteFileError, path: Path | None) -> str:
    """Say why a file cannot be used, for callers of a tool. The path goes to the log only."""
    if path is not None:
        logger.warning("cannot use the database %s: %s", path, explain_fault(error, path))
    if isinstance(error, OSError):
        return "the disk is full" if error.errno == errno.ENOSPC else error.strerror or "it cannot be reached"
    # Python before 3.12 sets no code on some errors, such as a closed connection.
    code = getattr(error, "sqlite_errorcode", None)
    return "it cannot be used" if code is None else _REASONS.get(code & 0xFF, "it cannot be used")


def connect(
    path: Path | None, prepare: Callable[[sqlite3.Connection], object], busy_seconds: float
) -> sqlite3.Connection:
    """Open a connection that begins no transactions by itself."""
    if path is not None:
        _create(path)
    connection = sqlite3.connect(path or ":memory:", timeout=busy_seconds, isolation_level=None)
    try:
        if path is not None and _has_small_blocks(path):
            _leave_wal(connection, busy_seconds)
        else:
            _use_wal(connection, busy_seconds)
        # With WAL this is safe if the process is killed; a power cut may lose the last writes, not the file.
        connection.execute("PRAGMA synchronous = NORMAL")
        prepare(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _create(path: Path) -> None:
    """Create the file for this user only. SQLite gives the files beside it the same mode."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Never open a file that is there: closing it would end the locks that other connections of this process
    # have on it, and another process would then delete the log that they still write to.
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
        logger.warning("%s is readable by other users; hint: chmod 600 it", path)


def _use_wal(connection: sqlite3.Connection, busy_seconds: float) -> None:
    # Switching to WAL does not wait for a lock as other statements do, and processes may start together.
    deadline = time.monotonic() + busy_seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if not _is_locked(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _is_locked(error: sqlite3.OperationalError) -> bool:
    # Python before 3.12 sets no code on some errors.
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_BUSY) & 0xFF == sqlite3.SQLITE_BUSY


_SHARED_PAGE = 4096
"""Of the memory that processes with one WAL share in a file, SQLite has one byte a page put on the disk."""


def _has_small_blocks(path: Path) -> bool:
    """Whether a page of that memory may have parts without a place on the disk, as on a small ext4.

    Writing there when the disk is full ends the process by SIGBUS.
    """
    return hasattr(os, "statvfs") and os.statvfs(path).f_bsize < _SHARED_PAGE


def _leave_wal(connection: sqlite3.Connection, busy_seconds: float) -> None:
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")  # then a file that still has a WAL shares no memory
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        connection.execute("PRAGMA journal_mode = TRUNCATE")
    except sqlite3.OperationalError as error:
        if not _is_locked(error):
            raise
        # Others have it open, so it stays as they have it: what they share is on the disk.
    connection.execute(f"PRAGMA busy_timeout = {int(busy_seconds * 1000)}")
    connection.execute("PRAGMA locking_mode = NORMAL")
    connection.execute("SELECT 1 FROM sqlite_master").fetchone()  # reading is what gives the lock back
