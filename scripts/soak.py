"""Minutes of mixed load on one gateway while its upstreams are killed at random; `make soak`.

Owns the gateway with upstreams of every kind and era, the killing, and the verdict: every call has exactly
one answer, no call that must not run twice did, every error has a kill as its cause, memory and descriptors
stay flat, and no process is left over. The clients and their counts are in `tests/soak`. Writes
build/soak.json, and exits with 1 if a check fails.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import socket
import statistics
import sys
import tempfile
import time
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # a script's path has only its own folder

from tests.faults.yard import Gateway, running, toml  # noqa: E402
from tests.soak.clients import LegacyClient, ModernClient  # noqa: E402
from tests.soak.ledger import Ledger  # noqa: E402
from tests.soak.load import Customer  # noqa: E402
from tests.soak.upstream import JOURNAL_VARIABLE  # noqa: E402

REPORT = ROOT / "build" / "soak.json"
HTTP = {"http_modern": "modern", "http_legacy": "legacy"}
STDIO = {"stdio_modern": "modern", "stdio_legacy": "legacy"}
INSIDE = "inside"
EVERY_UPSTREAM = [*HTTP, *STDIO, INSIDE]

SAMPLE_S = 2.0
WARM_UP = 0.25
"""The share of the time before memory has to be flat."""
FLAT_BYTES, FLAT_SHARE = 8 * 2**20, 0.1
"""What memory may grow by after the warm-up, over all of it: the larger of the two."""
FLAT_DESCRIPTORS = 12
STOP_S = 10.0


class HttpUpstream:
    """A server process that is killed and started again on the same port."""

    def __init__(self, name: str, era: str, folder: Path) -> None:
        self.name = name
        self.port = free_port()
        self._command = ["-m", "tests.soak.upstream", name, era, str(self.port), str(folder / "journal")]
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        null = asyncio.subprocess.DEVNULL
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, *self._command, cwd=ROOT, stdin=null, stdout=null, stderr=null
        )
        async with asyncio.timeout(20):
            while not await reachable(self.port):  # noqa: ASYNC110  it is another process
                await asyncio.sleep(0.02)

    async def kill(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()


class Soak:
    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self._seconds: float = options.minutes * 60
        self._rate: float = options.rate
        self._clients: int = options.clients
        self._kill_every: float = options.kill_every
        self._folder = folder
        self._choice = random.Random(options.seed)
        self._http = [HttpUpstream(name, era, folder) for name, era in HTTP.items()]
        self._samples: list[dict[str, float]] = []
        self.ledger = Ledger()

    async def run(self) -> dict[str, Any]:
        async with AsyncExitStack() as stack:
            for upstream in self._http:
                await upstream.start()
                stack.push_async_callback(upstream.kill)
            gateway = await self._gateway()
            stack.push_async_callback(gateway.kill)
            await self._warm(gateway)
            began = time.monotonic()
            await self._load(gateway, began)
            await self._settle(gateway, began)
            status, seconds = await gateway.stop()
        left = await self._left_over()
        journal = self._folder / "journal"
        self.ledger.check_tokens(journal.read_text().split() if journal.exists() else [])
        return self._report(status, seconds, left)

    async def _gateway(self) -> Gateway:
        servers: dict[str, dict[str, Any]] = {
            upstream.name: {"url": f"http://127.0.0.1:{upstream.port}/mcp"} for upstream in self._http
        }
        journal = str(self._folder / "journal")
        for name, era in STDIO.items():
            args = ["-m", "tests.soak.upstream", name, era, "stdio", journal]
            servers[name] = {"command": sys.executable, "args": args, "cwd": str(ROOT)}
        servers[INSIDE] = {"module": f"tests.soak.upstream:{INSIDE}"}
        config = toml({name: entry | {"timeout": 20.0} for name, entry in servers.items()})
        environment = {JOURNAL_VARIABLE: journal, "PYTHONPATH": str(ROOT)}
        return await Gateway.start(self._folder, config, **environment)

    async def _warm(self, gateway: Gateway) -> None:
        """Every upstream answers once before anything is counted or killed."""
        for name in EVERY_UPSTREAM:
            answer = await gateway.talk.call(f"mcp__{name}__echo", text="first")
            if answer.get("result", {}).get("content", [{}])[0].get("text") != "first":
                sys.exit(f"error: {name!r} does not answer: {answer}")

    async def _load(self, gateway: Gateway, began: float) -> None:
        url = f"http://127.0.0.1:{gateway.port}/mcp"
        pause = self._clients / self._rate
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for number in range(self._clients):
                client = (ModernClient, LegacyClient)[number % 2](url, self.ledger)
                choice = random.Random(self._choice.random())
                group.create_task(Customer(client, EVERY_UPSTREAM, pause, choice).run(stop))
            group.create_task(self._kill(stop))
            group.create_task(self._sample(gateway, began, stop))
            await asyncio.sleep(self._seconds)
            stop.set()

    async def _kill(self, stop: asyncio.Event) -> None:
        while not await set_within(stop, self._choice.expovariate(1 / self._kill_every)):
            victim = self._choice.choice([*self._http, *STDIO])
            if isinstance(victim, str):
                self.ledger.killed(victim)
                for pid in running(self._folder, f"tests.soak.upstream\0{victim}\0"):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                self.ledger.back(victim)  # the gateway starts it anew
            else:
                self.ledger.killed(victim.name)
                await victim.kill()
                await set_within(stop, self._choice.uniform(0, 2))
                await victim.start()
                self.ledger.back(victim.name)

    async def _sample(self, gateway: Gateway, began: float, stop: asyncio.Event) -> None:
        while True:
            self._take_sample(gateway, began)
            if await set_within(stop, SAMPLE_S):
                return

    def _take_sample(self, gateway: Gateway, began: float) -> None:
        sample = {
            "at_s": round(time.monotonic() - began, 1),
            "memory": gateway.memory(),
            "descriptors": gateway.descriptors(),
            "answered": self.ledger.answered,
        }
        self._samples.append(sample)
        bad = sum(self.ledger.complaints.values())
        text = f"{sample['at_s']:6.0f} s {self.ledger.sent:8} sent {self.ledger.answered:8} answered "
        text += f"{sum(self.ledger.errors.values()):6} errors {sum(self.ledger.kills.values()):4} kills "
        text += f"{sample['memory'] / 2**20:7.1f} MiB {sample['descriptors']:4.0f} fds {bad:4} wrong"
        print(text, end="\r" if sys.stdout.isatty() else "\n", flush=True)

    async def _settle(self, gateway: Gateway, began: float) -> None:
        """Waits until the gateway has released everything that belonged to the clients."""
        first = self._samples[0]["descriptors"]
        for _ in range(50):
            if gateway.descriptors() <= first + FLAT_DESCRIPTORS:
                break
            await asyncio.sleep(0.1)
        self._take_sample(gateway, began)

    async def _left_over(self) -> list[int]:
        left: list[int] = []
        for _ in range(20):
            if not (left := running(self._folder, "tests.soak.upstream")):
                break
            await asyncio.sleep(0.1)
        return left

    def _report(self, status: int, seconds: float, left: list[int]) -> dict[str, Any]:
        ledger = self.ledger
        growth = memory_growth(self._samples, self._seconds * WARM_UP)
        mean = statistics.mean(sample["memory"] for sample in self._samples)
        first, last = self._samples[0]["descriptors"], self._samples[-1]["descriptors"]
        verdict = {
            "every call has exactly one answer": not ledger.unanswered and not ledger.doubled,
            "and it adds up": ledger.sent == ledger.answered + ledger.cancelled,
            "nothing else is wrong": not ledger.complaints,
            "upstreams were killed": sum(ledger.kills.values()) > 0,
            "memory is flat": growth < max(FLAT_BYTES, FLAT_SHARE * mean),
            "descriptors are flat": last <= first + FLAT_DESCRIPTORS,
            "the gateway ends by itself": status == 0 and seconds < STOP_S,
            "no process is left": not left,
        }
        return {
            "verdict": verdict,
            "seconds": self._seconds,
            "sent": ledger.sent,
            "answered": ledger.answered,
            "cancelled": ledger.cancelled,
            "answered_twice": ledger.doubled,
            "unanswered": ledger.unanswered,
            "rounds": ledger.rounds,
            "progress": ledger.progress,
            "kills": dict(ledger.kills),
            "errors": dict(ledger.errors.most_common()),
            "complaints": dict(ledger.complaints),
            "examples": ledger.examples,
            "memory_growth": round(growth),
            "memory_mean": round(mean),
            "stop_s": round(seconds, 2),
            "latencies": ledger.latencies(),
            "samples": self._samples,
        }


def memory_growth(samples: list[dict[str, float]], warm_up: float) -> float:
    """The growth of memory in bytes from the warm-up to the end, by linear regression."""
    points = [(sample["at_s"], sample["memory"]) for sample in samples if sample["at_s"] >= warm_up]
    if len(points) < 3:
        return 0.0
    slope, _ = statistics.linear_regression(*zip(*points, strict=True))
    return slope * (points[-1][0] - points[0][0])


async def set_within(event: asyncio.Event, seconds: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()


async def reachable(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


def free_port() -> int:
    """A port below the ephemeral range, so that no other program takes it while its server is down."""
    for port in random.sample(range(20000, 32000), 100):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    sys.exit("error: no free port between 20000 and 32000")


def show(report: dict[str, Any]) -> None:
    counts = ("sent", "answered", "cancelled", "answered_twice", "unanswered", "rounds", "progress")
    print("\n" + "  ".join(f"{name} {report[name]}" for name in counts))
    print(f"kills {report['kills']}, errors {sum(report['errors'].values())}")
    for error, times in list(report["errors"].items())[:12]:
        print(f"  {times:6} times {error}")
    print(f"{'':22}{'count':>8}{'p50 ms':>10}{'p99 ms':>10}{'max ms':>10}")
    for what, row in report["latencies"].items():
        print(f"{what:22}{row['count']:>8}{row['p50_ms']:>10}{row['p99_ms']:>10}{row['max_ms']:>10}")
    memory = (report["memory_mean"] / 2**20, report["memory_growth"] / 2**20)
    print("memory {:.1f} MiB, growing by {:.1f} MiB after the warm-up".format(*memory))
    for example in report["examples"]:
        print(f"  {example}")
    for what, holds in report["verdict"].items():
        print(f"{'ok    ' if holds else 'WRONG '} {what}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--rate", type=float, default=200.0, help="requests a second, all clients together")
    parser.add_argument("--clients", type=int, default=24, help="half of them of each era")
    parser.add_argument("--kill-every", type=float, default=3.0, help="seconds between two kills, on average")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="toolyard-soak-") as folder:
        report = asyncio.run(Soak(options, Path(folder)).run())
        if not all(report["verdict"].values()):
            print((Path(folder) / "gateway.log").read_text(errors="replace")[-4000:], file=sys.stderr)
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps(report, indent=1, ensure_ascii=False))
    show(report)
    sys.exit(0 if all(report["verdict"].values()) else 1)


if __name__ == "__main__":
    main()
