"""How much came from tools and how much went to models, by day, tenant, agent, server and tool.

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

MOST_OPEN = 10_000
"""Different rows that are counted between two writes; what is beyond them counts as `other`."""
KEPT_DAYS = 400

_TABLE = """
CREATE TABLE IF NOT EXISTS counted (
  config TEXT, day TEXT, tenant TEXT, agent TEXT, server TEXT, tool TEXT,
  calls INTEGER, came INTEGER, went INTEGER,
  PRIMARY KEY (config, day, tenant, agent, server, tool)
) WITHOUT ROWID
"""
_OLD_TABLE = "ledger"
"""The table of earlier versions, which do not say of which configuration a row is."""
_ADD = """
INSERT INTO counted VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE
SET calls = calls + excluded.calls, came = came + excluded.came, went = went + excluded.went
"""
Who = tuple[str, str, str, str]
"""Tenant, agent, server, tool."""
Counts = dict[Who, list[int]]
"""Calls, bytes that came, bytes that went on."""


class UsageRow(Struct, frozen=True):
    """What one group of results came to."""

    name: str
    calls: int
    came: int
    went: int

    @property
    def tokens_came(self) -> int:
        return tokens(self.came)

    @property
    def tokens_went(self) -> int:
        return tokens(self.went)


class UsageLedger:
    """`config` names the configuration that is counted for, as `rows` is asked for it."""

    def __init__(self, folder: Path | None, config: str = "") -> None:
        self._file = None if folder is None else folder / "ledger.db"
        self._config = config
        self._open: Counts = {}
        self.totals: dict[str, list[int]] = {}
        """By server: the bytes received and sent since the start, for the metrics."""

    def note(self, tenant: str, agent: str, server: str, tool: str, received: int, sent: int) -> None:
        who = (tenant, agent, server, tool)
        counts = self._open.get(who)
        if counts is None:
            if len(self._open) >= MOST_OPEN:
                who = (tenant, "", server, "other")
            counts = self._open.setdefault(who, [0, 0, 0])
        counts[0] += 1
        counts[1] += received
        counts[2] += sent
        total = self.totals.get(server)
        if total is None:
            total = self.totals[server] = [0, 0]
        total[0] += received
        total[1] += sent

    def forget(self, server: str) -> None:
        """A server left the configuration; its totals begin anew if it returns."""
        self.totals.pop(server, None)

    def take(self) -> Counts | None:
        """What was counted since it was last taken, to be written; None when there is nothing to write."""
        if self._file is None or not self._open:
            return None
        taken, self._open = self._open, {}
        return taken

    def put_back(self, taken: Counts) -> None:
        """It could not be written, and is counted on."""
        for who, counts in taken.items():
            kept = self._open.setdefault(who, [0, 0, 0])
            for at, count in enumerate(counts):
                kept[at] += count

    def write(self, taken: Counts) -> None:
        """Add what was taken to the file; for a thread."""
        assert self._file is not None
        now = time.time()
        self._file.parent.mkdir(0o700, parents=True, exist_ok=True)
        with closing(_connected(self._file)) as file, file:
            file.execute(_TABLE)
            today, oldest = _day(now), _day(now - KEPT_DAYS * 86_400)
            file.executemany(_ADD, [(self._config, today, *who, *counts) for who, counts in taken.items()])
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


def rows(folder: Path, by: str, days: int, config: str | None = None) -> list[UsageRow]:
    """What the last days came to, grouped by one of GROUPS, biggest first; of one configuration, or all."""
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
        return [UsageRow(name or "(none)", calls, came, went) for name, calls, came, went in found]
