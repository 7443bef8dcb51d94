"""The measured processes: their input and their reported figures.

A function runs as on Lambda, with only its own folder on its path, and writes no `.pyc`, because the folder
is read-only there.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from bench.aws_lambda.events import Event

HERE = Path(__file__).resolve().parent
# No site-packages and nothing of the user's; the scripts find their neighbours by the folder they are in. Not
# -E: variables such as PYTHONMALLOC are the template's, and a part of what is measured.
BARE = ("-s", "-S", "-B")


@dataclass(frozen=True, slots=True)
class Spent:
    """CPU seconds of one batch."""

    own: float
    children: float
    replies: Sequence[Any]

    @property
    def total(self) -> float:
        return self.own + self.children


class Warm:
    """A warm function, like an instance between invocations."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin
        assert process.stdout
        self._process = process
        self._to: IO[str] = process.stdin
        self._from: IO[str] = process.stdout

    def cost(self, events: Sequence[Event]) -> Spent:
        self._to.write(json.dumps([json.dumps(event) for event in events]) + "\n")
        self._to.flush()
        if not (line := self._from.readline()):
            raise RuntimeError(f"a function ended with code {self._process.wait()}; see build/bench")
        said = json.loads(line)
        return Spent(said["own"], said["children"], [json.loads(reply) for reply in said["replies"]])


@contextmanager
def warm(
    python: Path, folder: Path, module: str, env: Mapping[str, str], log: Path, options: Sequence[str] = BARE
) -> Generator[Warm]:
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(python), *options, str(HERE / "inside.py"), str(folder), module],
            env=_environment(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
        )
        try:
            yield Warm(process)
        finally:
            process.kill()
            process.wait()


@dataclass(frozen=True, slots=True)
class Start:
    """CPU seconds of a fresh process: for the import of the module, and for its first event."""

    ready: float
    first: float
    reply: Any


def start(
    python: Path, module: str, env: Mapping[str, str], options: Sequence[str], given: Sequence[str] = ()
) -> Start:
    """`given` is the function's folder and the file of its first event."""
    command = [str(python), *options, str(HERE / "first.py"), module, *given]
    done = subprocess.run(command, env=_environment(env), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"'{module}' did not start: {done.stderr[-2000:]}")
    said = json.loads(done.stdout.splitlines()[-1])
    return Start(said["ready"], said["first"], said["reply"])


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", **more}
