"""A new user's first day, played on an empty HOME with cold caches; `make first-day`.

Owns the story: six servers that people have, started by npx and uvx, one that hangs and one that fails, are
added, listed, served, searched and called by the command, as a user would type it; then what a new user tries
besides, with the mistakes that people make, in an environment without any extra. Prints a table of times
and outcomes, writes build/first-day.json, and exits with 1 if an outcome is wrong. No outcome
depends on how fast the machine is; the times are there to be read.
"""

import argparse
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import urlopen

from rich.console import Console
from rich.markup import escape
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
REPORT = ROOT / "build" / "first-day.json"
TOOLYARD = [sys.executable, "-m", "toolyard"]
LONGEST = 600
"""Seconds after which a command has hung. Cold installs of several servers share a slow line."""
NPM_SCOPE = "@modelcontextprotocol/server-"
NO_SUCH_PACKAGE = "toolyard-first-day-no-such-package"
QUICK = ("time", "memory")
SEARCH = json.dumps({"queries": [{"use_case": "time in Tokyo"}]})
INITIALIZE = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "first-day", "version": "1"},
        },
    }
)


DICE = """
from msgspec import Struct

from toolyard.kit import Server


class Settings(Struct):
    sides: int = 6


def build(settings: Settings) -> Server:
    server = Server("dice")

    @server.tool
    def sides() -> int:
        return settings.sides

    return server
"""
READER = """---
name: reader
description: Reads.
tools: dice/*
---
You read.
"""


@dataclass(frozen=True)
class Server:
    command: list[str]
    tools: int
    """It has at least so many."""
    call: list[str]
    """A tool of its, with arguments."""
    answer: str
    """Stands in what that call prints."""


@dataclass
class Row:
    scene: str
    what: str
    seconds: float
    outcome: str
    good: bool


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help=f"only {' and '.join(QUICK)}, for CI")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="first-day-") as folder, page() as address, silence() as silent:
        servers = everyday_servers(Path(folder), address)
        if options.quick:
            servers = {name: servers[name] for name in QUICK}
        rows = Day(Path(folder), servers, silent).play()
    show(rows)
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    return 0 if all(row.good for row in rows) else 1


def everyday_servers(folder: Path, address: str) -> dict[str, Server]:
    """Common servers, in tested versions, with data for each to work on."""
    files, repository = folder / "files", folder / "repository"
    files.mkdir()
    (files / "greeting.txt").write_text("Good morning\n")
    make_repository(repository)
    npm = re.search(r"MCP_SERVERS := (\S+)", (ROOT / "Makefile").read_text())
    pins = dict(
        re.findall(r"^([\w-]+)==(\S+)$", (ROOT / "tests/thirdparty/requirements.txt").read_text(), re.M)
    )
    assert npm is not None

    def npx(name: str, *arguments: str) -> list[str]:
        return ["npx", "-y", f"{NPM_SCOPE}{name}@{npm[1]}", *arguments]

    def uvx(name: str, *arguments: str) -> list[str]:
        return ["uvx", f"{name}=={pins[name]}", *arguments]

    greeting = str(files / "greeting.txt")
    return {
        "files": Server(
            npx("filesystem", str(files)), 10, ["read_text_file", f"path={greeting}"], "Good morning"
        ),
        "memory": Server(npx("memory"), 8, ["read_graph"], "entities"),
        "everything": Server(npx("everything", "stdio"), 8, ["echo", "message=Hello"], "Hello"),
        "git": Server(
            uvx("mcp-server-git", "--repository", str(repository)),
            10,
            ["git_log", f"repo_path={repository}"],
            "The first commit",
        ),
        "time": Server(uvx("mcp-server-time"), 2, ["get_current_time", "timezone=Asia/Tokyo"], "Asia/Tokyo"),
        "fetch": Server(
            uvx("mcp-server-fetch", "--ignore-robots-txt", "--allow-private-ips"),
            1,
            ["fetch", f"url={address}", "raw=true"],
            "loopback",
        ),
    }


class Day:
    def __init__(self, folder: Path, servers: dict[str, Server], silent: str) -> None:
        self._folder = folder
        self._servers = servers
        self._silent = silent
        self._rows: list[Row] = []
        self._scene = ""
        self._home = folder
        self._command = TOOLYARD

    def play(self) -> list[Row]:
        self._checked()
        self._all_at_once()
        self._by_hand()
        return self._rows

    def _checked(self) -> None:
        """Adds each server by itself: it is installed, started once, and its tools are counted."""
        self._begin("one by one")
        for name, server in self._servers.items():
            self._toolyard(["add", name, "--", *server.command], says_tools(server.tools))
        failing = ["add", "fails", "--", "npx", "-y", NO_SUCH_PACKAGE]
        self._toolyard(failing, says(r"(?i)404|not found"), status=2)
        self._toolyard(["list"], has_all(self._servers))

    def _all_at_once(self) -> None:
        """Adds all servers unchecked and uses them at once, while nothing is installed."""
        self._begin("all at once")
        for name, server in self._servers.items():
            self._toolyard(["add", "--no-check", name, "--", *server.command], says("added"))
        self._toolyard(["add", "--no-check", "fails", "--", "npx", "-y", NO_SUCH_PACKAGE], says("added"))
        self._toolyard(["add", "--no-check", "hangs", self._silent], says("added"))
        self._toolyard(["list"], says(r"(?s)(?=.*hangs: starting)"), status=3)
        self._npx_still_works()
        with self._serving() as url:
            search = ["call", "search_tools", "--args", SEARCH, "--url", url]
            self._toolyard(search, says("Not available: hangs"))
            self._until_there(url)
            for name, server in self._servers.items():
                tool, *arguments = server.call
                call = ["call", f"mcp__{name}__{tool}", *arguments, "--url", url]
                self._toolyard(call, says(re.escape(server.answer)))
            self._toolyard(search, says("get_current_time"))
            gone = ["call", "mcp__fails__anything", "--url", url]
            self._toolyard(gone, says(r"(?is)(?=.*fails)(?=.*(404|not found))"), status=2)
            waiting = ["call", "mcp__hangs__anything", "--url", url]
            self._toolyard(waiting, says("hangs"), status=2)
        listing = self._toolyard(["list", "--wait", "20"], says("(?s)(?=.*hangs)(?=.*fails: down)"), status=3)
        self._judge("the list after it all", has_all(self._servers)(listing))

    def _by_hand(self) -> None:
        """What else is tried on a first day, right and wrong."""
        self._begin("by hand")
        self._command = [str(self._bare_environment()), "-m", "toolyard"]
        self._write("tea.csv", "name,price\nassam,3\nsencha,4\n")
        self._write("acme/dice.py", DICE)
        self._write(".claude/agents/reader.md", READER)

        self._toolyard(["run", "sql"], says("toolyard extras add sql"), status=2)
        self._at_terminal(["extras", "add", "sql"], "", says("sql is installed"))
        self._at_terminal(["list", "youtube"], "y\n", says("(?s)Install youtube now.*download_video"))
        self._toolyard(["add", "tea", "--module", "sql", "-o", "database=tea.csv"], says("1 tool"))
        query = ["call", "mcp__tea__query_sql", "sql=SELECT sum(price) AS total FROM tea"]
        self._toolyard(query, says('"rows":\\[\\[7'))
        self._at_terminal(query, "", says(r"(?s)\| total \|(?!.*query_executed)"))

        self._toolyard(["add", "dice", "--module", "acme.dice", "-o", "sides=8"], says("1 tool"))
        self._toolyard(["run", "acme.dice", "-o", "sides=8"], says("^(?!.*error)"))
        self._toolyard(["run", "acme.dize"], says("no server 'acme.dize'"), status=2)

        good = (self._home / "toolyard.toml").read_text()
        wrong = (
            '[servers.gone]\nmodule = "gone.py"\n[servers.lite]\nmodule = "slq"\n[gateway]\nport = "eighty"\n'
        )
        self._write("wrong.toml", good + wrong)
        told = r"(?s)(?=.*from 0 to 65535, not 'eighty')"
        self._toolyard(["check", "--config", "wrong.toml"], says(told), status=1)
        self._write("wrong.toml", good + wrong.partition("[gateway]")[0])
        told = r"(?s)(?=.*no file '\S+gone.py')(?=.*did you mean 'sql'\?)"
        self._toolyard(["check", "--config", "wrong.toml"], says(told), status=1)
        states = self._toolyard(["list", "--config", "wrong.toml"], says("gone: down"), status=3)
        self._judge("each state once", "" if states.count("gone.py") == 1 else "twice")

        rules = '[[access.rules]]\nwho = ["reader"]\nallow = ["tea", "dice/sids"]\n'
        self._write("rules.toml", good + rules)
        self._toolyard(["check", "--config", "rules.toml"], says("dice"))
        told = r"(?s)(?=.*no more than .claude/agents/reader.md says)"
        self._toolyard(["access", "--config", "rules.toml"], says(told))
        model = {"OPENAI_API_KEY": "none", "TOOLYARD_MODEL": "openai:none", "OPENAI_BASE_URL": self._silent}
        agent = ["agent", "Roll", "--view", "all", "--context-tokens", "300"]
        self._toolyard(agent, says("no room is left"), status=1, **model)

        with self._serving() as url:
            with urlopen(url.removesuffix("mcp"), timeout=30) as reply:
                page = reply.read().decode()
            self._judge("the page at /", says(f"(?s)MCP endpoint.*claude mcp add.*{url}")(page))
            self._toolyard([*query, "--url", url], says("total"))

    # The parts of the scenes

    def _bare_environment(self) -> Path:
        """Toolyard in a new environment, without any extra; its Python."""
        started = time.monotonic()
        folder = self._home / "environment"
        python = folder / "bin" / "python"
        for command in (
            [sys.executable, "-m", "venv", str(folder)],
            [str(python), "-m", "pip", "install", "--quiet", "--no-compile", str(ROOT)],
        ):
            done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST)
            if done.returncode:
                self._note("pip install", started, done.stderr, False)
        self._note("pip install, without extras", started, "installed", python.exists())
        return python

    def _write(self, name: str, text: str) -> None:
        file = self._home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def _at_terminal(self, arguments: list[str], typed: str, judge: Callable[[str], str]) -> None:
        """The command as somebody at a terminal sees it, who types that at once."""
        started = time.monotonic()
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [*self._command, *arguments],
            cwd=self._home,
            env=self._environment | {"COLUMNS": "100"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        os.write(ours, typed.encode())
        shown = b""
        with suppress(OSError):  # Linux says so when the other side has closed
            while chunk := os.read(ours, 65536):
                shown += chunk
        os.close(ours)
        status = process.wait(LONGEST)
        text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", shown.decode(errors="replace"))
        wrong = judge(text) or (f"exit status {status}" if status else "")
        what = " ".join(["toolyard", *arguments])
        self._note(f"{what}, at a terminal", started, f"{wrong}\n{text}" if wrong else told(text), not wrong)

    def _begin(self, scene: str) -> None:
        """A new home: no cache of npm's or uv's, no configuration, no state."""
        self._scene = scene
        self._home = self._folder / f"home {scene}".replace(" ", "-")
        self._home.mkdir()

    @property
    def _environment(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.lower().startswith(("xdg_", "npm_", "uv_", "toolyard_", "virtual_env"))
        }
        path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
        return kept | {"HOME": str(self._home), "PATH": path, "NO_COLOR": "1", "TERM": "dumb"}

    def _toolyard(
        self, arguments: list[str], judge: Callable[[str], str], status: int = 0, **environment: str
    ) -> str:
        started = time.monotonic()
        what = " ".join(["toolyard", *arguments])
        try:
            done = subprocess.run(
                [*self._command, *arguments],
                cwd=self._home,
                env=self._environment | environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=LONGEST,
            )
        except subprocess.TimeoutExpired:
            self._note(what, started, f"still running after {LONGEST} s", False)
            return ""
        wrong = judge(done.stdout)
        if done.returncode != status:
            wrong = f"exit status {done.returncode} instead of {status}"
        self._note(
            what, started, f"{wrong}\n{done.stdout.strip()}" if wrong else told(done.stdout), not wrong
        )
        return done.stdout

    def _npx_still_works(self) -> None:
        """Checks that npx works after the list above was ended in the middle of an install."""
        for name, server in self._servers.items():
            if server.command[0] == "npx":
                started = time.monotonic()
                command = [str(Path(sys.executable).with_name("npx")), *server.command[1:]]
                done = subprocess.run(
                    command,
                    cwd=self._home,
                    env=self._environment,
                    input=f"{INITIALIZE}\n",
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    timeout=LONGEST,
                )
                answered = '"serverInfo"' in done.stdout
                outcome = "answers" if answered else done.stdout.strip()
                self._note(f"plain npx starts {name}", started, outcome, answered)

    @contextmanager
    def _serving(self) -> Iterator[str]:
        started = time.monotonic()
        process = subprocess.Popen(
            [*self._command, "serve", "--port", "0"],
            cwd=self._home,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=(self._home / "serve.log").open("w"),
            text=True,
        )
        assert process.stdout is not None
        try:
            lines = iter(process.stdout.readline, "")
            url = next((found[0] for line in lines if (found := re.search(r"http://\S+/mcp", line))), "")
            self._note("toolyard serve", started, url or (self._home / "serve.log").read_text(), bool(url))
            yield url
        finally:
            ending = time.monotonic()
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=60)
            ended = process.poll()
            if ended is None:
                process.kill()
            self._note("Ctrl-C", ending, f"exit status {ended}", ended in (0, 130))

    def _until_there(self, url: str) -> None:
        """Waits for the installs, whose progress `/health` shows."""
        started = time.monotonic()
        health = url.removesuffix("/mcp") + "/health"
        absent = set(self._servers)
        while absent and time.monotonic() - started < LONGEST:
            with urlopen(health, timeout=30) as reply:
                states = json.load(reply)["servers"]
            absent = {name for name in self._servers if states[name]["state"] != "up"}
            time.sleep(0.2)
        self._note(
            "until all are ready", started, f"absent: {sorted(absent)}" if absent else "ready", not absent
        )

    def _judge(self, what: str, wrong: str) -> None:
        self._note(what, time.monotonic(), wrong or "as it should be", not wrong)

    def _note(self, what: str, started: float, outcome: str, good: bool) -> None:
        what = what.replace(str(self._folder), "…")
        row = Row(self._scene, what, round(time.monotonic() - started, 1), outcome, good)
        self._rows.append(row)
        print(f"{'ok  ' if good else 'FAIL'} {row.seconds:6.1f} s  {self._scene}: {what}", flush=True)
        if not good:
            print(outcome, flush=True)


# Checks of an output: each returns a reason if it fails, else an empty text


def says(pattern: str) -> Callable[[str], str]:
    return lambda output: "" if re.search(pattern, output) else f"does not say {pattern!r}"


def says_tools(least: int) -> Callable[[str], str]:
    def judge(output: str) -> str:
        found = re.search(r"(\d+) tools?\b", output)
        return "" if found and int(found[1]) >= least else f"does not count {least} tools or more"

    return judge


def has_all(servers: dict[str, Server]) -> Callable[[str], str]:
    def judge(output: str) -> str:
        counted = {name: int(tools) for name, tools in re.findall(r"^(\w+): ready, (\d+) tool", output, re.M)}
        few = [name for name, server in servers.items() if counted.get(name, 0) < server.tools]
        return f"not ready with all their tools: {', '.join(few)}" if few else ""

    return judge


def told(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[0] if lines else ""


def show(rows: list[Row]) -> None:
    table = Table(title="The first day", title_justify="left", box=None, header_style="bold", expand=True)
    table.add_column("", min_width=1)
    table.add_column("what", no_wrap=True, ratio=5)
    table.add_column("s", justify="right", no_wrap=True)
    table.add_column("outcome", no_wrap=True, ratio=4)
    scene = ""
    for row in rows:
        if row.scene != scene:
            scene = row.scene
            table.add_section()
            table.add_row("", f"[bold]{scene}[/bold]", "", "")
        mark = "[green]✓[/green]" if row.good else "[red]✗[/red]"
        table.add_row(mark, escape(row.what[:90]), f"{row.seconds:.1f}", escape(told(row.outcome)[:80]))
    Console(width=None if sys.stdout.isatty() else 180).print(table)


# Data for the servers


def make_repository(folder: Path) -> None:
    folder.mkdir()
    (folder / "README").write_text("A repository\n")
    who = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["add", "README"], [*who, "commit", "-qm", "The first commit"]):
        subprocess.run(["git", *command], cwd=folder, check=True)


@contextmanager
def page() -> Iterator[str]:
    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"<html><body><p>A page on loopback</p></body></html>"
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


@contextmanager
def silence() -> Iterator[str]:
    """A URL that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"


if __name__ == "__main__":
    sys.exit(main())
