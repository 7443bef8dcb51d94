"""`python -m bench.faults.prober GATEWAY TWIN UPSTREAM TOOL…`: calls the good tools with a clock.

The arguments are ports. A lane for each tool calls it through the gateway, then through the twin; the first
lane calls the upstream itself too. A process of its own, so that what the benchmark does meanwhile (reading
hundreds of megabytes, say) is not measured as a gateway's.

It says `ready` on a line. The line `go` on standard input starts a window, the line `stop` ends it; one JSON
object comes out for each: the seconds of every call by place and tool, and what was wrong with those that
failed.
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
    def __init__(self, gateway: int, twin: int, upstream: int, tools: list[str]) -> None:
        self._lanes = [[("gateway", gateway, tool), ("twin", twin, tool)] for tool in tools]
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
    gc.disable()  # between windows it is collected by hand
    asyncio.run(Prober(*map(int, sys.argv[1:4]), tools=sys.argv[4:]).run())
