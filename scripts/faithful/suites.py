"""Others' test suites, and running one of them a way: as it is, over HTTP, or through a gateway.

What is put between their clients and their servers is in `inside`, which is loaded into their test run. Owns
what a run is asked for and reads what it reports; what a loss is, `comparison` decides.
"""

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Collection, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path

from scripts.conformance.processes import child

from .sources import HOME, ROOT, Sources, fail

INSIDE = ROOT / "scripts" / "faithful" / "inside"
WAYS = ("direct", "http", "through")
WORKERS = 2
TEST_S = 30
"""What hangs is lost."""
RUN_S = 3600
_CONNECTS = re.compile(r"(?<!\w)(?:Proxy|\w*MCP)?Client\(")
ALWAYS = "-p between -p no:cacheprovider -p no:unraisableexception -q --no-header --color=no --tb=native"


@dataclass(frozen=True)
class Outcome:
    """What came of one test; `laid` is how many connections of it can be put on another way, and `lists` how
    often it asked for the tools of a view of every server's.
    """

    id: str
    outcome: str
    laid: int
    text: str = ""
    lists: int = 0

    @property
    def passed(self) -> bool:
        return self.outcome == "passed"


@dataclass(frozen=True)
class Suite:
    """`package` is whose sdist the tests are in; `of` is what counts of them."""

    name: str
    title: str
    package: str
    of: str
    paths: tuple[str, ...]
    quick: tuple[str, ...]
    """The files of a quick run: those that wait for events alone, and about all that is said both ways."""
    options: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    """How the files begin that are not asked: other programs are needed, or no server is in the test."""

    def files(self, folder: Path) -> list[str]:
        """Every file that can connect a client."""
        found: list[Path] = []
        for path in self.paths:
            at = folder / path
            found += sorted(at.rglob("test_*.py")) if at.is_dir() else [at]
        names = {str(file.relative_to(folder)): file for file in found}
        return [
            name
            for name, file in names.items()
            if not name.startswith(self.without)
            and (self.package != "fastmcp" or _CONNECTS.search(file.read_text("utf-8")))
        ]


FASTMCP = Suite(
    "fastmcp",
    "FastMCP's tests",
    "fastmcp",
    "tests that connect a client to a server in memory",
    ("tests",),
    (
        "tests/client/test_elicitation.py",
        "tests/client/test_logs.py",
        "tests/client/test_notifications.py",
        "tests/client/test_progress.py",
        "tests/client/test_roots.py",
        "tests/client/test_sampling.py",
        "tests/server/test_extensions.py",
        "tests/server/test_mrtr_guards.py",
        "tests/server/test_protocol_eras.py",
    ),
    without=(
        "tests/conformance/",
        "tests/downstream/",
        "tests/integration_tests/",
        "tests/client/test_stdio.py",
    ),
)
SDK = Suite(
    "sdk",
    "the SDK's interaction tests",
    "mcp",
    "cells of its matrix over streamable HTTP: 2025-11-25, the same without sessions, 2026-07-28",
    ("tests/interaction",),
    tuple(
        f"tests/interaction/lowlevel/test_{name}.py"
        for name in (
            "elicitation",
            "initialize",
            "list_changed",
            "logging",
            "sampling",
            "subscriptions",
            "tools",
        )
    ),
    ("-p", "no:asyncio", "-o", "log_cli=false", "-k", "streamable-http-"),
)
STORIES = Suite(
    "stories",
    "the SDK's example stories",
    "mcp",
    "stories over HTTP",
    ("tests/examples/test_stories.py",),
    ("tests/examples/test_stories.py",),
    ("-p", "no:asyncio", "-o", "log_cli=false", "-k", "http-asgi"),
)
SUITES = (FASTMCP, SDK, STORIES)


@contextlib.contextmanager
def gateways(toolyard: str, folder: Path, log: Path) -> Generator[None]:
    """A process of gateways for each worker of a run, by the worker's name."""
    with contextlib.ExitStack() as stack, log.open("ab") as output:
        for number in range(WORKERS):
            command = [toolyard, str(INSIDE / "gateway_process.py"), str(folder / f"gw{number}")]
            process = stack.enter_context(child(command, cwd=folder, stdout=subprocess.PIPE, stderr=output))
            assert process.stdout is not None
            if not process.stdout.readline():
                fail("the gateways do not start", f"{log.relative_to(ROOT)} says why")
        yield


def run(
    suite: Suite,
    way: str,
    sources: Sources,
    selection: Collection[str],
    *,
    view: str = "bare",
    workers: int = WORKERS,
    toolyard: str = sys.executable,
) -> dict[str, Outcome]:
    """Run these files or tests, and return what came of each."""
    home = HOME / "runs" / (way if view == "bare" else view)
    home.mkdir(parents=True, exist_ok=True)
    report, log = home / f"{suite.name}.jsonl", home / f"{suite.name}.log"
    arguments = home / f"{suite.name}.args"
    arguments.write_text("".join(f"{one}\n" for one in selection), "utf-8")
    parallel = ["--numprocesses", str(workers)] if workers > 1 else []
    command = [str(sources.python), "-m", "pytest", *ALWAYS.split(), "-o", f"timeout={TEST_S}"]
    command += [*parallel, *suite.options, f"@{arguments}"]
    source = sources.folders[suite.package]
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        if way == "through":
            stack.enter_context(gateways(toolyard, Path(folder), home / f"{suite.name}-gateways.log"))
        environment = {
            **without_ours(os.environ),
            "BETWEEN": way,
            "BETWEEN_KIND": suite.package,
            "BETWEEN_GATEWAYS": folder,
            "BETWEEN_VIEW": view,
            "BETWEEN_REPORT": str(report),
            "PATH": f"{sources.python.parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join([str(INSIDE), str(source / "examples")]),
        }
        with log.open("wb") as output:
            process = stack.enter_context(
                child(command, cwd=source, env=environment, stdout=output, stderr=subprocess.STDOUT)
            )
            status = process.wait(RUN_S)
    found = read(report)
    # 1 is for tests that failed. A run that broke off has not said of every test what came of it.
    if status not in (0, 1) or not found:
        last = "\n".join(log.read_text("utf-8", errors="replace").splitlines()[-15:])
        fail(f"{suite.title} ({way}): pytest ended with {status}:\n{last}", f"see {log.relative_to(ROOT)}")
    return found


def read(report: Path) -> dict[str, Outcome]:
    lines = [json.loads(line) for line in report.read_text("utf-8").splitlines()]
    return {
        line["id"]: Outcome(line["id"], line["outcome"], line["laid"], line.get("text", ""), line["lists"])
        for line in lines
    }


def without_ours(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables of our own test runs and of `make` mean something else to theirs."""
    ours = ("PYTEST_", "COV_", "COVERAGE_", "TOOLYARD_", "MAKE", "MFLAGS", "CI")
    return {name: value for name, value in environment.items() if not name.startswith(ours)}
