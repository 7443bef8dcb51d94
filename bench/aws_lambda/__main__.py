"""`python -m bench.aws_lambda`: build the tiflux function, measure it, show the table, write the figures.

Owns the command line and the order: starts, warm calls beside the other way, tenants. A full run writes its
table into `docs/`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from dataclasses import asdict

from bench.__main__ import end_progress, progress
from bench.aws_lambda import figures, report
from bench.aws_lambda.api import BASE
from bench.aws_lambda.built import PEER, Built, Pythons, build, pythons
from bench.process import HOST, ROOT, free_port, running
from bench.report import Row, show

CALLS, ROUNDS = 400, 11
OUT = ROOT / "build" / "bench-lambda.json"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.aws_lambda", description="Measure the tiflux function as AWS Lambda runs it."
    )
    parser.add_argument("--calls", type=int, default=CALLS, help="of ours in a round (default: %(default)s)")
    parser.add_argument("--peer-calls", type=int, default=3, help="of the other way (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="interleaved (default: %(default)s)")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a target is missed")
    return parser.parse_args()


def measured(options: argparse.Namespace, built: Built, found_pythons: Pythons) -> figures.Found:
    port = free_port()
    env = {
        "TIFLUX_API_BASE_URL": f"http://{HOST}:{port}{BASE}",
        "TOOLYARD_KEY": "a key for measuring, of many characters",
    }
    found = figures.Found()
    command = [sys.executable, "-m", "bench.aws_lambda.api", "--port", str(port)]
    with running("api", command, port):
        found.starts = figures.starts(built, found_pythons, env, options.rounds, progress)
        found.calls = figures.calls(
            built,
            found_pythons,
            env,
            per_round=options.calls,
            rounds=options.rounds,
            peer_calls=options.peer_calls,
            progress=progress,
        )
        found.tenants, found.checked = figures.tenants(built, found_pythons, env, progress)
    return found


def write(found: figures.Found, rows: list[Row], built: Built, version: str) -> None:
    setting = {
        "python": version,
        "machine": f"{platform.system()} {platform.release()} {platform.machine()}, {os.cpu_count()} cores",
        "peer": PEER,
        "variables": dict(built.variables),
    }
    record = {
        "setting": setting,
        "rows": [asdict(row) for row in rows],
        "met": all(row.met for row in rows if row.target),
        "raw": {"start_cpu_s": found.starts, "call_cpu_s": found.calls},
    }
    OUT.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def main() -> int:
    options = arguments()
    progress("installing the SDK and the other way, once")
    found_pythons = pythons()
    progress("building the function")
    built = build(found_pythons.version)
    found = measured(options, built, found_pythons)
    end_progress()
    rows = report.rows(found, built, found_pythons)
    show(rows, f"The tiflux function on Python {found_pythons.version}")
    write(found, rows, built, found_pythons.version)
    if options.calls >= CALLS and options.rounds >= ROUNDS:
        report.write(rows)
    return 0 if not options.check or all(row.met for row in rows if row.target) else 1


if __name__ == "__main__":
    sys.exit(main())
