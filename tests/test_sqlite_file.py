"""Files that several connections and processes use at once."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from toolyard.sqlite_file import connect

VISIT = """
import sqlite3, sys
visitor = sqlite3.connect(sys.argv[1])
visitor.execute("SELECT * FROM t").fetchall()
visitor.close()
"""


def _prepare(connection: sqlite3.Connection) -> None:
    connection.execute("CREATE TABLE IF NOT EXISTS t (x)")


def test_a_second_connection_leaves_the_locks_of_the_first(tmp_path: Path):
    """Else a process that comes and goes takes the log away, and the file is damaged."""
    path = tmp_path / "a.db"
    with closing(connect(path, _prepare, 5.0)) as first, closing(connect(path, _prepare, 5.0)):
        first.execute("INSERT INTO t VALUES (1)")
        subprocess.run([sys.executable, "-c", VISIT, str(path)], check=True)
        assert path.with_name("a.db-wal").exists()
        first.execute("INSERT INTO t VALUES (2)")
    with closing(connect(path, _prepare, 5.0)) as after:
        assert after.execute("SELECT x FROM t").fetchall() == [(1,), (2,)]
        assert after.execute("PRAGMA integrity_check").fetchone() == ("ok",)
