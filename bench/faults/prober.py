"""`python -m bench.faults.prober GATEWAY CONTROL UPSTREAM TOOL…`: times calls of the good tools.

The arguments are ports. A lane for each tool calls it through the gateway, then through the control; the
first lane calls the upstream itself too. A separate process, so that other work of the benchmark, such as
reading hundreds of megabytes, is not measured as the gateway's.

It prints a line `ready`. The line `go` on standard input starts a window, the line `stop` ends it. For
each window it prints one JSON object: the seconds of every call by gateway and tool, and the errors of
failed calls.
"""

import asyncio
import gc
import json
import sys
import time

from tests.faults.talk import Talk

DIRECT = "echo"
PAUSE_S = 0.002
"""Between two calls of a lane: the load is steady and leaves the machine room for the fault."""


class Prober:
    def __init__(self, gateway: int, control: int, upstream: int, tools: list[str]) -> None:
        self._lanes = [[("gateway", gateway, tool), ("control", control, tool)] for tool in tools]
        self._lanes[0].append(("direct", upstream, DIRECT))
        self._seconds: dict[str, dict[str, list[float]]] = {}
        self._failures: list[str] = []
        self._going = asyncio.Event()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        print("ready", flush=True)
        lanes = [asyncio.create_task(self._follow(lane)) for lane in self._lanes]
        while line := await reader.readline():
            if line.strip() == b"go":
                self._seconds, self._failures = {}, []
                gc.collect()
                self._going.set()
            else:
                self._going.clear()
                print(json.dumps({"seconds": self._seconds, "failures": self._failures}), flush=True)
        for lane in lanes:
            lane.cancel()

    async def _follow(self, lane: list[tuple[str, int, str]]) -> None:
        talks = [(place, tool, Talk(port)) for place, port, tool in lane]
        number = 0
        while True:
            for place, tool, talk in talks:
                await self._going.wait()
                number += 1
                await self._call(place, tool, talk, f"{tool} {number}")
                await asyncio.sleep(PAUSE_S)

    async def _call(self, place: str, tool: str, talk: Talk, text: str) -> None:
        started = time.perf_counter()
        try:
            answer = await talk.call(tool, text=text)
            if answer["result"]["content"][0]["text"] != text:
                raise ValueError(answer)
        except (OSError, KeyError, ValueError, asyncio.IncompleteReadError) as error:
            self._failures.append(f"{place} {tool}: {error!r}"[:500])
            talk.close()
        self._seconds.setdefault(place, {}).setdefault(tool, []).append(time.perf_counter() - started)


if __name__ == "__main__":
    gc.disable()  # collected between windows
    asyncio.run(Prober(*map(int, sys.argv[1:4]), tools=sys.argv[4:]).run())
