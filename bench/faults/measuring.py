"""Measures one row: quiet, the fault, quiet again, under the same load.

Owns the windows and the calls to the faulty upstreams. `report` judges the figures.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.rows import Faulty, Row
from tests.faults.stage import GOOD, Stage, good_places, on_stage, provoked, started
from tests.faults.talk import Talk
from tests.faults.yard import PATIENCE, ROOT

PAUSE_S = 0.1
"""Between two calls to a faulty upstream, the same in the quiet time: the fault is what is compared, and not
that a call which fails at once can be made ten thousand times."""
LOOK_S = 0.25

Samples = dict[str, dict[str, list[float]]]
"""Seconds by place and tool."""
Window = Callable[[float], Awaitable[Samples]]


@dataclass
class Times:
    quiet: Samples = field(default_factory=dict)
    during: Samples = field(default_factory=dict)


async def play(row: Row, folder: Path, seconds: float, rounds: int) -> Times:
    async with AsyncExitStack() as stack:
        stage = await stack.enter_async_context(on_stage(row, folder))
        control = await started(_sub(folder, "control"), good_places(folder / "control", stage.good_port))
        stack.push_async_callback(control.kill)
        ports = (stage.gateway.port, control.port, stage.good_port)
        window = await stack.enter_async_context(probing(*ports))
        await stage.everybody_answers()
        times = Times()
        await _quiet(stage, window, seconds / 2, Times())  # the first calls are not measured
        await _quiet(stage, window, seconds, times)
        for _ in range(rounds):
            stage.fall_ill()
            _add(times.during, await _provoked(stage, window, seconds))
            stage.get_well()
            await stage.everybody_is_back()
            await _quiet(stage, window, seconds, times)
        return times


async def _quiet(stage: Stage, window: Window, seconds: float, times: Times) -> None:
    _add(times.quiet, await _provoked(stage, window, seconds))


def _sub(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder / name


def _add(samples: Samples, more: Samples) -> None:
    for place, tools in more.items():
        for tool, seconds in tools.items():
            samples.setdefault(place, {}).setdefault(tool, []).extend(seconds)


async def _provoked(stage: Stage, window: Window, seconds: float) -> Samples:
    """A window in which every faulty upstream is called and the list is read."""
    until = time.monotonic() + seconds
    calls = [
        _call_again_and_again(stage, faulty, until)
        for faulty in stage.row.upstreams
        for _ in range(stage.row.callers)
    ]
    others = asyncio.gather(*calls, _look_at_the_list(stage, until))
    samples, _ = await asyncio.gather(window(seconds), others)
    return samples


async def _call_again_and_again(stage: Stage, faulty: Faulty, until: float) -> None:
    talk = Talk(stage.gateway.port)
    while time.monotonic() < until:
        await provoked(talk, faulty)
        await asyncio.sleep(PAUSE_S)
    talk.close()


async def _look_at_the_list(stage: Stage, until: float) -> None:
    while time.monotonic() < until:
        await stage.gateway.tools()
        await asyncio.sleep(LOOK_S)


@asynccontextmanager
async def probing(gateway: int, control: int, upstream: int) -> AsyncIterator[Window]:
    """A function that calls the good tools for some seconds and returns the time of each call."""
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "bench.faults.prober", str(gateway), str(control), str(upstream), *GOOD),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=2**24,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    ours, theirs = program.stdin, program.stdout
    assert ours is not None
    assert theirs is not None

    await theirs.readline()

    async def window(seconds: float) -> Samples:
        ours.write(b"go\n")
        await asyncio.sleep(seconds)
        ours.write(b"stop\n")
        async with asyncio.timeout(PATIENCE):
            heard = json.loads(await theirs.readline())
        if heard["failures"]:
            raise RuntimeError(f"good upstreams were not answered: {heard['failures'][:3]}")
        return heard["seconds"]

    try:
        yield window
    finally:
        program.kill()
        await program.wait()
