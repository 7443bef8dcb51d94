"""What recording and replaying cost, in CPU time: `make bench-recordings`.

One process, one client in memory, a server in this process: everything else costs more, so what is added
weighs most here. Each row is the best of several rounds; rounds of all rows alternate, so that a busy
machine slows all of them alike.
"""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

from msgspec import Raw
from msgspec.structs import replace

from toolyard import Client
from toolyard.app import Gateway
from toolyard.app.upstreams import UpstreamTap
from toolyard.config import Config, GatewayConfig, InProcess, ServerConfig
from toolyard.recordings.format import HeaderLine, RecordingWriter, RequestLine, ResponseLine
from toolyard.recordings.recorder import TrafficRecorder
from toolyard.recordings.recording import Recording
from toolyard.recordings.replayer import Replay

CALLS, BIG_CALLS = 200, 10
ROUNDS = 5
BIG = "x" * 100_000


async def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with AsyncExitStack() as stack:
            rows = await prepare(folder, stack)
            best = dict.fromkeys(rows, float("inf"))
            for _ in range(ROUNDS):
                for title, call in rows.items():
                    best[title] = min(best[title], await measure(call, BIG_CALLS if "kB" in title else CALLS))
    plain = best["no tap"]
    for title, seconds in best.items():
        print(f"{title:<32} {seconds * 1e6:8.0f} µs of CPU a call   {seconds / plain:5.2f} times no tap")
    print(f"{'reading a recording':<32} {index_seconds() * 1e6:8.0f} µs of CPU an event")


async def prepare(folder: Path, stack: AsyncExitStack) -> dict[str, Callable[[], Awaitable[object]]]:
    where = InProcess(module="toolyard.servers.demo")
    config = Config(
        servers=(ServerConfig(name="demo", where=where),),
        gateway=GatewayConfig(view="bare", server="demo", state_dir=str(folder / "state")),
    )
    config = replace(config, results=replace(config.results, shape=False))
    writer = RecordingWriter(folder / "run.jsonl", HeaderLine())
    stack.callback(writer.close)
    plain = await opened(stack, config, None)
    recorded = await opened(stack, config, TrafficRecorder(writer))
    await recorded.call_tool("echo", {"text": "hello"})
    await recorded.call_tool("echo", {"text": BIG})
    for number in range(200):
        await recorded.call_tool("echo", {"text": f"call {number}"})
    recording = Recording(folder / "run.jsonl")
    stack.callback(recording.close)
    exact = await opened(stack, recording.config(config), Replay(recording))
    lenient = await opened(
        stack, recording.config(config), Replay(Recording(folder / "run.jsonl"), lenient=True)
    )
    return {
        "no tap": lambda: plain.call_tool("echo", {"text": "hello"}),
        "recorded": lambda: recorded.call_tool("echo", {"text": "hello"}),
        "replayed": lambda: exact.call_tool("echo", {"text": "hello"}),
        "no tap, 100 kB": lambda: plain.call_tool("echo", {"text": BIG}),
        "recorded, 100 kB": lambda: recorded.call_tool("echo", {"text": BIG}),
        "replayed, 100 kB": lambda: exact.call_tool("echo", {"text": BIG}),
        "replayed leniently, of 200": lambda: lenient.call_tool("echo", {"text": "another"}),
    }


async def opened(stack: AsyncExitStack, config: Config, tap: UpstreamTap | None) -> Client:
    gateway = Gateway(config, None, tap=tap)
    await gateway.start()
    stack.push_async_callback(gateway.close)
    for server in gateway.catalogue.servers.values():
        await server.settled.wait()
    return await stack.enter_async_context(Client(gateway.view()))


async def measure(call: Callable[[], Awaitable[object]], calls: int) -> float:
    """Seconds of CPU a call."""
    begun = time.process_time()
    for _ in range(calls):
        await call()
    return (time.process_time() - begun) / calls


def index_seconds() -> float:
    """Seconds of CPU an event, to read and index a recording of 20,000."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "long.jsonl")
        writer = RecordingWriter(path, HeaderLine())
        for number in range(10_000):
            params = Raw(b'{"name":"echo","arguments":{"text":"call %d"}}' % number)
            of = writer.add(
                lambda seq, t, params=params: RequestLine(
                    seq=seq, t=t, server="demo", method="tools/call", name="echo", params=params
                )
            )
            result = Raw(b'{"content":[{"type":"text","text":"call %d"}]}' % number)
            writer.add(lambda seq, t, of=of, result=result: ResponseLine(seq=seq, t=t, of=of, result=result))
        writer.end(0)
        begun = time.process_time()
        Recording(path).close()
        return (time.process_time() - begun) / 20_000


if __name__ == "__main__":
    asyncio.run(main())
