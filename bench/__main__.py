"""`python -m bench`: measures, prints tables, and writes the figures to `build/`.

Owns the command line, the progress on stderr and the order of the parts: the kit beside a bare app and the
SDK (`build/bench.json`), the gateway beside its peers (`build/bench-gateway.json`), callers that are known
beside callers that are not (`build/bench-callers.json`). After a full run it draws the first two in
`docs/images`.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import platform
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from bench import (
    callers,
    callers_report,
    chart,
    gateway,
    gateway_chart,
    gateway_report,
    gateway_run,
    measure,
    report,
)
from bench.connection import WrongReply
from bench.peers import PEERS
from bench.process import ROOT

DISTRIBUTIONS = ("toolyard", "mcp", "aiohttp", "uvicorn", "httptools", "uvloop", "msgspec", "pydantic")
MODULES = {"kit": "toolyard.kit", "sdk": "mcp"}


def progress(text: str) -> None:
    """Rewrites one line on a terminal; prints lines elsewhere."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
    else:
        print(text, file=sys.stderr, flush=True)


def end_progress() -> None:
    progress("done\n" if sys.stderr.isatty() else "done")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure what Toolyard costs.")
    parser.add_argument("--part", choices=PARTS, help="only this part (default: all)")
    parser.add_argument(
        "--before",
        type=Path,
        metavar="CHECKOUT",
        help="callers: also measure the gateway of another checkout, which is to be no slower",
    )
    parser.add_argument(
        "--peers",
        nargs="*",
        choices=[peer.key for peer in PEERS],
        help="only these peers; the first run installs them, in minutes (default: all, none with --quick)",
    )
    parser.add_argument("--no-peers", action="store_const", const=[], dest="peers", help="no peers at all")
    parser.add_argument(
        "--calls", type=int, default=1000, help="calls per server, era and round (default: 1000)"
    )
    parser.add_argument("--rounds", type=int, default=9, help="interleaved rounds (default: 9)")
    # Two loads, because the ratios depend on the load. With 32 the server always has work. With 8 the
    # client sleeps between replies, and the kernel charges the wake-ups to the server.
    parser.add_argument(
        "--connections",
        type=int,
        nargs="+",
        default=[32, 8],
        help="keep-alive connections of the kit's part (default: 32 8)",
    )
    parser.add_argument(
        "--quick", action="store_true", help="300 calls in 3 rounds, no peers: a look, not a figure to quote"
    )
    parser.add_argument("--check", action="store_true", help="exit with 1 when a target is missed")
    parser.add_argument("--out", type=Path, default=ROOT / "build", help="the folder for the figures")
    options = parser.parse_args()
    if options.quick:
        options.calls, options.rounds = 300, 3
    asked: list[str] | None = options.peers
    # A chart of some figures would replace the chart of all.
    options.draw = asked is None and not options.quick
    options.peers = [peer for peer in PEERS if options.draw or peer.key in (asked or ())]
    if options.before and not (options.before / "src" / "toolyard").is_dir():
        parser.error(f"--before: {options.before} is no checkout of toolyard")
    if min(options.calls, options.rounds, *options.connections) < 1:
        parser.error("--calls, --rounds and --connections take numbers from 1 up")
    return options


def installed() -> list[str]:
    """The MCP servers that are installed; warns of missing ones, whose rows stay empty."""
    found = [name for name, module in MODULES.items() if _is_there(module)]
    for name in MODULES.keys() - found:
        print(f"warning: '{MODULES[name]}' is not installed, '{name}' is not measured", file=sys.stderr)
    return found


def _is_there(module: str) -> bool:
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:  # the package above it is missing
        return False
    return spec is not None and spec.origin is not None


def versions() -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for name in DISTRIBUTIONS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    return found


def setting(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "calls": options.calls,
        "rounds": options.rounds,
        "connections": options.connections,
        "sessions": measure.SESSIONS,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.release()} {platform.machine()}, {os.cpu_count()} cores",
        "versions": versions(),
    }


def run_kit(options: argparse.Namespace) -> bool:
    """Measures, prints and writes; True if every target is met."""
    names = installed()
    calls = {
        load: measure.calls(
            ["bare", *names],
            per_round=options.calls,
            rounds=options.rounds,
            connections=load,
            progress=progress,
        )
        for load in options.connections
    }
    imports = measure.imports(names, rounds=options.rounds, progress=progress)
    idle = {name: measure.idle_sessions(name, progress=progress) for name in names}
    end_progress()
    table = report.rows(calls, imports, idle)
    record = report.record(table, calls, imports, idle, setting(options))
    keep(options, "bench", record, chart.draw)
    report.show(table, f"The kit: {options.rounds} rounds of {options.calls} calls")
    return bool(record["met"])


def run_gateway(options: argparse.Namespace) -> bool:
    found = gateway_run.run(
        options.peers, calls=options.calls, rounds=options.rounds, quick=options.quick, progress=progress
    )
    end_progress()
    table = gateway_report.rows(found)
    record = gateway_report.record(found, table, setting(options))
    keep(options, "bench-gateway", record, gateway_chart.draw)
    report.show(table, f"The gateway: {options.rounds * options.calls} calls each, of ours")
    report.show_lines(gateway_report.speed_lines(gateway_report.speeds(found)))
    for note in gateway_report.notes(found):
        print(note)
    return bool(record["met"])


def run_callers(options: argparse.Namespace) -> bool:
    starts = 1 if options.quick else 5
    with gateway.upstream() as address:
        found = callers_report.Everything(
            callers.calls(
                address,
                per_round=max(1, options.calls // 4),
                rounds=options.rounds * 2,
                starts=starts,
                before=options.before,
                progress=progress,
            ),
            callers.lists(progress),
            callers.lookups(progress, 2_000 if options.quick else callers.MANY_KEYS),
        )
    end_progress()
    table = callers_report.rows(found)
    record = callers_report.record(found, table, setting(options))
    keep(options, "bench-callers", record)
    report.show(table, f"Callers: {starts} starts of {options.rounds * 2} rounds")
    report.show_lines(callers_report.spread_lines(found))
    return bool(record["met"])


def keep(
    options: argparse.Namespace,
    name: str,
    record: dict[str, Any],
    draw: Callable[[dict[str, Any]], str] | None = None,
) -> None:
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / f"{name}.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    if options.draw and draw is not None:
        chart.write(draw(record), name)


PARTS = {"kit": run_kit, "gateway": run_gateway, "callers": run_callers}


def stop(signum: int, frame: object) -> NoReturn:
    raise SystemExit(128 + signum)


def main() -> int:
    options = arguments()
    signal.signal(signal.SIGTERM, stop)  # so that the servers are ended too
    try:
        parts = [part for name, part in PARTS.items() if options.part in (None, name)]
        met = [part(options) for part in parts]
    except KeyboardInterrupt:
        return 130
    except WrongReply as error:
        print(f"\nerror: nothing was measured, a reply was wrong: {error}", file=sys.stderr)
        return 2
    return 0 if all(met) or not options.check else 1


if __name__ == "__main__":
    sys.exit(main())
