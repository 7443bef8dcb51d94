"""SQLite files of our own: private, and shared by as many processes as like."""

import errno
import logging
import os
import sqlite3
import stat
import time
from collections.abc import Callable
from pathlib import Path

logger = logging.getLogger("toolyard")


def connect(
    path: Path | None,
    prepare: Callable[[sqlite3.Connection], object],
    *,
    busy_seconds: float,
    one_thread: bool = True,
) -> sqlite3.Connection:
    """A connection that begins no transactions by itself; `prepare` makes the tables. None: in memory.

    `busy_seconds` is how long a statement waits for others who write.
    """
    if path is not None:
        _make(path)
    connection = sqlite3.connect(
        path or ":memory:", timeout=busy_seconds, isolation_level=None, check_same_thread=one_thread
    )
    try:
        _use_wal(connection, busy_seconds)
        prepare(connection)
    except BaseException:
        connection.close()
        raise
    return connection


_REASONS = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: "the disk cannot be written to or read; it may be full",
    sqlite3.SQLITE_READONLY: "it may be read and not written",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened",
    sqlite3.SQLITE_PERM: "the file cannot be opened",
    sqlite3.SQLITE_NOTADB: "the file is no database",
    sqlite3.SQLITE_CORRUPT: "the file is damaged",
    sqlite3.SQLITE_BUSY: "somebody else is writing to it and does not end",
    sqlite3.SQLITE_LOCKED: "somebody else is writing to it and does not end",
}


def reason(error: sqlite3.Error | OSError, path: Path | None) -> str:
    """Why a file cannot be used, for those who call a tool: where it lies is for the log."""
    if path is not None:
        logger.warning("the database %s cannot be used: %s", path, error)
    if isinstance(error, OSError):
        return "the disk is full" if error.errno == errno.ENOSPC else error.strerror or "it cannot be reached"
    # Python before 3.12 gives some errors no code, as of a connection that is closed.
    code = getattr(error, "sqlite_errorcode", None)
    return "it cannot be used" if code is None else _REASONS.get(code & 0xFF, "it cannot be used")


def _make(path: Path) -> None:
    """SQLite gives its other files the mode of the first one."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    if os.name == "posix" and stat.S_IMODE(path.stat().st_mode) & 0o077:
        logger.warning("others can read what is kept in %s; hint: chmod 600 it", path)


def _use_wal(connection: sqlite3.Connection, busy_seconds: float) -> None:
    # Going over to WAL does not wait for others as everything else does, and processes may start together.
    deadline = time.monotonic() + busy_seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    # With WAL this is safe against a killed process; a power cut may cost the last writes, not the file.
    connection.execute("PRAGMA synchronous = NORMAL")
