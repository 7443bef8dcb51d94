"""One of several processes with limits in one store.

python -m tests.limits.replica URL calls TIMES LIMIT   prints "ready", waits for a line, makes calls, several
                                                       at once, and prints how many passed
python -m tests.limits.replica URL hold                takes a slot and keeps it until it is killed
"""

import asyncio
import sys
from collections.abc import Sequence

from toolyard.config.callers import LimitRule, LimitsConfig
from toolyard.limits import Limiter, LimitExceededError
from toolyard.state import open_state
from toolyard.wire.call import Principal

AT_ONCE = 32
ANA = Principal(subject="ana")
CENTURY = 100 * 365 * 86400.0
ONE_AT_A_TIME = LimitsConfig(rules=(LimitRule(name="slots", concurrent=1),), unavailable="closed")
LEASE_SECONDS = 0.5


def calls_in_a_window(limit: int) -> LimitsConfig:
    rule = LimitRule(name="window", calls=limit, window=CENTURY, rate=1e6, burst=1_000_000)
    return LimitsConfig(rules=(rule,), unavailable="closed")


async def passed(limiter: Limiter, times: int, principal: Principal = ANA) -> int:
    tries = iter(range(times))

    async def call() -> int:
        done = 0
        for _ in tries:
            try:
                admission = await limiter.admit(principal, "notes", "add")
            except LimitExceededError:
                continue
            await admission.finish(bytes=10, tokens=3, failed=False)
            done += 1
        return done

    return sum(await asyncio.gather(*(call() for _ in range(AT_ONCE))))


async def race(url: str, shares: Sequence[int], limit: int) -> list[int]:
    """Let processes make so many calls each, all at the same time; returns how many passed in each."""
    pipe = asyncio.subprocess.PIPE
    running = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.limits.replica", url, "calls", str(share), str(limit)),
            stdin=pipe,
            stdout=pipe,
        )
        for share in shares
    ]
    for each in running:
        assert each.stdout is not None
        assert await each.stdout.readline() == b"ready\n"
    said = await asyncio.gather(*(each.communicate(b"go\n") for each in running))
    return [int(out) for out, _ in said]


async def main(url: str, what: str, *numbers: str) -> None:
    state = open_state(url, None)
    if what == "calls":
        # Nobody refuses because two cores are slow.
        limiter = Limiter(calls_in_a_window(int(numbers[1])), state, store_seconds=30)
        await state.get("connected")
        print("ready", flush=True)
        sys.stdin.readline()
        print(await passed(limiter, int(numbers[0])))
    else:
        limiter = Limiter(ONE_AT_A_TIME, state, lease_seconds=LEASE_SECONDS)
        await limiter.admit(ANA, "notes", "add")
        print("held", flush=True)
        await asyncio.Event().wait()
    await state.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
