"""A disk with no room left: who calls a tool is told so, without where anything lies."""

import json
import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.faults.yard import ROOT
from toolyard.sqlite_file import reason

# No file of this process may grow beyond so many bytes: what SQLite then meets is what a full disk does.
CHILD = """
import asyncio, json, logging, resource, sys
from toolyard import Client
from toolyard.kit import Identity, Principal
from toolyard.kit.loader import load

module, url, most, calls = sys.argv[1], sys.argv[2], int(sys.argv[3]), json.load(sys.stdin)
logging.basicConfig(stream=sys.stderr)
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

async def main():
    server = load(module, options={"url": url})
    said = []
    async with Client(server, identity=Identity(Principal(tenant="a", agent="b"))) as client:
        for tool, arguments in calls:
            result = await client.call_tool(tool, arguments)
            said.append([result.is_error, result.text])
    await server.close()
    print(json.dumps(said))

asyncio.run(main())
"""


def called(module: str, path: Path, most: int, calls: list[tuple[str, Any]]) -> tuple[list[Any], str]:
    """What each call said, and the log."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, module, f"sqlite:{path}", str(most)],
        input=json.dumps(calls),
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1]), done.stderr


def says_nothing_of_places(text: str, path: Path) -> None:
    assert str(path) not in text
    assert path.name not in text
    assert "Traceback" not in text
    assert re.search(r"(?<!\w)/\w+/", text.replace("/memories/", "")) is None


def test_a_memory_that_finds_no_room_is_refused_and_the_others_stay(tmp_path: Path):
    path = tmp_path / "memory.db"
    content = "word " * 8_000
    saves = [
        ("save_memory", {"path": f"/memories/{at}.md", "content": f"{at} {content}"}) for at in range(40)
    ]
    said, log = called("toolyard.servers.memory", path, 600_000, [*saves, ("list_memories", {})])
    failed = [text for wrong, text in said[:-1] if wrong]
    assert 0 < len(failed) < 40
    for text in failed:
        assert text.startswith("The memories cannot be reached: SQLite: the disk ")
        says_nothing_of_places(text, path)
    assert not said[-1][0], "what is there can be read"
    assert "/memories/0.md" in said[-1][1]
    assert str(path) in log, "who runs it knows where"


def test_sessions_without_room_are_told_without_where_they_are(tmp_path: Path):
    path = tmp_path / "sessions.db"
    ((wrong, text),), log = called("toolyard.servers.sessions", path, 4096, [("list_recent_sessions", {})])
    assert wrong
    assert "cannot be reached" in text
    assert "the disk" in text
    says_nothing_of_places(text, path)
    assert str(path) in log


@pytest.mark.parametrize(
    "statement", ["INSERT INTO t VALUES (zeroblob(100000))", "CREATE TABLE u AS SELECT * FROM t"]
)
def test_what_sqlite_says_of_a_full_disk_is_told_as_that(statement: str, tmp_path: Path):
    path = tmp_path / "full.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t AS SELECT zeroblob(3000)")
        connection.execute("PRAGMA max_page_count = 2")
        with pytest.raises(sqlite3.Error) as raised:
            connection.execute(statement)
    assert reason(raised.value, path) == "the disk is full"


def test_no_reason_has_a_path_in_it(tmp_path: Path):
    (tmp_path / "text").write_text("no database" * 100)
    for address in ("text", "none/file"):
        with pytest.raises((sqlite3.Error, OSError)) as raised:
            sqlite3.connect(tmp_path / address).execute("CREATE TABLE t (a)")
        says_nothing_of_places(reason(raised.value, None), tmp_path / "x")
    for error in (PermissionError(13, "Permission denied", str(tmp_path)), OSError(28, "No space", "/a/b")):
        says_nothing_of_places(reason(error, None), tmp_path)
