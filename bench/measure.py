"""The three measurements of the kit: CPU per call, CPU of an import, memory of idle sessions.

Takes the figures only; `bench.report` compares and judges them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from bench.kit_servers import serving
from bench.load import ERAS, Client, Era, Target, connect, drive, prepare
from bench.process import Process, cpu_seconds, private_bytes

Progress = Callable[[str], None]

WARMUP_CALLS = 400
WARMUP_SESSIONS = 300
SESSIONS = 1000
SETTLE_S = 0.5
IMPORTS: Mapping[str, str] = {
    "python": "",
    "kit": "import toolyard.edge.http.app, toolyard.kit",
    "sdk": "import mcp",
}


@dataclass(frozen=True, slots=True)
class Subject:
    """A server as one era sees it, with its connections open."""

    process: Process
    era: Era
    clients: Sequence[Client]

    def cpu_of(self, numbers: range) -> float:
        """CPU seconds that the server spends on one call, over the calls with these ids."""
        waves = prepare(self.clients, numbers)
        before = cpu_seconds(self.process.pid)
        drive(waves)
        return (cpu_seconds(self.process.pid) - before) / len(numbers)


def calls(
    names: Sequence[str], *, per_round: int, rounds: int, connections: int, progress: Progress
) -> dict[str, list[float]]:
    """CPU seconds per call of each server in each era, one figure a round, keyed "kit modern".

    The rounds are interleaved (A B C, A B C, …), so that drift of the machine affects all alike.
    """
    figures: dict[str, list[float]] = {}
    with ExitStack() as stack:
        processes = [stack.enter_context(serving(name)) for name in names]
        subjects: list[Subject] = []
        for era in ERAS:
            for process in processes:
                clients = connect(Target(process.port), era, connections, handshake=process.name != "bare")
                for client in clients:
                    stack.callback(client.close)
                subject = Subject(process, era, clients)
                progress(f"calls: warming up {process.name} {era}")
                subject.cpu_of(range(WARMUP_CALLS))
                subjects.append(subject)
        for turn in range(rounds):
            first = WARMUP_CALLS + turn * per_round
            for subject in subjects:
                progress(f"calls: round {turn + 1} of {rounds}, {subject.process.name} {subject.era}")
                key = f"{subject.process.name} {subject.era}"
                figures.setdefault(key, []).append(subject.cpu_of(range(first, first + per_round)))
    return figures


def imports(names: Sequence[str], *, rounds: int, progress: Progress) -> dict[str, list[float]]:
    """CPU seconds of a fresh interpreter that imports and ends; "python" imports nothing."""
    figures: dict[str, list[float]] = {name: [] for name in ("python", *names)}
    for turn in range(rounds + 1):
        progress(f"imports: round {turn} of {rounds}" if turn else "imports: warming up")
        for name, taken in figures.items():
            seconds = _cpu_of_interpreter(IMPORTS[name])
            if turn:  # the first turn compiles to .pyc and fills the page cache
                taken.append(seconds)
    return figures


def _cpu_of_interpreter(code: str) -> float:
    child = subprocess.Popen([sys.executable, "-c", code])
    try:
        _, status, usage = os.wait4(child.pid, 0)
    except BaseException:
        child.kill()
        child.wait()
        raise
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"'{code}' ended with code {child.returncode}")
    return usage.ru_utime + usage.ru_stime


@dataclass(frozen=True, slots=True)
class Idle:
    """Private memory of a server before and after `sessions` more legacy sessions."""

    sessions: int
    before: int
    after: int


def idle_sessions(name: str, *, progress: Progress) -> Idle:
    """The memory of legacy sessions that made one call and are idle.

    The sessions of the warm-up stay open: freed memory would hide the cost of the next ones.
    """
    with serving(name) as process:
        progress(f"sessions: warming up {name}")
        for _ in range(WARMUP_SESSIONS):
            _leave_session(process)
        time.sleep(SETTLE_S)
        before = private_bytes(process.pid)
        progress(f"sessions: opening {SESSIONS} on {name}")
        left = [_leave_session(process) for _ in range(SESSIONS)]
        time.sleep(SETTLE_S)
        after = private_bytes(process.pid)
        # A server that drops sessions would look cheap, so the oldest must still answer.
        _call_once(Client(Target(process.port), "legacy", session=left[0]), number=2)
    return Idle(SESSIONS, before, after)


def _leave_session(process: Process) -> str | None:
    client = Client(Target(process.port), "legacy")
    client.open_session()
    _call_once(client, number=1)
    return client.session


def _call_once(client: Client, *, number: int) -> None:
    drive(prepare([client], range(number, number + 1)))
    client.close()
