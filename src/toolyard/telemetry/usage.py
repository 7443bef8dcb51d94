"""Counts the bytes received from tools and sent to models, and the events of `events`, by day.

Counts in memory and adds the counts to a small SQLite file, which several processes and configurations
can share.
"""

import sqlite3
import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from ..file_access import FileFault, is_missing
from ..sqlite_file import SqliteFileError, connect, explain_fault, transaction
from .events import EVENTS, Event, EventKey
from .metrics import tokens

MAX_OPEN = 10_000
"""Rows that are counted between two writes; the calls of any further row count as `other`."""
KEPT_DAYS = 400
BUSY_SECONDS = 10.0

_TABLE = """
CREATE TABLE IF NOT EXISTS counted (
  config TEXT, day TEXT, tenant TEXT, agent TEXT, server TEXT, tool TEXT,
  calls INTEGER, came INTEGER, went INTEGER,
  PRIMARY KEY (config, day, tenant, agent, server, tool)
) WITHOUT ROWID
"""
_EVENT_TABLE = """
CREATE TABLE IF NOT EXISTS events (
  config TEXT, day TEXT, event TEXT, server TEXT, reason TEXT,
  count INTEGER, before INTEGER, after INTEGER,
  PRIMARY KEY (config, day, event, server, reason)
) WITHOUT ROWID
"""
_OLD_TABLE = "ledger"
"""The table of earlier versions, which has no column for the configuration."""
_ADD = """
INSERT INTO counted VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE
SET calls = calls + excluded.calls, came = came + excluded.came, went = went + excluded.went
"""
_ADD_EVENT = """
INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE
SET count = count + excluded.count, before = before + excluded.before, after = after + excluded.after
"""
UsageKey = tuple[str, str, str, str]
"""Tenant, agent, server, tool."""
Counts = dict[UsageKey | EventKey, list[int]]
"""Calls or events, and bytes before and after: received from tools and sent to clients, say."""


class UsageRow(Struct, frozen=True):
    """The sums of one group of results."""

    name: str
    calls: int
    received: int
    sent: int

    @property
    def tokens_received(self) -> int:
        return tokens(self.received)

    @property
    def tokens_sent(self) -> int:
        return tokens(self.sent)


class EventRow(Struct, frozen=True):
    """The sums of one kind of event."""

    event: str
    server: str
    reason: str
    count: int
    sizes: dict[str, int]
    """By the names that its class declares."""


class UsageLedger:
    """`config` identifies the configuration that is counted, as in `usage_rows`."""

    def __init__(self, folder: Path | None, config: str = "") -> None:
        self._file = None if folder is None else folder / "ledger.db"
        self._config = config
        self._open: Counts = {}
        self.totals: dict[str, list[int]] = {}
        """By server: the bytes received and sent since the start, for the metrics."""

    def add(self, tenant: str, agent: str, server: str, tool: str, received: int, sent: int) -> None:
        key = (tenant, agent, server, tool)
        counts = self._open.get(key)
        if counts is None:
            if len(self._open) >= MAX_OPEN:
                key = (tenant, "", server, "other")
            counts = self._open.setdefault(key, [0, 0, 0])
        counts[0] += 1
        counts[1] += received
        counts[2] += sent
        total = self.totals.get(server)
        if total is None:
            total = self.totals[server] = [0, 0]
        total[0] += received
        total[1] += sent

    def count(self, event: Event) -> None:
        counts = self._open.setdefault(event.key, [0, 0, 0])
        for position, count in enumerate((1, *event.size_values)):
            counts[position] += count

    def forget(self, server: str) -> None:
        """A server left the configuration; its totals begin anew if it returns."""
        self.totals.pop(server, None)

    def take(self) -> Counts | None:
        """Return the counts since the last `take`, to be written; None if there is nothing to write."""
        if self._file is None or not self._open:
            return None
        taken, self._open = self._open, {}
        return taken

    def restore(self, taken: Counts) -> None:
        """Count again what could not be written."""
        for key, counts in taken.items():
            kept = self._open.setdefault(key, [0, 0, 0])
            for position, count in enumerate(counts):
                kept[position] += count

    def explain(self, error: SqliteFileError) -> FileFault:
        """Why `write` failed."""
        assert self._file is not None
        return explain_fault(error, self._file)

    def write(self, taken: Counts) -> None:
        """Add the counts to the file. Blocks; call it in a thread."""
        assert self._file is not None
        now = time.time()
        with closing(connect(self._file, _make_table, BUSY_SECONDS)) as file, transaction(file):
            today, oldest = _day(now), _day(now - KEPT_DAYS * 86_400)
            for key, counts in taken.items():
                add = _ADD_EVENT if isinstance(key, EventKey) else _ADD
                file.execute(add, (self._config, today, *key, *counts))
            for table in ("events", *_tables(file)):
                file.execute(f"DELETE FROM {table} WHERE day < ?", [oldest])


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))


def _make_table(file: sqlite3.Connection) -> None:
    file.execute(_TABLE)
    file.execute(_EVENT_TABLE)


def _tables(file: sqlite3.Connection) -> list[str]:
    found = file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    return [name for (name,) in found if name in ("counted", _OLD_TABLE)]


def _reading(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True, timeout=BUSY_SECONDS)


GROUPS = ("tool", "server", "agent", "tenant", "day", "config")


def usage_rows(folder: Path, by: str, days: int, config: str | None = None) -> list[UsageRow]:
    """The sums of the last days, grouped by one of GROUPS, largest first; of one configuration, or of all."""
    if by not in GROUPS:
        raise ValueError(f"cannot group by {by!r}")
    file = folder / "ledger.db"
    if is_missing(file):
        return []
    first = _day(time.time() - (days - 1) * 86_400)
    columns = "day, tenant, agent, server, tool, calls, came, went"
    with closing(_reading(file)) as opened:
        parts = [
            f"SELECT {'config' if table == 'counted' else repr('')} AS config, {columns} FROM {table}"
            for table in _tables(opened)
        ]
        if not parts:
            return []
        query = (
            f"SELECT {by}, SUM(calls), SUM(came), SUM(went) FROM ({' UNION ALL '.join(parts)}) "
            f"WHERE day >= ?{'' if config is None else ' AND config = ?'} "
            f"GROUP BY {by} ORDER BY {'day' if by == 'day' else 'SUM(came) DESC'}"
        )
        wanted = [first] if config is None else [first, config]
        found: Iterable[tuple[str, int, int, int]] = opened.execute(query, wanted)
        return [UsageRow(name or "(none)", *sums) for name, *sums in found]


def event_rows(folder: Path, days: int, config: str | None = None) -> list[EventRow]:
    """The events of the last days, in the order of their declaration; of one configuration, or of all."""
    file = folder / "ledger.db"
    if is_missing(file):
        return []
    with closing(_reading(file)) as opened:
        if not opened.execute("SELECT 1 FROM sqlite_master WHERE name = 'events'").fetchone():
            return []  # written by an earlier version
        query = (
            "SELECT event, server, reason, SUM(count), SUM(before), SUM(after) FROM events "
            f"WHERE day >= ?{'' if config is None else ' AND config = ?'} GROUP BY event, server, reason"
        )
        first = _day(time.time() - (days - 1) * 86_400)
        found = opened.execute(query, [first] if config is None else [first, config]).fetchall()
    declared = {kind.name: kind for kind in EVENTS}
    order = list(declared)
    return [
        EventRow(event, server, reason, count, dict(zip(declared[event].sizes, sizes, strict=False)))
        for event, server, reason, count, *sizes in sorted(
            (row for row in found if row[0] in declared), key=lambda row: (order.index(row[0]), row[1:3])
        )
    ]
