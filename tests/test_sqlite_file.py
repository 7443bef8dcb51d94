"""Files that several connections and processes use at once."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from tests.small_disks import on_small_blocks
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


FULL = """
import os, sqlite3, sys
from collections import Counter
from pathlib import Path
from toolyard.sqlite_file import connect

folder = Path(sys.argv[1])
for kind in ("WAL", "DELETE"):
    earlier = sqlite3.connect(folder / f"{kind}.db")
    earlier.execute(f"PRAGMA journal_mode = {kind}")
    earlier.execute("CREATE TABLE t (x)")
    earlier.close()


def leave(kilobytes):
    (folder / "fill").unlink(missing_ok=True)
    with open(folder / "fill", "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1024))
        except OSError:
            file.truncate(max(file.tell() - kilobytes * 1024, 0))


def visit(path):
    try:
        connection = connect(path, lambda one: one.execute("CREATE TABLE IF NOT EXISTS t (x)"), 0.0)
        connection.execute("INSERT INTO t VALUES (zeroblob(2000))")
        connection.close()
    except (sqlite3.Error, OSError):
        os._exit(3)
    os._exit(0)


ended = Counter()
for kilobytes in range(0, 50, 5):
    for name in ("WAL.db", "DELETE.db", "new.db"):
        for old in folder.glob("new.db*"):
            old.unlink()
        leave(kilobytes)
        child = os.fork()
        if not child:
            visit(folder / name)
        ended[os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])] += 1
print(*ended.elements())
"""


def test_a_disk_that_is_full_of_small_blocks_refuses_and_kills_nobody(tmp_path: Path):
    """Nothing backs a part of the memory that processes share beside a file then: who writes there dies."""
    disk = on_small_blocks(tmp_path / "disk", tmp_path / "image")
    done = subprocess.run(
        [*disk, sys.executable, "-c", FULL, str(tmp_path / "disk")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) == {"0", "3"}, "written or refused, and never ended by a signal"
