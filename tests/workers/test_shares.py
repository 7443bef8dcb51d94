"""Places are shared: nobody has all of them, nobody waits for one who has several, and none is lost."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolyard.workers.pool import FairLimiter, TooManyWaitingError, WaitedTooLongError


async def cancelled(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class Queue:
    """Some work that ends when it is told to."""

    def __init__(self, places: int = 3, max_waiting: int | None = None) -> None:
        self.shares = FairLimiter(places, max_waiting=max_waiting)
        self.running: list[tuple[str, asyncio.Event]] = []
        self.order: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def ask(self, holder: str, name: str = "") -> None:
        self.tasks.append(asyncio.create_task(self._work(holder, name or holder)))
        await settled()

    async def _work(self, holder: str, name: str) -> None:
        async with self.shares.slot(holder):
            ended = asyncio.Event()
            self.running.append((holder, ended))
            self.order.append(name)
            try:
                await ended.wait()
            finally:
                self.running.remove((holder, ended))

    async def end(self, holder: str) -> None:
        next(ended for one, ended in self.running if one == holder).set()
        await settled()

    @property
    def held(self) -> Counter[str]:
        return Counter(holder for holder, _ in self.running)


async def settled() -> None:
    for _ in range(8):
        await asyncio.sleep(0)


async def test_one_holder_never_has_all_places_and_who_has_the_fewest_is_next():
    queue = Queue()
    for at in range(5):
        await queue.ask("a", f"a{at}")
    assert queue.held == {"a": 2}, "one is left for others"
    await queue.ask("b")
    await queue.ask("c")
    assert queue.held == {"a": 2, "b": 1}
    await queue.end("a")
    assert queue.held == {"a": 1, "b": 1, "c": 1}, "though others of a came first"
    await queue.end("b")
    assert queue.held == {"a": 2, "c": 1}, "and what nobody else wants is a's again"
    assert queue.order == ["a0", "a1", "b", "c", "a2"]
    await cancelled(queue.tasks)


async def test_holders_who_wait_have_turns():
    queue = Queue(places=1)
    await queue.ask("x")
    for name in ("a0", "a1", "a2", "b0", "b1", "c0"):
        await queue.ask(name[0], name)
    for _ in range(7):
        await queue.end(queue.running[0][0])
    assert queue.order == ["x", "a0", "b0", "c0", "a1", "b1", "a2"]


async def test_a_place_goes_on_when_its_query_is_cancelled_at_any_moment():
    queue = Queue(places=1)
    for name in ("a0", "b0", "c0", "d0"):
        await queue.ask(name[0], name)
    queue.tasks[1].cancel()
    queue.tasks[0].cancel()  # the place is passed on before b0 has noticed
    await settled()
    assert queue.order == ["a0", "c0"]
    next(ended for _, ended in queue.running).set()
    queue.tasks[3].cancel()  # or given to d0 in the moment in which it is cancelled
    await settled()
    await queue.ask("e")
    assert queue.order[-1] == "e"
    await cancelled(queue.tasks)


async def test_who_waits_for_too_long_is_told_and_leaves_the_queue():
    shares = FairLimiter(1)
    async with shares.slot("a"):
        with pytest.raises(WaitedTooLongError):
            async with shares.slot("b", 0.01):
                raise AssertionError
    async with shares.slot("c"):
        pass


async def test_one_more_than_may_wait_is_refused_and_others_are_not():
    queue = Queue(places=2, max_waiting=2)
    for at in range(4):
        await queue.ask("a", f"a{at}")
    assert queue.order == ["a0"]
    with pytest.raises(TooManyWaitingError, match="2 requests are waiting") as raised:
        await queue.tasks[3]
    assert raised.value.count == 2
    await queue.ask("b")
    assert queue.order == ["a0", "b"]
    await queue.end("a")
    await queue.ask("a", "a4")
    assert queue.order == ["a0", "b", "a1"]
    await cancelled(queue.tasks)


async def test_a_request_that_is_given_up_costs_its_holder_no_turn():
    queue = Queue(places=1)
    for name in ("x", "a0", "a1", "b0"):
        await queue.ask(name[0], name)
    queue.tasks[2].cancel()
    await settled()
    await queue.end("x")
    assert queue.order == ["x", "a0"]
    await cancelled(queue.tasks)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["ask", "end", "cancel"]), st.integers(0, 9)), max_size=40))
def test_places_are_neither_lost_nor_given_twice(steps: list[tuple[str, int]]):
    async def check() -> None:
        queue = Queue(max_waiting=3)
        for what, at in steps:
            if what == "ask":
                await queue.ask("abcd"[at % 4])
            elif what == "end" and queue.running:
                await queue.end(queue.running[at % len(queue.running)][0])
            elif what == "cancel" and queue.tasks:
                queue.tasks[at % len(queue.tasks)].cancel()
                await settled()
            assert sum(queue.held.values()) <= 3
            assert all(count <= 2 for count in queue.held.values())
        await cancelled(queue.tasks)
        for name in "efg":
            await queue.ask(name)
        assert len(queue.running) == 3
        await cancelled(queue.tasks)

    asyncio.run(check())
