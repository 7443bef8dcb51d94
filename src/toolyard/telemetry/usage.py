"""Counts the bytes received from tools and sent to models, by day, tenant, agent, server and tool.

Counts in memory and adds the counts to a small SQLite file, which several processes and configurations
can share.
"""

import sqlite3
import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from .metrics import tokens

MAX_OPEN = 10_000
"""Rows that are counted between two writes; the calls of any further row count as `other`."""
KEPT_DAYS = 400

_TABLE = """
CREATE TABLE IF NOT EXISTS counted (
  config TEXT, day TEXT, tenant TEXT, agent TEXT, server TEXT, tool TEXT,
  calls INTEGER, came INTEGER, went INTEGER,
  PRIMARY KEY (config, day, tenant, agent, server, tool)
) WITHOUT ROWID
"""
_OLD_TABLE = "ledger"
"""The table of earlier versions, which has no column for the configuration."""
_ADD = """
INSERT INTO counted VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE
SET calls = calls + excluded.calls, came = came + excluded.came, went = went + excluded.went
"""
UsageKey = tuple[str, str, str, str]
"""Tenant, agent, server, tool."""
Counts = dict[UsageKey, list[int]]
"""Calls, bytes received from tools, bytes sent to clients."""


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


class UsageLedger:
    """`config` identifies the configuration that is counted, as in `usage_rows`."""

    def __init__(self, folder: Path | None, config: str = "") -> None:
        self._file = None if folder is None else folder / "ledger.db"
        self._config = config
        self._open: Counts = {}

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

    def write(self, taken: Counts) -> None:
        """Add the counts to the file. Blocks; call it in a thread."""
        assert self._file is not None
        now = time.time()
        self._file.parent.mkdir(0o700, parents=True, exist_ok=True)
        with closing(_connected(self._file)) as file, file:
            file.execute(_TABLE)
            today, oldest = _day(now), _day(now - KEPT_DAYS * 86_400)
            file.executemany(_ADD, [(self._config, today, *key, *counts) for key, counts in taken.items()])
            for table in _tables(file):
                file.execute(f"DELETE FROM {table} WHERE day < ?", [oldest])


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))


def _connected(file: Path) -> sqlite3.Connection:
    found = sqlite3.connect(file, timeout=10)
    file.chmod(0o600)
    found.execute("PRAGMA journal_mode = WAL")
    return found


def _tables(file: sqlite3.Connection) -> list[str]:
    found = file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    return [name for (name,) in found if name in ("counted", _OLD_TABLE)]


GROUPS = ("tool", "server", "agent", "tenant", "day", "config")


def usage_rows(folder: Path, by: str, days: int, config: str | None = None) -> list[UsageRow]:
    """The sums of the last days, grouped by one of GROUPS, largest first; of one configuration, or of all."""
    if by not in GROUPS:
        raise ValueError(f"cannot group by {by!r}")
    file = folder / "ledger.db"
    if not file.exists():
        return []
    first = _day(time.time() - (days - 1) * 86_400)
    columns = "day, tenant, agent, server, tool, calls, came, went"
    with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True, timeout=10)) as opened:
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
