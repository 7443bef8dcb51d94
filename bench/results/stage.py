"""The cost of the stage for a small result, compared with the same gateway without it.

Owns the two gateways, the calls and their order. Many short rounds alternate, so that drift of the machine
affects both alike; the fastest quarter of each counts, as the least disturbed.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import msgspec

from bench.gateway import toolyard, upstream
from bench.load import Call, Client, Target, pump
from bench.process import ROOT, Process, cpu_seconds
from bench.rounds import FIRST, WARMUP_CALLS, Progress, wait_for_tool

CONNECTIONS = 16
KINDS: Mapping[str, str] = {"http": "up", "stdio": "child", "in process": "own"}
SIZES = ("a line", "15 records")
WITH, WITHOUT = "with", "without"


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU of a whole forward in milliseconds, and how much more it is with the stage."""

    kind: str
    size: str
    without_ms: float
    ratio: float


class Sender(Client):
    """Sends a call whose result has some size."""

    size = SIZES[0]

    def prepare(self, number: int) -> Call:
        call = super().prepare(number)
        if self.size == SIZES[0]:
            return call
        # Enough commas that the stage has to parse the result.
        text = msgspec.json.encode(
            [
                {"id": number + at, "state": "open", "title": f"Thing number {at}", "tags": ["a", "b"]}
                for at in range(15)
            ]
        ).decode()
        plain, wordy = msgspec.json.encode(call.text), msgspec.json.encode(text)
        head, _, body = call.request.partition(b"\r\n\r\n")
        body = body.replace(plain, wordy)
        lines = [line for line in head.split(b"\r\n") if not line.startswith(b"Content-Length")]
        lines.append(b"Content-Length: %d" % len(body))
        return Call(number, text, b"\r\n".join(lines) + b"\r\n\r\n" + body)


class Records(Sender):
    size = SIZES[1]


def measured(*, calls: int, rounds: int, progress: Progress) -> list[Cost]:
    figures: dict[tuple[str, str, str], list[float]] = {}
    with ExitStack() as stack:
        address = stack.enter_context(upstream())
        gateways = {
            way: stack.enter_context(
                toolyard(
                    configuration(address, way == WITH),
                    Path(stack.enter_context(tempfile.TemporaryDirectory())),
                )
            )
            for way in (WITH, WITHOUT)
        }
        clients = {
            (kind, size, way): _clients(stack, gateways[way], kind, size)
            for kind in KINDS
            for size in SIZES
            for way in (WITH, WITHOUT)
        }
        for key, senders in clients.items():
            progress(f"stage: warming up {' '.join(key)}")
            pump(senders, range(WARMUP_CALLS))
        for turn in range(rounds):
            numbers = range(FIRST + turn * calls, FIRST + (turn + 1) * calls)
            for key, senders in _in_turn(clients, turn):
                progress(f"stage: round {turn + 1} of {rounds}, {' '.join(key)} the stage")
                pid = gateways[key[2]].pid
                before = cpu_seconds(pid)
                pump(senders, numbers)
                figures.setdefault(key, []).append((cpu_seconds(pid) - before) / calls)
    return [_cost(figures, kind, size) for kind in KINDS for size in SIZES]


def _in_turn(
    clients: Mapping[tuple[str, str, str], list[Sender]], turn: int
) -> Sequence[tuple[tuple[str, str, str], list[Sender]]]:
    """Alternates the order, because the second runs on a warmer machine."""
    pairs = list(clients.items())
    if turn % 2 == 0:
        return pairs
    return [pair for at in range(0, len(pairs), 2) for pair in (pairs[at + 1], pairs[at])]


def _cost(figures: Mapping[tuple[str, str, str], Sequence[float]], kind: str, size: str) -> Cost:
    ours, theirs = _quick(figures[kind, size, WITH]), _quick(figures[kind, size, WITHOUT])
    return Cost(kind, size, theirs * 1e3, ours / theirs)


def _quick(rounds: Sequence[float]) -> float:
    ordered = sorted(rounds)
    return mean(ordered[: max(1, len(ordered) // 4)])


def _clients(stack: ExitStack, gateway: Process, kind: str, size: str) -> list[Sender]:
    target = Target(gateway.port, tool=f"mcp__{KINDS[kind]}__echo")
    wait_for_tool(gateway, target, "modern")
    made = Sender if size == SIZES[0] else Records
    found = [made(target, "modern") for _ in range(CONNECTIONS)]
    for client in found:
        stack.callback(client.close)
    return found


def configuration(address: str, shape: bool) -> str:
    """The upstream over HTTP, as a child process and in process, with results shaped or not."""
    return f"""
[gateway]
view = "all"
[results]
shape = {"true" if shape else "false"}
[servers.up]
url = "{address}"
[servers.child]
command = "{sys.executable}"
args = ["-m", "bench.upstream", "--stdio"]
cwd = "{ROOT}"
[servers.own]
module = "bench.upstream:server"
"""
