"""The server as a process of its own, with nothing set, with files to import, and without psycopg."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cli.running import Toolyard
from tests.servers.sessions.archive import entry, write_lines
from tests.waiting import PATIENCE

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


@contextmanager
def running(toolyard: Toolyard, *options: str) -> Iterator[Callable[..., Any]]:
    """`toolyard run sessions`, which ends with its input; what it answers to a call."""
    process = toolyard.start("run", "sessions", *options)
    assert process.stdin is not None
    assert process.stdout is not None
    to, come = process.stdin, process.stdout

    def ask(tool: str, **arguments: Any) -> Any:
        params = {"name": tool, "arguments": arguments, "_meta": META}
        to.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}) + "\n")
        to.flush()
        return json.loads(come.readline())["result"]["structuredContent"]

    yield ask
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 0


def test_it_starts_with_nothing_set_and_remembers_what_it_has_imported(toolyard: Toolyard, tmp_path: Path):
    with running(toolyard) as ask:
        assert ask("list_recent_sessions") == {"count": 0, "sessions": []}

    write_lines(tmp_path / "projects" / "s1.jsonl", entry("user", "u1", "the lighthouse keeper"))
    with running(toolyard, "-o", f"import_from={tmp_path / 'projects'}") as ask:
        # An answer soon after the start waits for what lies there, but not for ever.
        while not (found := ask("search_sessions", query="lighthouse"))["count"]:
            pass
        assert found["sessions"][0]["excerpt"] == "the **lighthouse** keeper"

    with running(toolyard) as ask:
        (kept,) = ask("list_recent_sessions")["sessions"]
        assert kept["session_id"] == "s1"
    folder = toolyard.state / "toolyard" / "sessions"
    assert oct(folder.stat().st_mode)[-3:] == "700"
    assert oct((folder / "sessions.db").stat().st_mode)[-3:] == "600"


def test_what_postgresql_needs_is_named_with_its_extra():
    program = (
        "import sys; sys.modules['psycopg'] = None; from toolyard.cli import main; "
        "main(['run', 'sessions', '-o', 'url=postgresql://yard@db/sessions'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input="", capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert "extras add postgres" in done.stderr
