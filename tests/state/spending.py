"""A process that asks a store for calls of one window: python -m tests.state.spending URL KEY TIMES CEILING.

Prints how many it got.
"""

import asyncio
import sys
from collections.abc import Sequence

from toolyard.state import State, open_state
from toolyard.state.store import RateSpend, Spend, WindowSpend

AT_ONCE = 16
CENTURY = 100 * 365 * 86400.0


async def passed(state: State, entries: Sequence[Spend], times: int) -> int:
    """How many of so many tries succeed, several at a time."""
    tries = iter(range(times))

    async def ask() -> int:
        return sum([not (await state.spend(entries)).refused for _ in tries])

    return sum(await asyncio.gather(*(ask() for _ in range(AT_ONCE))))


async def main(url: str, key: str, times: int, ceiling: int) -> None:
    state = open_state(url, None)
    entries = [WindowSpend(f"{key}calls", 1, ceiling, CENTURY), RateSpend(f"{key}rate", 0.001, 2 * ceiling)]
    print(await passed(state, entries, times))
    await state.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
