"""The command as users run it: a process of its own, with pipes or with a terminal around it."""

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.waiting import PATIENCE

COMMAND = [sys.executable, "-m", "toolyard"]
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")


@dataclass(frozen=True)
class Outcome:
    status: int
    out: str
    err: str


class Toolyard:
    """Runs commands in one folder, with a home and a state folder of their own."""

    def __init__(self, folder: Path, python: Path = Path(sys.executable)) -> None:
        self.folder = folder
        self._command = [str(python), "-m", "toolyard"]
        self.state = folder / "state"
        self.patience = PATIENCE
        self.before: Callable[[], None] | None = None
        """Called in each process before the command begins."""
        unwanted = ("TOOLYARD_KEY", "TOOLYARD_API_KEY", "NO_COLOR", "FORCE_COLOR", "COLUMNS")
        self._environment = {name: value for name, value in os.environ.items() if name not in unwanted}
        self._environment |= {"XDG_STATE_HOME": str(self.state), "TERM": "xterm-256color"}

    def write(self, name: str, source: str) -> Path:
        path = self.folder / name
        path.write_text(source)
        return path

    def __call__(self, *arguments: str, stdin: str = "", **environment: str) -> Outcome:
        done = subprocess.run(
            [*self._command, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=self._environment | environment,
            timeout=self.patience,
            preexec_fn=self.before,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self._command, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env=self._environment | environment,
            preexec_fn=self.before,
        )

    @contextmanager
    def serving(self, *arguments: str, **environment: str) -> Iterator["Served"]:
        """`toolyard serve` on a free port, from when it says that it is ready."""
        process = self.start("serve", "--port", "0", *arguments, **environment)
        try:
            yield Served(process)
        finally:
            process.kill()
            process.communicate()

    @contextmanager
    def terminal(self, *arguments: str, output: str = "", **environment: str) -> Iterator["Terminal"]:
        """The command with a terminal of 100 columns for input, output (or a file for it) and errors."""
        ours, theirs = pty.openpty()
        stdout = os.open(self.folder / output, os.O_CREAT | os.O_WRONLY) if output else os.dup(theirs)
        sizes = {"COLUMNS": "100", "LINES": "40"}
        process = subprocess.Popen(
            [*self._command, *arguments],
            stdin=theirs,
            stdout=stdout,
            stderr=theirs,
            start_new_session=True,
            cwd=self.folder,
            env=self._environment | sizes | environment,
        )
        os.close(theirs)
        os.close(stdout)
        try:
            yield Terminal(ours, process)
        finally:
            process.kill()
            process.wait()
            os.close(ours)


class Served:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.welcome = self._read_welcome()
        found = re.search(r"https?://\S+", self.welcome)
        assert found, self.welcome or process.communicate()[1]
        self.url = found[0]

    def _read_welcome(self) -> str:
        assert self.process.stdout is not None
        lines: list[str] = []
        for line in self.process.stdout:
            lines.append(line)
            if line.startswith("Ctrl-C"):
                break
        return "".join(lines)

    @property
    def port(self) -> str:
        return self.url.split(":")[2].split("/")[0]

    def stop(self, signal: int) -> Outcome:
        self.process.send_signal(signal)
        out, err = self.process.communicate(timeout=PATIENCE)
        return Outcome(self.process.returncode, out, err)


class Terminal:
    """What the user sees and types. `seen` has no colours and no cursor movements; `raw` has."""

    def __init__(self, handle: int, process: subprocess.Popen[bytes]) -> None:
        self._handle = handle
        self._process = process
        self.raw = ""

    @property
    def seen(self) -> str:
        return _ESCAPES.sub("", self.raw)

    def expect(self, text: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while text not in self.seen:
            assert self._read(deadline), f"{text!r} was not shown; this was: {self.seen!r}"

    def type(self, text: str) -> None:
        os.write(self._handle, text.encode())

    def interrupt(self, signal: int) -> None:
        self._process.send_signal(signal)

    def end(self) -> int:
        """Wait for the command to end; its exit status."""
        deadline = time.monotonic() + PATIENCE
        while self._read(deadline):
            pass
        return self._process.wait(PATIENCE)

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._handle], [], [], max(0.0, deadline - time.monotonic()))
        try:
            chunk = os.read(self._handle, 65536) if ready else b""
        except OSError:  # Linux says so when the other side has closed
            chunk = b""
        self.raw += chunk.decode(errors="replace")
        return bool(chunk)
