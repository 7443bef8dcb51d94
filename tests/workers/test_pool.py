"""Workers: real processes that answer, are limited, are ended and replaced, and leave nothing behind."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.thirdparty.mounting import all_gone, children_of
from tests.waiting import until
from toolyard.workers.pool import (
    TooManyWaitingError,
    WaitedTooLongError,
    WorkerDiedError,
    WorkerPool,
    WorkerStartError,
    WorkerTimeoutError,
)

TASKS = "tests.workers.tasks"
LONG = 600.0


@pytest.fixture
async def pool() -> AsyncIterator[WorkerPool]:
    made = WorkerPool(TASKS, max_workers=2)
    yield made
    await made.close()


async def ask(
    pool: WorkerPool, request: str, *, seconds: float = LONG, longest: int = 100_000, **others: Any
) -> str:
    return (await pool.ask(request.encode(), seconds=seconds, max_bytes=longest, **others)).decode()


async def _begun(mark: Path) -> int:
    """The process that a waiting task runs in."""

    async def is_there() -> bool:
        return bool(_read(mark))

    await until(is_there)
    return int(_read(mark))


def _read(mark: Path) -> str:
    return mark.read_text() if mark.exists() else ""


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def _gone(pid: int) -> None:
    async def is_gone() -> bool:
        return not _is_running(pid)

    await until(is_gone)


async def test_a_worker_is_kept_for_the_next_request(pool: WorkerPool):
    first = await ask(pool, "pid")
    assert await ask(pool, "say héllo") == "héllo"
    assert await ask(pool, "pid") == first != str(os.getpid())


async def test_requests_run_side_by_side_up_to_the_number_of_workers(pool: WorkerPool, tmp_path: Path):
    one, other, end = tmp_path / "one", tmp_path / "other", tmp_path / "end"
    asked = [
        asyncio.create_task(
            pool.ask(f"wait {mark} {end}".encode(), seconds=LONG, max_bytes=100, caller=mark.name)
        )
        for mark in (one, other)
    ]
    assert await _begun(one) != await _begun(other)
    end.touch()
    assert await asyncio.gather(*asked) == [b"waited", b"waited"]


async def test_one_who_asks_much_leaves_room_for_another(pool: WorkerPool, tmp_path: Path):
    hogs = [asyncio.create_task(ask(pool, f"wait {tmp_path / str(number)}")) for number in range(4)]
    await _begun(tmp_path / "0")
    answer = await pool.ask(b"say hello", seconds=LONG, max_bytes=100, caller="another")
    assert answer == b"hello"
    for hog in hogs:
        hog.cancel()
    assert all(
        isinstance(end, asyncio.CancelledError) for end in await asyncio.gather(*hogs, return_exceptions=True)
    )


async def test_a_request_that_takes_too_long_is_ended_with_its_worker(pool: WorkerPool, tmp_path: Path):
    with pytest.raises(WorkerTimeoutError):
        await ask(pool, f"wait {tmp_path / 'mark'}", seconds=0.3)
    begun = _read(tmp_path / "mark")  # a busy machine may not come so far
    assert not begun or not _is_running(int(begun))
    assert await ask(pool, "say again") == "again"


async def test_a_cancelled_request_is_ended_with_its_worker(pool: WorkerPool, tmp_path: Path):
    asked = asyncio.create_task(ask(pool, f"wait {tmp_path / 'mark'}"))
    pid = await _begun(tmp_path / "mark")
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert not _is_running(pid)
    assert await ask(pool, "say again") == "again"


async def test_a_request_whose_worker_was_killed_by_somebody_is_given_to_another(
    pool: WorkerPool, tmp_path: Path
):
    mark, end = tmp_path / "mark", tmp_path / "end"
    asked = asyncio.create_task(ask(pool, f"wait {mark} {end}"))
    first = await _begun(mark)
    mark.unlink()
    os.kill(first, signal.SIGKILL)
    assert await _begun(mark) != first
    end.touch()
    assert await asked == "waited"


async def test_a_fresh_worker_takes_the_place_of_an_idle_one(pool: WorkerPool):
    first = int(await ask(pool, "pid"))
    second = int(await pool.ask(b"pid", seconds=LONG, max_bytes=100, fresh=True))
    assert second != first
    assert not _is_running(first)
    assert int(await ask(pool, "pid")) == second


async def test_a_worker_has_requests_of_one_kind_only(pool: WorkerPool):
    one, other = await ask(pool, "pid", kind="one"), await ask(pool, "pid", kind="other")
    assert one != other
    assert await ask(pool, "arguments", kind="one") == "one"
    assert await ask(pool, "pid", kind="other") == other
    assert await ask(pool, "pid", kind="one") == one


async def test_an_idle_worker_of_another_kind_ends_where_there_is_no_room_beside_it(pool: WorkerPool):
    """The one that was asked longest ago, of two that there may be."""
    first, second = int(await ask(pool, "pid", kind="one")), int(await ask(pool, "pid", kind="two"))
    third = int(await ask(pool, "pid", kind="three"))
    assert third not in (first, second)
    assert not _is_running(first)
    assert _is_running(second)


async def test_the_worker_that_was_asked_about_a_subject_is_asked_about_it_again(tmp_path: Path):
    pool = WorkerPool(TASKS, max_workers=3)
    end = tmp_path / "end"
    asked = [
        asyncio.create_task(ask(pool, f"wait {tmp_path / name} {end}", subject=name, caller=name))
        for name in ("a", "b", "c")
    ]
    pids = {name: str(await _begun(tmp_path / name)) for name in ("a", "b", "c")}
    end.touch()
    await asyncio.gather(*asked)
    for name in ("b", "a", "c", "b"):
        assert await ask(pool, "pid", subject=name) == pids[name]
    assert await ask(pool, "pid", subject="d") == pids["a"], "what was asked for longest ago makes room"
    assert await ask(pool, "pid", subject="c") == pids["c"]
    assert await ask(pool, "pid") == pids["c"], "and without a subject it is the latest, so the others end"
    await pool.close()


async def test_more_than_may_wait_and_who_has_waited_long_enough_are_told(tmp_path: Path):
    pool = WorkerPool(TASKS, max_workers=1, max_waiting=1)
    asked = [asyncio.create_task(ask(pool, f"wait {tmp_path / 'mark'}"))]
    await _begun(tmp_path / "mark")
    with pytest.raises(WaitedTooLongError):
        await ask(pool, "pid", wait_seconds=0.01)
    asked.append(asyncio.create_task(ask(pool, "pid")))
    await asyncio.sleep(0)
    with pytest.raises(TooManyWaitingError):
        await ask(pool, "pid")
    asked[0].cancel()
    assert int(await asked[1])
    await pool.close()


async def test_a_worker_that_died_while_idle_costs_nobody_anything(pool: WorkerPool):
    pid = int(await ask(pool, "pid"))
    os.kill(pid, signal.SIGKILL)
    assert int(await ask(pool, "pid")) != pid


async def test_a_worker_that_ends_by_itself_is_told_with_its_status(pool: WorkerPool):
    with pytest.raises(WorkerDiedError, match="status 1") as caught:
        await ask(pool, "nonsense")
    assert (caught.value.status, caught.value.was_fresh) == (1, True)
    assert await ask(pool, "say again") == "again"
    with pytest.raises(WorkerDiedError) as caught:
        await ask(pool, "nonsense")
    assert not caught.value.was_fresh


async def test_an_answer_over_the_limit_is_not_read(pool: WorkerPool):
    assert len(await ask(pool, "long 100000")) == 100_000
    with pytest.raises(WorkerDiedError):
        await ask(pool, "long 100001")


async def test_memory_over_the_limit_is_refused_in_the_worker(pool: WorkerPool):
    assert await ask(pool, f"take {2**20}") == str(2**20)
    assert await ask(pool, f"take {2**30}") == "no memory"


async def test_a_worker_cannot_fill_the_disk(pool: WorkerPool, tmp_path: Path):
    with pytest.raises(WorkerDiedError):
        await ask(pool, f"write {tmp_path / 'big'}")
    assert (tmp_path / "big").stat().st_size < 2**30


async def test_a_worker_inherits_neither_descriptors_nor_secrets(
    pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TOOLYARD_SECRET", "hush")
    kept = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(kept, True)
    try:
        # Standard input, output and error, the copy for answers, and the folder that lists them.
        assert len((await ask(pool, "descriptors")).split()) == 5
        assert "TOOLYARD_SECRET" not in await ask(pool, "environment")
    finally:
        os.close(kept)


async def test_a_worker_that_nobody_needs_ends():
    pool = WorkerPool(TASKS, max_workers=1, idle_seconds=0.01)
    pid = int(await ask(pool, "pid"))
    await _gone(pid)
    assert int(await ask(pool, "pid")) != pid
    await pool.close()


async def test_closing_ends_every_worker(tmp_path: Path):
    pool = WorkerPool(TASKS, max_workers=4)
    idle = int(await ask(pool, "pid"))
    asked = asyncio.create_task(ask(pool, f"wait {tmp_path / 'mark'}"))
    busy = await _begun(tmp_path / "mark")
    await pool.close()
    with pytest.raises(WorkerDiedError):
        await asked
    assert not _is_running(idle)
    assert not _is_running(busy)
    with pytest.raises(WorkerStartError):
        await ask(pool, "pid")


async def test_closing_ends_a_worker_that_is_just_being_started():
    pool = WorkerPool(TASKS, max_workers=1)
    before = children_of(os.getpid())
    asked = asyncio.create_task(ask(pool, "pid"))
    await asyncio.sleep(0)
    await pool.close()
    with pytest.raises(WorkerStartError):
        await asked
    assert all_gone(children_of(os.getpid()) - before)


async def test_a_worker_that_cannot_start_says_why():
    pool = WorkerPool("tests.workers.nothing_here", max_workers=1)
    with pytest.raises(WorkerStartError, match="No module named"):
        await ask(pool, "pid")
    await pool.close()


_PARENT = """
import asyncio, sys
from toolyard.workers.pool import WorkerPool
pool = WorkerPool("tests.workers.tasks", max_workers=1)
asyncio.run(pool.ask(sys.argv[1].encode(), seconds=600, max_bytes=100))
"""


async def test_workers_end_when_their_parent_is_killed(tmp_path: Path):
    mark = tmp_path / "mark"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", _PARENT, f"wait {mark}", env=env)
    pid = await _begun(mark)
    assert _is_running(pid)
    parent.kill()
    await parent.wait()
    await _gone(pid)
