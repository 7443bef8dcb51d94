"""Kills processes that write the audit, with SIGKILL under load; `make audit-kill`.

They are bare writers, which are fast, and whole gateways with clients. Every record that was acknowledged has
to be in the store afterwards, and every chain has to verify. The processes and the counting are in
`tests/audit/killing.py`. Exits with 1 if anything is missing.
"""

import argparse
import asyncio
import random
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # a script's path has only its own folder

from tests.audit.killing import KillReport, kill_gateways, kill_writers  # noqa: E402
from tests.stores import PostgresServer  # noqa: E402

STORES = ("file", "sqlite", "postgres")
LOADS = {"writer": kill_writers, "gateway": kill_gateways}
MOST = {
    ("writer", "file"): 20_000,
    ("writer", "sqlite"): 5_000,
    ("writer", "postgres"): 2_000,
    ("gateway", "file"): 2_000,
    ("gateway", "sqlite"): 1_000,
    ("gateway", "postgres"): 1_000,
}
"""How many records a process may write before it is killed: about a second's worth."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="how often, in each store (default: 20)")
    parser.add_argument("--store", choices=STORES, action="append", help="one of them; may be repeated")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="repeats a run's choices")
    parser.add_argument("--only", choices=LOADS, help="bare writers, or whole gateways")
    given = parser.parse_args()
    print(f"seed {given.seed}")
    loads = {name: kill for name, kill in LOADS.items() if given.only in (None, name)}
    is_good = True
    for store in given.store or STORES:
        for load, kill in loads.items():
            started = time.monotonic()
            report = run(kill, store, MOST[load, store], given.kills, given.seed)
            show(f"{load}, {store}", report, time.monotonic() - started)
            is_good = is_good and report.is_good
    return 0 if is_good else 1


def run(kill: Callable[..., Coroutine[Any, Any, KillReport]], store: str, most: int, kills: int, seed: int):
    if store != "postgres":
        return asyncio.run(kill(f"{store}:", kills=kills, most=most, seed=seed))
    with PostgresServer() as server:
        return asyncio.run(kill(server.url, kills=kills, most=most, seed=seed))


def show(name: str, report: KillReport, seconds: float) -> None:
    print(
        f"{name:<18} {report.kills} kills, {report.acknowledged:,} acknowledged, "
        f"{report.recorded:,} recorded, {len(report.missing)} missing, {report.chains} chains, "
        f"{report.torn} torn, {len(report.damages)} damaged, {seconds:.0f} s",
        flush=True,
    )
    if report.said:
        print(f"  toolyard audit verify: {report.said.splitlines()[0]}")
    for problem in (*report.missing[:5], *report.damages[:5]):
        print(f"  {problem}")


if __name__ == "__main__":
    sys.exit(main())
