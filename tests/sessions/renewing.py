"""A process whose calls were all refused: python -m tests.sessions.renewing URL LOG STALE CALLS.

Every session that it begins is a line in LOG; what its calls were given is printed. With CALLS 0 it begins
one and never comes to an end with it.
"""

import asyncio
import os
import sys
from pathlib import Path

from toolyard.sessions import Leases, NewSession
from toolyard.state import open_state


async def main(url: str, log: Path, stale: str, calls: int) -> None:
    async def begin() -> NewSession:
        with log.open("a") as file:
            file.write(f"{os.getpid()}\n")
        # As slow as a remote over the network; for ever, if that was asked for.
        await asyncio.sleep(0.2 if calls else 3600)
        return NewSession(f"session-{os.getpid()}")

    state = open_state(url, None)
    leases = Leases(state, 600)
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    renewals = [leases.renew("acme", "t1", "composio", stale, begin) for _ in range(calls or 1)]
    print(*{lease.id for lease in await asyncio.gather(*renewals)}, flush=True)
    await state.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])))
