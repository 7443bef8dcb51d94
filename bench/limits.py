"""`python -m bench.limits`: what limits cost, and whether three replicas give what one would, as tables.

Owns nothing but the measurement: the stores are real ones, started for it, and the replicas are processes:
bare limiters, and whole gateways with API keys that are called over HTTP. CPU is that of one process, the
best of several rounds; calls a second of limiters include their start.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

from tests.gateway.replicas import Replicas, window
from tests.gateway.replicas import race as gateway_race
from tests.gateway.replicas import replicas as gateway_replicas
from tests.limits.replica import ANA, race
from tests.stores import PostgresServer, RedisServer
from toolyard.config.callers import LimitRule, LimitsConfig, PriceRule
from toolyard.limits import Limiter
from toolyard.state import MemoryState, open_state

REPLICAS = 3
CALLS = 10_000
LIMIT = 1_000
AT_ONCE = (48, 900)
"""Calls that three gateways have at a time: a few, and more than they can bear."""
ROUNDS = 5
PLENTY = 10**12

RULES = {
    "no rule for the caller": LimitRule(who=("user:ben",), rate=1),
    "`rate`": LimitRule(rate=1e6, burst=10**6),
    "`rate`, `calls_a_day`": LimitRule(rate=1e6, burst=10**6, calls_a_day=PLENTY),
    "`rate`, `tokens_a_day`": LimitRule(rate=1e6, burst=10**6, tokens_a_day=PLENTY),
    "`rate`, `concurrent`": LimitRule(rate=1e6, burst=10**6, concurrent=100),
    "`rate`, `concurrent`, `calls_a_day`, `tokens_a_day`, `cost_a_month`": LimitRule(
        rate=1e6, burst=10**6, concurrent=100, calls_a_day=PLENTY, tokens_a_day=PLENTY, cost_a_month=1e9
    ),
}
PRICES = (PriceRule(tools=("*",), call=0.001, million_tokens=1.0),)


async def cost(limiter: Limiter, calls: int) -> tuple[float, float]:
    """Microseconds of CPU, and of time in the median, for `admit` and `finish` of one call."""
    best, passed = float("inf"), list[float]()
    for _ in range(ROUNDS):
        cpu = time.process_time()
        for _ in range(calls):
            began = time.perf_counter()
            admission = await limiter.admit(ANA, "notes", "add")
            await admission.finish(bytes=1000, tokens=250, failed=False)
            passed.append(time.perf_counter() - began)
        best = min(best, (time.process_time() - cpu) / calls)
    return best * 1e6, statistics.median(passed) * 1e6


async def costs(stores: dict[str, str], quick: bool) -> None:
    print(f"| µs for a call, CPU / time | memory | {' | '.join(stores)} |")
    print(f"|---|---|{'---|' * len(stores)}")
    for name, rule in RULES.items():
        config = LimitsConfig(rules=(rule,), prices=PRICES)
        cells = [await cost(Limiter(config, MemoryState()), 2000 if quick else 20_000)]
        for url in stores.values():
            state = open_state(url, None)
            limiter = Limiter(config, state, store_seconds=30)
            cells.append(await cost(limiter, 50 if quick else 500))
            await limiter.close()
            for key in await state.keys("limits/"):
                await state.delete(key)
            await state.close()
        shown = (f"{cpu:.1f} / {wall:.1f}" if cpu < 100 else f"{cpu:.0f} / {wall:.0f}" for cpu, wall in cells)
        print(f"| {name} | {' | '.join(shown)} |", flush=True)


async def replicas(stores: dict[str, str], quick: bool) -> bool:
    calls, limit = (CALLS // 10, LIMIT // 10) if quick else (CALLS, LIMIT)
    print(f"\n{calls:,} calls by {REPLICAS} processes against {limit:,} in a window:\n")
    print("| | passed | by each | calls a second |")
    print("|---|---|---|---|")
    exact = True
    for name, url in stores.items():
        shares = [calls // REPLICAS + (number < calls % REPLICAS) for number in range(REPLICAS)]
        began = time.perf_counter()
        said = await race(url, shares, limit)
        rate = calls / (time.perf_counter() - began)
        exact = exact and sum(said) == limit
        print(f"| {name} | {sum(said):,} | {', '.join(map(str, said))} | {rate:,.0f} |", flush=True)
    return exact


async def gateways(stores: dict[str, str], quick: bool) -> bool:
    calls, limit = (CALLS // 10, LIMIT // 10) if quick else (CALLS, LIMIT)
    print(f"\n{calls:,} calls over HTTP to {REPLICAS} gateways against {limit:,}:\n")
    print("| | what | at once | passed | by each | refused | calls a second |")
    print("|---|---|---|---|---|---|---|")
    exact = True
    for name, url in stores.items():
        with tempfile.TemporaryDirectory() as folder:
            async with gateway_replicas(Path(folder), url, window(limit), REPLICAS) as group:
                rounds = {at_once: await group.key(f"user-{at_once}") for at_once in AT_ONCE}
                for at_once, caller in rounds.items():
                    exact &= await shown(group, name, "limit", caller, calls, limit, at_once)
                # No more than the limit of its user, who is another one.
                await group.key("parent")
                granted = await group.grant("sub-agent", "--from", "parent", "--calls", str(limit // 2))
                exact &= await shown(group, name, "grant", granted, calls // 2, limit // 2, AT_ONCE[0])
    return exact


async def shown(
    group: Replicas, store: str, what: str, caller: dict[str, str], calls: int, limit: int, at_once: int
) -> bool:
    began = time.perf_counter()
    found = await gateway_race(group, caller, calls, at_once=at_once // REPLICAS)
    rate = calls / (time.perf_counter() - began)
    by_each = ", ".join(map(str, found.passed))
    row = (store, what, f"{at_once}", f"{sum(found.passed):,}", by_each, f"{found.refused:,}", f"{rate:,.0f}")
    print(f"| {' | '.join(row)} |", flush=True)
    for message, count in found.others.items():
        print(f"{count} others: {message}")
    return sum(found.passed) == limit and found.refused == calls - limit


async def main() -> int:
    options = argparse.ArgumentParser(prog="bench.limits")
    options.add_argument("--replicas", action="store_true", help="only the calls of three processes")
    options.add_argument("--gateways", action="store_true", help="only the calls of three gateways")
    options.add_argument("--quick", action="store_true", help="a tenth of the calls")
    chosen = options.parse_args()
    quick = chosen.quick
    with tempfile.TemporaryDirectory() as folder, RedisServer() as redis, PostgresServer() as postgres:
        stores = {
            "SQLite": f"sqlite://{Path(folder)}/state.db",
            "Redis": redis.url,
            "PostgreSQL": postgres.url,
        }
        exact = True
        if not chosen.replicas and not chosen.gateways:
            await costs(stores, quick)
        if not chosen.gateways:
            exact = await replicas(stores, quick)
        if not chosen.replicas:
            shared = {name: url for name, url in stores.items() if name != "SQLite"}
            exact = await gateways(shared, quick) and exact
        return 0 if exact else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
