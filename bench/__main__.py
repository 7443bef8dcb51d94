"""`python -m bench`: measure, show one table on stdout, write `build/bench.json`.

Owns the command line, the progress on stderr and the order of the measurements.
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
from pathlib import Path
from typing import Any, NoReturn

from bench import measure, report
from bench.load import WrongReply
from bench.process import ROOT

DISTRIBUTIONS = ("toolyard", "mcp", "uvicorn", "httptools", "uvloop", "msgspec", "pydantic")
MODULES = {"kit": "toolyard.kit", "sdk": "mcp"}


def progress(text: str) -> None:
    """One line that is rewritten on a terminal, a line each elsewhere."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
    else:
        print(text, file=sys.stderr, flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure what Toolyard's kit costs.")
    parser.add_argument(
        "--calls", type=int, default=1000, help="calls per server, era and round (default: 1000)"
    )
    parser.add_argument("--rounds", type=int, default=9, help="interleaved rounds (default: 9)")
    # Two loads, because the ratios depend on it. With 32 the server always has work. With 8 the client
    # sleeps between replies, and what the kernel spends on waking it is charged to the server.
    parser.add_argument(
        "--connections", type=int, nargs="+", default=[32, 8], help="keep-alive connections (default: 32 8)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="300 calls in 3 rounds: a look, not a figure to quote"
    )
    parser.add_argument("--check", action="store_true", help="exit with 1 when a target is missed")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "build" / "bench.json", help="where the figures go"
    )
    options = parser.parse_args()
    if options.quick:
        options.calls, options.rounds = 300, 3
    if min(options.calls, options.rounds, *options.connections) < 1:
        parser.error("--calls, --rounds and --connections take numbers from 1 up")
    return options


def installed() -> list[str]:
    """The MCP servers that can be measured here; a missing one is named, and its rows stay empty."""
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


def run(options: argparse.Namespace) -> bool:
    """Measure, show, write; True when every target is met."""
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
    progress("done\n" if sys.stderr.isatty() else "done")
    table = report.rows(calls, imports, idle)
    record = report.record(table, calls, imports, idle, setting(options))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    if sys.stdout.isatty():
        report.show_rich(table, f"{options.rounds} rounds of {options.calls} calls")
    else:
        print(report.show_plain(table))
    return bool(record["met"])


def stop(signum: int, frame: object) -> NoReturn:
    raise SystemExit(128 + signum)


def main() -> int:
    options = arguments()
    signal.signal(signal.SIGTERM, stop)  # so that the servers are ended then as well
    try:
        met = run(options)
    except KeyboardInterrupt:
        return 130
    except WrongReply as error:
        print(f"\nerror: nothing was measured, a reply was wrong: {error}", file=sys.stderr)
        return 2
    return 0 if met or not options.check else 1


if __name__ == "__main__":
    sys.exit(main())
