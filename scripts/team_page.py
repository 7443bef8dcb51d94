"""Follows docs/guides/team.md word for word on loopback, in a temporary folder.

Owns how the page is read: blocks `file=NAME` are written, blocks `run` are run in one shell, and what a
`console run` block shows below a command has to be what it prints (`…` stands for anything). Everything else
on the page is text. Starts PostgreSQL or Redis itself, so three things of the page are replaced: the ports,
by free ones; the addresses of the stores; and the programs' folder, by this environment's.
"""

import argparse
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.bootstrap import find_program  # noqa: E402
from tests.stores import PostgresServer, RedisServer, free_port  # noqa: E402

PAGE = ROOT / "docs" / "guides" / "team.md"
PORTS = ("8321", "8322", "8443")
STORE = "postgresql://toolyard:change-me@127.0.0.1/toolyard"
STEP_SECONDS = 120.0
_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.M | re.S)


class PageError(Exception):
    """A step did not do what the page says."""


@dataclass(frozen=True)
class Step:
    """A file to write, or a command to run with the output it should have; None: any, but it succeeds."""

    kind: str
    name: str
    text: str
    expected: str | None = None


def steps(page: str) -> Iterator[Step]:
    for block in _FENCE.finditer(page):
        language, _, use = block["info"].strip().partition(" ")
        if use.startswith("file="):
            yield Step("file", use.removeprefix("file="), block["body"])
        elif use == "run" and language == "console":
            yield from _commands(block["body"])
        elif use == "run":
            yield Step("run", block["body"].splitlines()[0], block["body"])


def _commands(body: str) -> Iterator[Step]:
    for part in re.split(r"^\$ ", body, flags=re.M)[1:]:
        command, _, output = part.partition("\n")
        yield Step("run", command, command, output)


class Shell:
    """One bash for the whole page, as a reader has it: variables and jobs stay."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = 0
        nginx = find_program("nginx")
        if nginx is None:
            raise PageError("nginx is not installed; hint: make setup")
        path = [str(Path(sys.executable).parent), str(Path(nginx).parent), os.environ["PATH"]]
        kept = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder,
            env={**kept, "PATH": os.pathsep.join(path), "XDG_STATE_HOME": str(folder / "home")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def run(self, text: str, must_succeed: bool) -> str:
        self._number += 1
        script, mark = self._folder / f".step-{self._number}", f"[step {self._number} ended]"
        script.write_text(f"set -e\n{text}\nset +e\n" if must_succeed else f"{text}\n")
        assert self._bash.stdin is not None
        # From a file: a command that reads its input would read the rest of the page.
        self._bash.stdin.write(f". ./{script.name} < /dev/null\nprintf '\\n%s\\n' '{mark}'\n".encode())
        self._bash.stdin.flush()
        return self._read_until(mark)

    def _read_until(self, mark: str) -> str:
        assert self._bash.stdout is not None
        output, end = b"", time.monotonic() + STEP_SECONDS
        while not output.endswith(f"\n{mark}\n".encode()):
            left = end - time.monotonic()
            if left <= 0 or not select.select([self._bash.stdout], [], [], left)[0]:
                raise PageError(f"no end after {STEP_SECONDS:g} s:\n{output.decode(errors='replace')}")
            piece = os.read(self._bash.stdout.fileno(), 65536)
            if not piece:
                raise PageError(f"it failed:\n{output.decode(errors='replace')}")
            output += piece
        return output.decode(errors="replace").removesuffix(f"\n{mark}\n")

    def close(self) -> None:
        """End what the page started, also if it did not come to its own end."""
        with suppress(OSError, ValueError):
            os.kill(int((self._folder / "nginx.pid").read_text()), signal.SIGTERM)
        with suppress(ProcessLookupError):
            os.killpg(self._bash.pid, signal.SIGTERM)
        assert self._bash.stdin is not None
        self._bash.stdin.close()
        self._bash.wait(STEP_SECONDS)


def follow(store: str, verbose: bool) -> int:
    """Follow the page once; the number of its steps."""
    folder = Path(tempfile.mkdtemp(prefix="toolyard-team-"))
    folder.chmod(0o711)  # nginx' workers are another user if it is started by root
    try:
        with PostgresServer() if store == "postgresql" else RedisServer() as server:
            page = _adapted(PAGE.read_text(), server.url, "file:" if store == "redis" else server.url)
            return follow_text(page, folder, verbose)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _adapted(page: str, state: str, audit: str) -> str:
    for name, url in (("STATE_URL", state), ("AUDIT_URL", audit)):
        line = f"{name}={STORE}\n"
        if page.count(line) != 1:
            raise PageError(f"the page has no line {line.strip()!r}, which this script replaces")
        page = page.replace(line, f"{name}='{url}'\n")
    for port in PORTS:
        page = re.sub(rf"\b{port}\b", str(free_port()), page)
    return page


def follow_text(page: str, folder: Path, verbose: bool = False) -> int:
    """Do the steps of a page in a folder; PageError if one does not do what the page says."""
    shell, count = Shell(folder), 0
    try:
        for step in steps(page):
            count += 1
            if step.kind == "file":
                (folder / step.name).write_text(step.text)
            else:
                _run(shell, step, verbose)
    except PageError:
        for log in sorted([*folder.glob("*.log")]):
            print(f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}", file=sys.stderr)
        raise
    finally:
        shell.close()
    return count


def _run(shell: Shell, step: Step, verbose: bool) -> None:
    try:
        output = shell.run(step.text, must_succeed=step.expected is None)
    except PageError as error:
        raise PageError(f"{step.name}\n{error}") from None
    if verbose:
        print(f"$ {step.name}\n{output}")
    if step.expected is not None and not _matches(step.expected, output):
        raise PageError(f"{step.name}\nprints\n{output}\nand the page says\n{step.expected}")


def _matches(expected: str, output: str) -> bool:
    """How wide columns are depends on what is in them, so blanks count as one. A line `…` may be no line."""
    wanted, found = (re.sub(r" +", " ", text).strip() for text in (expected, output))
    pattern = ".*".join(re.escape(part) for part in wanted.replace("\n…\n", "…\n").split("…"))
    return re.fullmatch(pattern, found, re.S) is not None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", choices=("postgresql", "redis"), help="only with this one")
    parser.add_argument("-v", "--verbose", action="store_true", help="print each command and its output")
    given = parser.parse_args()
    for store in [given.store] if given.store else ["postgresql", "redis"]:
        try:
            count = follow(store, given.verbose)
        except PageError as error:
            print(f"{PAGE.relative_to(ROOT)}, with {store}: {error}", file=sys.stderr)
            return 1
        print(f"{PAGE.relative_to(ROOT)}, with {store}: {count} steps done as written")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
