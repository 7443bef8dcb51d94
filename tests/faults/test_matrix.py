"""The fault matrix: whatever one upstream does, the others' calls go on as if nothing were.

One row for each fault and each kind of upstream. The gateway is a process of its own with three good
upstreams, one of each kind, and the faulty ones, which are well at first. A row looks at a quiet time, at the
fault, and at a quiet time after it, in one run and under the same load, because only such times can be
compared.
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.faults.inside import FOLDER_VARIABLE
from tests.faults.moods import WELL, Mood
from tests.faults.rows import CONNECT_TIMEOUT, ROWS, TIMEOUT, Faulty, Row
from tests.faults.talk import Talk
from tests.faults.yard import (
    PATIENCE,
    ROOT,
    Gateway,
    becomes_true,
    http_upstreams,
    running,
    stdio_entry,
    toml,
)

QUIET_S = 1.2
FAULT_S = 2.5
SLACK_S = 1.5
"""What a call may take beyond its limit: this machine is shared, and a process may wait for it."""
LIST_S = 2.0
BACK_S = 12.0
NAMED_S = 8.0
PAUSE_S = 0.1
"""The load on the faulty ones is bounded, and the same in the quiet time: the fault is what is compared, and
not that a call which fails at once can be made ten thousand times."""
FLOOR_S = 0.025
"""A p99 below this is never a failure. Twice a quiet p99 of 4 ms is less than what a neighbour on the machine
does to any process now and then; what a fault does to a gateway that blocks is hundreds of milliseconds."""
MORE_MEMORY = 96 * 2**20
"""What a fault may add to the gateway's memory at its peak: less than one result of a hungry upstream."""
MORE_DESCRIPTORS = 6
"""And one more for each upstream: kept connections come and go. One lost in each call would be far more."""

GOOD = {"mcp__good_http__echo", "mcp__good_stdio__echo", "mcp__good_inside__echo"}


class TooSlow(AssertionError):
    """The one outcome that may be a neighbour's doing: a row is run once more before it counts."""


@dataclass
class Seen:
    """What became of the calls to a faulty upstream."""

    answers: list[dict[str, Any]] = field(default_factory=list)
    longest: float = 0.0


@pytest.mark.timeout(150)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
async def test_a_faulty_upstream_harms_nobody_else(row: Row, tmp_path: Path):
    try:
        await play(row, fresh_folder(tmp_path, "first"))
    except TooSlow as slow:
        print(f"once more: {slow}")
        await play(row, fresh_folder(tmp_path, "second"))


def fresh_folder(parent: Path, name: str) -> Path:
    (parent / name).mkdir()
    return parent / name


async def play(row: Row, folder: Path) -> None:
    async with yard(row, folder) as (gateway, good_port), probing(gateway.port, good_port) as window:
        await everybody_answers(gateway, row)
        descriptors, memory = gateway.descriptors(), gateway.memory()
        quiet, _ = await asyncio.gather(window(QUIET_S), provoke(gateway, row, QUIET_S))

        gateway.forget_peak()
        for faulty in row.upstreams:
            Mood(folder / faulty.name).become(faulty.mood)
        during, seen = await asyncio.gather(window(FAULT_S), provoke(gateway, row, FAULT_S))
        await the_faulty_are_named(gateway, row)
        assert_each_call_ended_as_it_should(row, seen)
        assert gateway.peak() - memory < MORE_MEMORY, f"{(gateway.peak() - memory) / 2**20:.0f} MiB more"

        for faulty in row.upstreams:
            Mood(folder / faulty.name).become(WELL)
        await asyncio.gather(*(comes_back(gateway, faulty) for faulty in row.upstreams))
        after, _ = await asyncio.gather(window(QUIET_S), provoke(gateway, row, QUIET_S))

        allowed = descriptors + len(row.upstreams) + MORE_DESCRIPTORS
        assert await becomes_true(lambda: gateway.descriptors() <= allowed), (
            f"{gateway.descriptors()} descriptors, {descriptors} before the fault"
        )
        assert await becomes_true(lambda: not gateway.zombies())
        assert await becomes_true(lambda: len(running(folder, "over_stdio")) == expected_programs(row))
        await ends_without_a_trace(gateway, folder)
    assert_as_fast(quiet + after, during)


@asynccontextmanager
async def yard(row: Row, folder: Path) -> AsyncIterator[tuple[Gateway, int]]:
    """The gateway, and the port of the good upstream over HTTP."""
    async with AsyncExitStack() as stack:
        # Two processes: what the faulty ones do to themselves must not reach the good one but through us.
        ports = await stack.enter_async_context(http_upstreams(folder, {"good_http": "modern"}))
        if eras := {faulty.name: faulty.era for faulty in row.upstreams if faulty.kind == "http"}:
            ports |= await stack.enter_async_context(http_upstreams(folder, eras))
        places: dict[str, dict[str, Any]] = {
            "good_http": {"url": f"http://127.0.0.1:{ports['good_http']}/mcp"},
            "good_stdio": stdio_entry("good_stdio", "legacy", folder),
            "good_inside": {"module": "tests.faults.inside:good_inside"},
        }
        limits = {"timeout": TIMEOUT, "connect_timeout": CONNECT_TIMEOUT}
        for faulty in row.upstreams:
            match faulty.kind:
                case "http":
                    place: dict[str, Any] = {"url": f"http://127.0.0.1:{ports[faulty.name]}/mcp"}
                case "stdio":
                    place = stdio_entry(faulty.name, faulty.era, folder)
                case "inside":
                    place = {"module": f"tests.faults.inside:{faulty.name}"}
            places[faulty.name] = place | limits | faulty.settings
        config = toml(places, state_dir=str(folder / "state"), list_wait=5.0, page_size=1000)
        gateway = await Gateway.start(
            folder, config, **{FOLDER_VARIABLE: str(folder), "PYTHONPATH": str(ROOT)}
        )
        stack.push_async_callback(gateway.kill)
        yield gateway, ports["good_http"]


@dataclass
class Times:
    """The seconds that calls took, through the gateway and without it."""

    through: list[float]
    direct: list[float]

    def __add__(self, other: "Times") -> "Times":
        return Times(self.through + other.through, self.direct + other.direct)


@asynccontextmanager
async def probing(gateway: int, good: int) -> AsyncIterator[Callable[[float], Awaitable[Times]]]:
    """A function that calls the good tools for some seconds and gives back how long each call took."""
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.faults.prober", str(gateway), str(good), *sorted(GOOD)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=2**24,
        cwd=ROOT,
    )
    ours, theirs = program.stdin, program.stdout
    assert ours is not None
    assert theirs is not None

    async def window(seconds: float) -> Times:
        ours.write(b"go\n")
        await asyncio.sleep(seconds)  # not a wait for something: the length of the measurement
        ours.write(b"stop\n")
        async with asyncio.timeout(PATIENCE):
            heard = json.loads(await theirs.readline())
        assert heard["failures"] == []
        assert len(heard["seconds"]) > 50 * seconds, "too few calls for a p99"
        return Times(heard["seconds"], heard["direct"])

    try:
        yield window
    finally:
        program.kill()
        await program.wait()


async def everybody_answers(gateway: Gateway, row: Row) -> None:
    names = {full_name(faulty) for faulty in row.upstreams} | GOOD
    assert names <= set(await gateway.tools())
    # As many at a time as later on, so that as many connections are open.
    talks = [(Talk(gateway.port), name) for name in names for _ in range(row.callers)]
    for answer in await asyncio.gather(*(talk.call(name, text="first") for talk, name in talks)):
        assert answer["result"]["content"][0]["text"] == "first"
    for talk, _ in talks:
        talk.close()


async def provoke(gateway: Gateway, row: Row, seconds: float) -> dict[str, Seen]:
    """Call every faulty upstream again and again, and look meanwhile at what the gateway says about them."""
    until = time.monotonic() + seconds
    seen = {faulty.name: Seen() for faulty in row.upstreams}
    calls = [
        call_again_and_again(gateway, faulty, seen[faulty.name], until)
        for faulty in row.upstreams
        for _ in range(row.callers)
    ]
    await asyncio.gather(*calls, the_list_stays(gateway, row, until))
    return seen


async def call_again_and_again(gateway: Gateway, faulty: Faulty, seen: Seen, until: float) -> None:
    talk = Talk(gateway.port)
    while time.monotonic() < until:
        started = time.monotonic()
        async with asyncio.timeout(faulty.timeout + PATIENCE):
            raw = await talk.raw("tools/call", {"name": full_name(faulty), "arguments": {"text": "again"}})
        seen.longest = max(seen.longest, time.monotonic() - started)
        # A result of a hundred megabytes is not decoded: that would take this test's time, not the gateway's.
        is_big = len(raw) > 2**20
        seen.answers.append({"result": {"size": len(raw)}} if is_big else json.loads(raw))
        await asyncio.sleep(PAUSE_S)
    talk.close()


async def the_list_stays(gateway: Gateway, row: Row, until: float) -> None:
    """The good tools and the last known ones of the faulty are listed at once, all the time."""
    names = {full_name(faulty) for faulty in row.upstreams} | GOOD
    while time.monotonic() < until:
        started = time.monotonic()
        listed = set(await gateway.tools())
        assert time.monotonic() - started < LIST_S
        assert names <= listed, f"missing: {names - listed}"
        await asyncio.sleep(0.25)


async def the_faulty_are_named(gateway: Gateway, row: Row) -> None:
    """With a reason, in /health and in the instructions, once the gateway has looked."""
    down = {faulty.name for faulty in row.upstreams if faulty.is_down}
    deadline = time.monotonic() + NAMED_S
    while True:
        health = (await gateway.health())["servers"]
        instructions = (await gateway.talk.request("server/discover"))["result"].get("instructions", "")
        named = {name for name in down if health[name].get("reason") and f"{name}: " in instructions}
        if named == down:
            return
        assert time.monotonic() < deadline, f"not named: {down - named}; {health}; {instructions}"
        await asyncio.sleep(0.1)


def assert_each_call_ended_as_it_should(row: Row, seen: dict[str, Seen]) -> None:
    for faulty in row.upstreams:
        calls = seen[faulty.name]
        assert calls.longest < faulty.timeout + SLACK_S, f"{faulty.name} took {calls.longest:.1f} s"
        wrong = [answer for answer in calls.answers if not is_as_expected(faulty, answer)]
        assert not wrong, (
            f"{faulty.name}, which {faulty.outcome}: {len(wrong)} of {len(calls.answers)}: {wrong[0]}"
        )


def is_as_expected(faulty: Faulty, answer: dict[str, Any]) -> bool:
    failed = "error" in answer or answer["result"].get("isError", False)
    match faulty.outcome:
        case "ends":
            return True
        case "works":
            return not failed
        case "fails":
            return failed and faulty.name in json.dumps(answer)


async def comes_back(gateway: Gateway, faulty: Faulty) -> None:
    """By itself, and soon: a caller who tries again is answered."""
    talk = Talk(gateway.port)
    answer: dict[str, Any] = {}
    try:
        async with asyncio.timeout(BACK_S):
            while answer.get("result", {}).get("content", [{}])[0].get("text") != "back":
                answer = await talk.call(full_name(faulty), text="back")
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"{faulty.name} is not back after {BACK_S} s: {answer}") from None
    finally:
        talk.close()


async def ends_without_a_trace(gateway: Gateway, folder: Path) -> None:
    status, seconds = await gateway.stop()
    assert status == 0, gateway.log
    assert seconds < 5, f"it took {seconds:.1f} s to stop"
    assert await becomes_true(lambda: not running(folder, "over_stdio") and not running(folder, "signal"), 2)


def expected_programs(row: Row) -> int:
    return 1 + sum(faulty.kind == "stdio" for faulty in row.upstreams)


def full_name(faulty: Faulty) -> str:
    return f"mcp__{faulty.name}__echo"


def p99(seconds: list[float]) -> float:
    return sorted(seconds)[int(len(seconds) * 0.99)]


def assert_as_fast(quiet: Times, during: Times) -> None:
    before, now = p99(quiet.through), p99(during.through)
    # What became slower for those who never met the gateway is the machine's doing, on each of both legs of
    # a call through it.
    machine = max(0.0, p99(during.direct) - p99(quiet.direct))
    allowed = max(2 * before, FLOOR_S) + 2 * machine
    figures = f"p99 {before * 1000:.1f} ms quiet, {now * 1000:.1f} ms during {len(during.through)} calls"
    figures += f"; direct {p99(quiet.direct) * 1000:.1f} and {p99(during.direct) * 1000:.1f} ms"
    print(figures)
    if now > allowed:
        raise TooSlow(figures)
