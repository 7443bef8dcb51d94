"""Kills processes that write the audit, with SIGKILL under load; `make audit-kill`.

Every record that was acknowledged has to be in the store afterwards, and every chain has to verify. The
processes and the counting are in `tests/audit/killing.py`. Exits with 1 if anything is missing.
"""

import argparse
import asyncio
import random
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # a script's path has only its own folder

from tests.audit.killing import kill_writers  # noqa: E402
from tests.stores import PostgresServer  # noqa: E402

STORES = ("file", "sqlite", "postgres")
MOST = {"file": 20_000, "sqlite": 5_000, "postgres": 2_000}
"""How many records a process may write before it is killed: about a second's worth."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="how often, in each store (default: 20)")
    parser.add_argument("--store", choices=STORES, action="append", help="one of them; may be repeated")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="repeats a run's choices")
    given = parser.parse_args()
    print(f"seed {given.seed}")
    results = [run(store, given.kills, given.seed) for store in given.store or STORES]
    return 0 if all(results) else 1


def run(store: str, kills: int, seed: int) -> bool:
    started = time.monotonic()
    if store == "postgres":
        with PostgresServer() as server:
            report = asyncio.run(kill_writers(server.url, kills=kills, most=MOST[store], seed=seed))
    else:
        report = asyncio.run(kill_writers(f"{store}:", kills=kills, most=MOST[store], seed=seed))
    print(
        f"{store:<9} {report.kills} kills, {report.acknowledged:,} acknowledged, "
        f"{report.recorded:,} recorded, {len(report.missing)} missing, {report.chains} chains, "
        f"{report.torn} torn, {len(report.damages)} damaged, {time.monotonic() - started:.0f} s"
    )
    for problem in (*report.missing[:5], *report.damages[:5]):
        print(f"  {problem}")
    return report.is_good


if __name__ == "__main__":
    sys.exit(main())
