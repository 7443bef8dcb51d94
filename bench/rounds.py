"""Rounds of calls on a gateway: CPU, calls per second and latency of each subject under each load.

Owns the load and the figures of any gateway: ours, the bare forwarder or a peer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

from bench.connection import WrongReply
from bench.load import Client, Era, Target, connect, pump
from bench.process import Process

Progress = Callable[[str], None]

WARMUP_CALLS = 400
FIRST = 10_000
"""The number of the first call that counts, so that all of them are of one length."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A way into a gateway as one era sees it; `cpu` says what its processes have spent so far."""

    name: str
    era: Era
    target: Target
    cpu: Callable[[], float]


@dataclass(slots=True)
class Figures:
    """One subject under one load, one figure a round."""

    cpu_s: list[float] = field(default_factory=list[float])
    per_second: list[float] = field(default_factory=list[float])
    p50_s: list[float] = field(default_factory=list[float])
    p99_s: list[float] = field(default_factory=list[float])


Key = tuple[str, Era, int]
"""Subject, era, connections."""


@dataclass(slots=True)
class Measured:
    figures: dict[Key, Figures] = field(default_factory=dict[Key, Figures])
    resident: dict[str, int] = field(default_factory=dict[str, int])
    missing: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    """Why there is no figure, by subject and what of it: an era, or "" for all of it."""


def measured_round(subject: Subject, clients: Sequence[Client], numbers: range, into: Figures) -> None:
    before = subject.cpu()
    pumped = pump(clients, numbers)
    into.cpu_s.append((subject.cpu() - before) / len(numbers))
    into.per_second.append(pumped.per_second)
    ordered = sorted(pumped.latencies)
    into.p50_s.append(ordered[len(ordered) // 2])
    into.p99_s.append(ordered[len(ordered) * 99 // 100])


def interleaved(
    subjects: Sequence[Subject], *, connections: int, calls: int, rounds: int, progress: Progress
) -> dict[Key, Figures]:
    """The rounds go A B C, C B A, …, so that drift of the machine affects all alike."""
    figures: dict[Key, Figures] = {}
    with ExitStack() as stack:
        loads: list[tuple[Subject, list[Client]]] = []
        for subject in subjects:
            progress(f"gateway: warming up {subject.name} {subject.era}, {connections} connections")
            clients = connect(subject.target, subject.era, connections, handshake=True)
            for client in clients:
                stack.callback(client.close)
            pump(clients, range(max(WARMUP_CALLS, 2 * connections)))
            loads.append((subject, clients))
        for turn in range(rounds):
            numbers = range(FIRST + turn * calls, FIRST + (turn + 1) * calls)
            for subject, clients in reversed(loads) if turn % 2 else loads:
                progress(
                    f"gateway: {connections} connections, round {turn + 1} of {rounds}, "
                    f"{subject.name} {subject.era}"
                )
                into = figures.setdefault((subject.name, subject.era, connections), Figures())
                measured_round(subject, clients, numbers, into)
    return figures


def wait_for_tool(process: Process, target: Target, era: Era, limit_s: float = 60.0) -> Target:
    """Waits until the target lists its tool; fills in the name of the echo tool if it is empty.

    A gateway may need a while to know its upstream, and each names its tools in its own way.
    """
    deadline = time.monotonic() + limit_s
    while True:
        process.check_alive()
        try:
            names = _tools(target, era)
            reason = f"lists {names}"
            for name in names:
                if name == target.tool or (not target.tool and name.endswith("echo")):
                    return replace(target, tool=name)
        except (WrongReply, OSError) as error:
            reason = str(error)
        if time.monotonic() > deadline:
            raise WrongReply(f"no '{target.tool or 'echo'}' within {limit_s:.0f} s: {reason}")
        time.sleep(0.2)


def wait_for_echo(process: Process, target: Target, limit_s: float = 60.0) -> None:
    """Waits until a call of the target's tool is answered."""
    deadline = time.monotonic() + limit_s
    while True:
        process.check_alive()
        client = Client(target, "modern")
        try:
            pump([client], range(1))
            return
        except WrongReply:
            if time.monotonic() > deadline:
                raise
        finally:
            client.close()
        time.sleep(0.2)


def _tools(target: Target, era: Era) -> list[str]:
    client = Client(target, era)
    try:
        if era == "legacy":
            client.open_session()
        return [tool["name"] for tool in client.ask("tools/list")["tools"]]
    finally:
        client.close()


def merged(parts: Sequence[Measured]) -> Measured:
    whole = Measured()
    for part in parts:
        whole.figures |= part.figures
        whole.resident |= part.resident
        whole.missing |= part.missing
    return whole


def as_json(measured: Measured) -> Mapping[str, object]:
    """The raw figures in the shape of `build/bench.json`."""
    return {
        "calls": [
            {
                "name": name,
                "era": era,
                "connections": load,
                "cpu_s_per_call": figures.cpu_s,
                "calls_per_s": figures.per_second,
                "p50_s": figures.p50_s,
                "p99_s": figures.p99_s,
            }
            for (name, era, load), figures in measured.figures.items()
        ],
        "resident_bytes": measured.resident,
        "missing": {" ".join(key).strip(): reason for key, reason in measured.missing.items()},
    }
