"""A process that adds to a number in a store: python -m tests.state.adding URL KEY TIMES."""

import asyncio
import sys

from toolyard.state import open_state


async def main(url: str, key: str, times: int) -> None:
    state = open_state(url, None)
    done = 0
    while done < times:
        before = await state.get(key)
        done += await state.swap(key, before, b"%d" % (int(before or b"0") + 1))
    await state.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
