"""Several processes hold one conversation's session, in a store that they share."""

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

from tests.sessions.remote import Remote
from tests.waiting import until
from toolyard.sessions import Leases
from toolyard.state import State, open_state

Opened = Callable[[], State]


async def test_who_begins_first_wins_and_the_others_take_what_he_got(opened: Opened) -> None:
    thread = uuid4().hex
    yards = [Leases(opened(), 600) for _ in range(3)]
    remotes = [Remote(f"{number}") for number in range(3)]
    asked = [
        leases.get("acme", thread, "composio", remote.begin)
        for leases, remote in zip(yards, remotes, strict=True)
        for _ in range(5)
    ]
    leases = await asyncio.gather(*asked)
    assert len({lease.id for lease in leases}) == 1
    assert sum(remote.begun for remote in remotes) == 1

    refused = [
        leases.renew("acme", thread, "composio", "-", remote.begin)
        for leases, remote in zip(yards, remotes, strict=True)
    ]
    assert {lease.id for lease in await asyncio.gather(*refused)} == {leases[0].id}
    local = await asyncio.gather(*(leases.get("acme", thread, "") for leases in yards))
    assert len({lease.id for lease in local}) == 1


async def test_two_processes_with_twenty_refusals_each_renew_once(
    opened: Opened, shared_url: str, tmp_path: Path
) -> None:
    leases, log = Leases(opened(), 600), tmp_path / "begun"
    await leases.drop("acme", "t1", "composio")
    old = await leases.get("acme", "t1", "composio", Remote("old").begin)
    processes = [await _renewing(shared_url, log, old.id, 20) for _ in range(2)]
    given = [(await each.communicate(b"go\n"))[0].decode().split() for each in processes]

    assert len(log.read_text().split()) == 1
    assert given[0] == given[1]
    assert len(given[0]) == 1
    found = await leases.peek("acme", "t1", "composio")
    assert found is not None
    assert [found.id] == given[0]


async def test_a_process_that_dies_in_the_middle_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path}/state.db"
    state, remote, log = open_state(url, None), Remote("ours"), tmp_path / "begun"
    leases = Leases(state, 600)
    dying = await _renewing(url, log, "-", 0)
    assert dying.stdin is not None
    dying.stdin.write(b"go\n")

    async def begun() -> bool:
        return log.exists()

    await until(begun)
    waiting = asyncio.create_task(leases.get("acme", "t1", "composio", remote.begin))
    dying.kill()
    await dying.communicate()
    assert (await waiting).id == "ours-1"
    await state.close()


async def _renewing(url: str, log: Path, stale: str, calls: int) -> Process:
    command = [sys.executable, "-m", "tests.sessions.renewing", url, str(log), stale, str(calls)]
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    return process
