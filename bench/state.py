"""`python -m bench.state`: what a read and a compare-and-set cost in each store, as a table.

Owns nothing but the measurement: the stores are real ones, started for it. CPU is that of our process alone,
the best of several rounds; the time that passes is the median, with nothing else asked meanwhile.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvloop

from tests.stores import PostgresServer, RedisServer
from toolyard.sessions import Leases
from toolyard.state import open_state

CALLS = 1000
ROUNDS = 5
VALUE = b"x" * 400
"""About as long as a session with its details."""


async def measured(action: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    """Microseconds of CPU and of time, for one."""
    best, passed = float("inf"), list[float]()
    for _ in range(ROUNDS + 1):
        cpu = time.process_time()
        for _ in range(CALLS):
            began = time.perf_counter()
            await action()
            passed.append(time.perf_counter() - began)
        best = min(best, (time.process_time() - cpu) / CALLS)
    # The first round warmed up.
    return best * 1e6, statistics.median(passed[CALLS:]) * 1e6


async def row(name: str, url: str, folder: Path) -> str:
    state = open_state(url, folder)
    leases = Leases(state, 3600)
    await state.put("key", VALUE)
    await leases.get("tenant", "thread", "")
    cells = [
        await measured(lambda: state.get("key")),
        await measured(lambda: state.swap("key", VALUE, VALUE, 3600)),
        await measured(lambda: leases.get("tenant", "thread", "")),
    ]
    await leases.close()
    await state.close()
    return f"| {name} | " + " | ".join(f"{cpu:.0f} / {wall:.0f}" for cpu, wall in cells) + " |"


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder, RedisServer() as redis, PostgresServer() as postgres:
        print("| µs, CPU / time | `get` | `swap` | a thread's lease |")
        print("|---|---|---|---|")
        for name, url in (
            ("memory", "memory:"),
            ("SQLite", "sqlite:"),
            ("Redis", redis.url),
            ("PostgreSQL", postgres.url),
        ):
            print(f"measuring {name}", file=sys.stderr)
            print(await row(name, url, Path(folder)))


if __name__ == "__main__":
    uvloop.run(main())
