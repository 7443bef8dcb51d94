"""This checkout beside another one: `python -m bench.before CHECKOUT [CHECKOUT]`, in CPU time for each call.

Measures the kit, and calls through the gateway by every transport, with results shaped and without. Both
checkouts run side by side, are loaded in turns by the client and the upstream of this one, and are started
several times, because two processes of the same code differ by some percent for as long as they run.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.__main__ import end_progress, progress
from bench.gateway import toolyard, upstream
from bench.kit_servers import serving
from bench.load import ERAS, Client, Era, Target, connect, pump
from bench.process import ROOT, Process, cpu_seconds
from bench.report import plain
from bench.results.stage import Records, configuration
from bench.rounds import FIRST, WARMUP_CALLS, wait_for_echo

NOW, THEN = "now", "before"
BARE, SDK = "bare app", "SDK"
KIT_LOADS = (8, 32)
LOAD = 16
SLOWER = 1.03
IN_PROCESS_MS = 0.15
STAGE = 1.05
SDK_OVER_KIT = 5.0
SHAPED, UNSHAPED = "", ", results not shaped"


@dataclass(frozen=True, slots=True)
class Subject:
    what: str
    which: str
    """The checkout, or what is not of ours."""
    process: Process
    clients: Sequence[Client]


Figures = dict[tuple[str, str], list[list[float]]]
"""CPU seconds for a call, by what and which: a list of rounds for each start."""


def kit(stack: ExitStack, sources: Mapping[str, Path]) -> Iterator[Subject]:
    servers = {which: stack.enter_context(serving("kit", source)) for which, source in sources.items()}
    servers |= {BARE: stack.enter_context(serving("bare")), SDK: stack.enter_context(serving("sdk"))}
    for era in ERAS:
        for load in KIT_LOADS:
            for which, process in servers.items():
                clients = connect(Target(process.port), era, load, handshake=which != BARE)
                yield Subject(_kit_row(era, load), which, process, clients)


def _kit_row(era: Era, load: int) -> str:
    return f"kit, {load} connections, {era}"


def gateway(stack: ExitStack, sources: Mapping[str, Path], address: str) -> Iterator[Subject]:
    def started(config: str, source: Path) -> Process:
        return stack.enter_context(
            toolyard(config, Path(stack.enter_context(tempfile.TemporaryDirectory())), source)
        )

    for which, source in sources.items():
        shaped, unshaped = (started(configuration(address, shape), source) for shape in (True, False))
        default = started(f'[servers.up]\nurl = "{address}"\n', source)
        for era in ERAS:
            ways = {
                "http": ((shaped, SHAPED), (unshaped, UNSHAPED)),
                "stdio": ((shaped, SHAPED),),
                "in process": ((shaped, SHAPED), (unshaped, UNSHAPED)),
            }
            servers = {"http": "up", "stdio": "child", "in process": "own"}
            for way, processes in ways.items():
                for process, note in processes:
                    target = Target(process.port, tool=f"mcp__{servers[way]}__echo")
                    wait_for_echo(process, target)
                    yield Subject(
                        f"{way}, {era}{note}", which, process, connect(target, era, LOAD, handshake=True)
                    )
            target = Target(default.port, tool="mcp__up__echo", through="call_tool")
            wait_for_echo(default, target)
            yield Subject(
                f"http, default view, {era}", which, default, connect(target, era, LOAD, handshake=True)
            )
        for process, note in ((shaped, SHAPED), (unshaped, UNSHAPED)):
            target = Target(process.port, tool="mcp__up__echo")
            records: list[Client] = [Records(target, "modern") for _ in range(LOAD)]
            yield Subject(f"http, 15 records, modern{note}", which, process, records)


def measure(subjects: Sequence[Subject], calls: int, rounds: int, label: str) -> list[list[float]]:
    """CPU seconds for a call of each subject, one figure a round."""
    found: list[list[float]] = [[] for _ in subjects]
    for subject in subjects:
        pump(subject.clients, range(WARMUP_CALLS))
    # Neighbours in time are disturbed alike, so those that are compared follow each other.
    order = sorted(range(len(subjects)), key=lambda at: subjects[at].what)
    for turn in range(rounds):
        progress(f"{label}, round {turn + 1} of {rounds}")
        numbers = range(FIRST + turn * calls, FIRST + (turn + 1) * calls)
        for at in reversed(order) if turn % 2 else order:
            subject = subjects[at]
            before = cpu_seconds(subject.process.pid)
            pump(subject.clients, numbers)
            found[at].append((cpu_seconds(subject.process.pid) - before) / calls)
    return found


def ratios(figures: Figures, over: tuple[str, str], under: tuple[str, str]) -> list[float]:
    """The median of the rounds for each start."""
    return [
        median(a / b for a, b in zip(ours, theirs, strict=True))
        for ours, theirs in zip(figures[over], figures[under], strict=True)
    ]


def table(figures: Figures) -> list[tuple[str, ...]]:
    lines = [("CPU of a call", "before, ms", "now, ms", "now / before", "starts", "")]
    for what in dict.fromkeys(what for what, _ in figures):
        then, now = (_ms(figures[what, which]) for which in (THEN, NOW))
        each = ratios(figures, (what, NOW), (what, THEN))
        verdict = "slower" if median(each) > SLOWER else "ok"
        starts = " ".join(f"{ratio:.3f}" for ratio in sorted(each))
        lines.append((what, f"{then:.3f}", f"{now:.3f}", f"{median(each):.3f}", starts, verdict))
    return lines


def _ms(starts: Sequence[Sequence[float]]) -> float:
    return median(value for start in starts for value in start) * 1e3


def aims(figures: Figures) -> list[tuple[str, ...]]:
    lines = [("", "before", "now", "aim", "")]

    def line(what: str, then: float, now: float, aim: str, met: bool) -> None:
        lines.append((what, f"{then:.3f}", f"{now:.3f}", aim, "ok" if met else "miss"))

    for era in ERAS:
        then, now = (_ms(figures[f"in process, {era}", which]) for which in (THEN, NOW))
        line(f"in process, {era}, ms", then, now, f"<= {IN_PROCESS_MS}", now <= IN_PROCESS_MS)
    for way in (
        *(f"{way}, {era}" for way in ("http", "in process") for era in ERAS),
        "http, 15 records, modern",
    ):
        then, now = (
            median(ratios(figures, (way, which), (f"{way}{UNSHAPED}", which))) for which in (THEN, NOW)
        )
        line(f"shaped over not, {way}", then, now, f"<= {STAGE}", now <= STAGE)
    for era in ERAS:
        for load in KIT_LOADS:
            row = _kit_row(era, load)
            then, now = (median(ratios(figures, (row, which), (row, BARE))) for which in (THEN, NOW))
            line(f"{row}, over a bare app", then, now, "<= 2", now <= 2)
            then, now = (median(ratios(figures, (row, SDK), (row, which))) for which in (THEN, NOW))
            line(f"{row}: the SDK over it", then, now, f">= {SDK_OVER_KIT:g}", now >= SDK_OVER_KIT)
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.before", description="Compare two checkouts.")
    parser.add_argument("before", type=Path, help="the other checkout")
    parser.add_argument("now", type=Path, nargs="?", default=ROOT, help="this one, unless given")
    parser.add_argument("--calls", type=int, default=200, help="in a round (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=12, help="for each start (default: %(default)s)")
    parser.add_argument("--starts", type=int, default=5, help="of all processes (default: %(default)s)")
    options = parser.parse_args()
    sources = {THEN: options.before / "src", NOW: options.now / "src"}
    for source in sources.values():
        if not (source / "toolyard").is_dir():
            parser.error(f"{source.parent} is no checkout of toolyard")
    figures: Figures = {}
    with upstream() as address:
        for start in range(options.starts):
            # The first to start may get the better place in memory.
            turned = dict(reversed(sources.items())) if start % 2 else sources
            for part in ("kit", "gateway"):
                label = f"{part}, start {start + 1} of {options.starts}"
                with ExitStack() as stack:
                    progress(f"{label}: starting")
                    made = kit(stack, turned) if part == "kit" else gateway(stack, turned, address)
                    subjects = list(made)
                    for subject in subjects:
                        for client in subject.clients:
                            stack.callback(client.close)
                    taken = measure(subjects, options.calls, options.rounds, label)
                    for subject, rounds in zip(subjects, taken, strict=True):
                        figures.setdefault((subject.what, subject.which), []).append(rounds)
    end_progress()
    (ROOT / "build").mkdir(exist_ok=True)
    raw = [{"what": what, "which": which, "starts": each} for (what, which), each in figures.items()]
    (ROOT / "build" / "bench-before.json").write_text(json.dumps(raw, indent=1) + "\n", encoding="utf-8")
    for lines in (table(figures), aims(figures)):
        print(plain(lines, range(1, len(lines[0]) - 1)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
