"""The fault matrix: whatever one upstream does, the others' calls go on as if nothing were.

One row for each fault and each kind of upstream; the kinds are in files of their own, which can run side by
side. The gateway is a process of its own with three good upstreams, one of each kind, and the faulty ones,
which are well at first. Here is what must be true on any machine; how long others take meanwhile is
measured by `make faults`.
"""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.faults.moods import Journal
from tests.faults.rows import Faulty, Row
from tests.faults.stage import GOOD, Stage, full_name, on_stage, provoked
from tests.faults.talk import Talk
from tests.faults.yard import PATIENCE, becomes_true, running

READS = {"flood": 3, "endless-list": 1, "huge-list": 1}
"""How often the gateway reads a list that flaps before the row goes on."""
MORE_MEMORY = 96 * 2**20
"""What a fault may add to the gateway's memory at its peak: less than one result of a hungry upstream."""
MORE_DESCRIPTORS = 6
"""And one more for each upstream: kept connections come and go. One lost in each call would be far more."""


async def harms_nobody_else(row: Row, folder: Path) -> None:
    """Play a row from its start to its end."""
    async with on_stage(row, folder) as stage:
        gateway = stage.gateway
        await stage.everybody_answers()
        descriptors, memory = gateway.descriptors(), gateway.memory()
        gateway.forget_peak()

        stage.fall_ill()
        answers = await provoked_while_others_are_answered(stage)
        await the_faulty_are_named(stage)
        assert_each_call_ended_as_it_should(row, answers)
        more = gateway.peak() - memory
        assert more < MORE_MEMORY, f"{more / 2**20:.0f} MiB more"

        stage.get_well()
        await stage.everybody_is_back()
        allowed = descriptors + len(row.upstreams) + MORE_DESCRIPTORS
        assert await becomes_true(lambda: gateway.descriptors() <= allowed), (
            f"{gateway.descriptors()} descriptors, {descriptors} before the fault"
        )
        assert await becomes_true(lambda: not gateway.zombies())
        assert await becomes_true(lambda: len(running(folder, "over_stdio")) == expected_programs(row))
        await ends_without_a_trace(stage)


async def provoked_while_others_are_answered(stage: Stage) -> dict[str, list[dict[str, Any]]]:
    """Call every faulty upstream again and again; meanwhile the good ones, and the list, are asked for."""
    answers: dict[str, list[dict[str, Any]]] = {faulty.name: [] for faulty in stage.row.upstreams}
    provoking = asyncio.gather(
        *(
            call_again_and_again(stage, faulty, answers[faulty.name])
            for faulty in stage.row.upstreams
            for _ in range(stage.row.callers)
        ),
        *(list_is_read(stage, faulty) for faulty in stage.row.upstreams if faulty.mood in READS),
    )
    others = asyncio.gather(
        *(the_good_are_answered(stage, tool, provoking.done) for tool in GOOD),
        the_list_stays(stage, provoking.done),
    )
    try:
        await asyncio.gather(provoking, others)
    except BaseException:
        provoking.cancel()
        others.cancel()
        await asyncio.gather(provoking, others, return_exceptions=True)
        raise
    return answers


async def call_again_and_again(stage: Stage, faulty: Faulty, answers: list[dict[str, Any]]) -> None:
    talk = Talk(stage.gateway.port)
    for _ in range(stage.row.calls):
        answers.append(await provoked(talk, faulty))
    talk.close()


async def list_is_read(stage: Stage, faulty: Faulty) -> None:
    """Until the gateway has seen what a flapping list is like."""
    journal = Journal(stage.folder / f"{faulty.name}.journal")
    if faulty.kind != "inside":  # which keeps no journal of lists, and flaps in each call
        before = journal.count("tools/list")
        enough = before + READS[faulty.mood]
        assert await becomes_true(lambda: journal.count("tools/list") >= enough), journal.lines()


async def the_good_are_answered(stage: Stage, tool: str, over: Callable[[], bool]) -> None:
    talk, number = Talk(stage.gateway.port), 0
    while not over() or not number:
        number += 1
        async with asyncio.timeout(PATIENCE):
            answer = await talk.call(tool, text=f"{tool} {number}")
        assert answer["result"]["content"][0]["text"] == f"{tool} {number}", answer
        await asyncio.sleep(0.01)  # the others want the machine too
    talk.close()


async def the_list_stays(stage: Stage, over: Callable[[], bool]) -> None:
    """The good tools and the last known ones of the faulty are listed all the time."""
    names = {full_name(faulty) for faulty in stage.row.upstreams if not faulty.from_the_start} | {*GOOD}
    while True:
        async with asyncio.timeout(PATIENCE):
            listed = set(await stage.gateway.tools())
        assert names <= listed, f"missing: {names - listed}"
        if over():
            return
        await asyncio.sleep(0.1)


async def the_faulty_are_named(stage: Stage) -> None:
    """With a reason, in /health and in the instructions, once the gateway has looked."""
    down = {faulty.name for faulty in stage.row.upstreams if faulty.is_down}
    named: set[str] = set()
    health: Any = None
    try:
        async with asyncio.timeout(PATIENCE):
            while named != down:
                health = (await stage.gateway.health())["servers"]
                discovered = await stage.gateway.talk.request("server/discover")
                told = discovered["result"].get("instructions", "")
                named = {name for name in down if health[name].get("reason") and f"{name}: " in told}
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"not named: {down - named}; {health}") from None


def assert_each_call_ended_as_it_should(row: Row, answers: dict[str, list[dict[str, Any]]]) -> None:
    for faulty in row.upstreams:
        given = answers[faulty.name]
        assert len(given) == row.calls * row.callers
        wrong = [answer for answer in given if not is_as_expected(faulty, answer)]
        assert not wrong, f"{faulty.name}, which {faulty.outcome}: {len(wrong)} of {len(given)}: {wrong[0]}"


def is_as_expected(faulty: Faulty, answer: dict[str, Any]) -> bool:
    failed = "error" in answer or answer["result"].get("isError", False)
    match faulty.outcome:
        case "ends":
            return True
        case "works":
            return not failed
        case "fails":
            return failed and faulty.name in json.dumps(answer)
        case "tells":
            return failed and "'echo'" in json.dumps(answer)


async def ends_without_a_trace(stage: Stage) -> None:
    status, _ = await stage.gateway.stop()
    assert status == 0, stage.gateway.log
    folder = stage.folder
    assert await becomes_true(lambda: not running(folder, "over_stdio") and not running(folder, "signal"))


def expected_programs(row: Row) -> int:
    return 1 + sum(faulty.kind == "stdio" for faulty in row.upstreams)
