"""What traces cost a forward: `python -m bench.traces`, in CPU time of the gateway, writing included.

One gateway for each way of tracing, and one without. They are loaded in turns, in many short rounds, so that
the drift of the machine affects all alike. What counts is the median of the ratios of neighbouring rounds.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from bench.__main__ import end_progress, progress
from bench.gateway import toolyard, upstream
from bench.load import Client, Target, connect, pump
from bench.process import Process, cpu_seconds
from bench.rounds import FIRST, WARMUP_CALLS, wait_for_echo

LOAD = 16
WAYS = {"http": "up", "in process": "own"}
WITHOUT = "off"
AIM = 1.05


def configuration(address: str, traces: str) -> str:
    return f"""
[gateway]
view = "all"
[telemetry]
traces = "{traces}"
[servers.up]
url = "{address}"
[servers.own]
module = "bench.upstream:server"
"""


def measured(kinds: Sequence[str], calls: int, rounds: int) -> dict[tuple[str, str], list[float]]:
    """CPU seconds for a call, by way and kind of tracing: one figure a round."""
    found: dict[tuple[str, str], list[float]] = {}
    with ExitStack() as stack:
        address = stack.enter_context(upstream())
        subjects: list[tuple[str, str, Process, Sequence[Client]]] = []
        for kind in kinds:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            process = stack.enter_context(toolyard(configuration(address, kind), folder))
            for way, server in WAYS.items():
                target = Target(process.port, tool=f"mcp__{server}__echo")
                wait_for_echo(process, target)
                subjects.append((way, kind, process, connect(target, "modern", LOAD, handshake=True)))
        for *_, clients in subjects:
            pump(clients, range(WARMUP_CALLS))
        subjects.sort(key=lambda subject: subject[0])
        for turn in range(rounds):
            progress(f"round {turn + 1} of {rounds}")
            numbers = range(FIRST + turn * calls, FIRST + (turn + 1) * calls)
            for way, kind, process, clients in reversed(subjects) if turn % 2 else subjects:
                before = cpu_seconds(process.pid)
                pump(clients, numbers)
                cost = (cpu_seconds(process.pid) - before) / calls
                found.setdefault((way, kind), []).append(cost)
    end_progress()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.traces", description=__doc__.split("\n")[0])
    parser.add_argument("--calls", type=int, default=1500, help="a round (default: 1500)")
    parser.add_argument("--rounds", type=int, default=20, help="rounds (default: 20)")
    parser.add_argument("--otel", action="store_true", help="also OpenTelemetry's SDK, without a receiver")
    options = parser.parse_args()
    kinds = [WITHOUT, "local", *(["otlp"] if options.otel else [])]
    found = measured(kinds, options.calls, options.rounds)
    print(f"{'a forward':12}{'traces':10}{'CPU, ms':>9}{'more, µs':>10}{'ratio':>8}")
    met = True
    for way in WAYS:
        without = found[way, WITHOUT]
        for kind in kinds:
            costs = found[way, kind]
            pairs = list(zip(costs, without, strict=True))
            ratio = median(cost / other for cost, other in pairs)
            more = median(cost - other for cost, other in pairs) * 1e6
            print(f"{way:12}{kind:10}{median(costs) * 1e3:9.3f}{more:10.1f}{ratio:8.3f}")
            met = met and (way != "http" or kind != "local" or ratio <= AIM)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
