"""`python -m tests.faults.prober GATEWAY UPSTREAM TOOL…`: calls the good tools and says how long it took.

GATEWAY and UPSTREAM are ports: `echo` of the upstream is called without the gateway too, for comparison.

A process of its own, so that what a test does meanwhile (reading hundreds of megabytes, say) is not measured
as the gateway's. The line `go` on standard input starts a window, the line `stop` ends it; one JSON object
comes out for each window: the seconds of every call through the gateway, of every direct one, and what was
wrong with those that failed.
"""

import asyncio
import json
import sys
import time

from tests.faults.talk import Talk

DIRECT = "echo"
PAUSE_S = 0.002
"""Between two calls of one tool: the load is steady and leaves the machine room for the fault."""


class Prober:
    def __init__(self, gateway: int, upstream: int, tools: list[str]) -> None:
        self._places = [(gateway, tool) for tool in tools] + [(upstream, DIRECT)]
        self._seconds: list[float] = []
        self._direct: list[float] = []
        self._failures: list[str] = []
        self._going = asyncio.Event()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        callers = [asyncio.create_task(self._call(port, tool)) for port, tool in self._places]
        while line := await reader.readline():
            if line.strip() == b"go":
                self._seconds, self._direct, self._failures = [], [], []
                self._going.set()
            else:
                self._going.clear()
                found = {"seconds": self._seconds, "direct": self._direct, "failures": self._failures}
                print(json.dumps(found), flush=True)
        for caller in callers:
            caller.cancel()

    async def _call(self, port: int, tool: str) -> None:
        talk = Talk(port)
        number = 0
        while True:
            await self._going.wait()
            number += 1
            text = f"{tool} {number}"
            started = time.perf_counter()
            try:
                answer = await talk.call(tool, text=text)
                if answer["result"]["content"][0]["text"] != text:
                    raise ValueError(answer)
            except (OSError, KeyError, ValueError, asyncio.IncompleteReadError) as error:
                self._failures.append(f"{tool}: {error!r}"[:500])
                talk.close()
            seconds = self._direct if tool == DIRECT else self._seconds
            seconds.append(time.perf_counter() - started)
            await asyncio.sleep(PAUSE_S)


if __name__ == "__main__":
    asyncio.run(Prober(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]).run())
