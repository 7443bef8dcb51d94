"""The processes that queries run in are shared: nobody waits for one who has several."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.results.library import Library, refused, workers
from tests.results.shelf import records
from tests.waiting import until
from toolyard.results.reading.asked import Wrong
from toolyard.results.reading.workers import Shares

FOREVER = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t"


async def cancelled(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_the_long_queries_of_one_tenant_make_no_other_wait(opened: Callable[..., Library]):
    """Seen: four callers of one made another wait for ten seconds."""
    library = opened(sql_seconds=50.0)
    mine, theirs = await library.keep(records(30)), await library.keep(records(20), tenant="other")
    slow = [asyncio.create_task(library.ask(mine, sql=FOREVER)) for _ in range(4)]

    async def are_running() -> bool:
        return len(workers()) == 2

    await until(are_running)
    assert (await library.ask(theirs, "other", query="length(@)"))["value"] == 20
    assert (await library.ask(theirs, "other", sql="SELECT count(*) AS n FROM result"))["rows"] == [{"n": 20}]
    assert not any(task.done() for task in slow)
    assert len(workers()) <= 4, "those that rest included"
    await cancelled(slow)


async def test_who_asks_for_too_much_at_once_is_told_so(opened: Callable[..., Library]):
    library = opened(sql_seconds=50.0)
    mine, theirs = await library.keep(records(30)), await library.keep(records(20), tenant="other")
    slow = [asyncio.create_task(library.ask(mine, sql=FOREVER)) for _ in range(18)]

    async def are_running() -> bool:
        return len(workers()) == 2

    await until(are_running)
    told = await refused(library.ask(mine, sql="SELECT 1"))
    assert told == "16 queries of yours are waiting already; ask again when some are answered"
    assert (await library.ask(theirs, "other", query="length(@)"))["value"] == 20
    await cancelled(slow)
    assert (await library.ask(mine, query="length(@)"))["value"] == 30


class Queue:
    """Some work that ends when it is told to."""

    def __init__(self, **limits: int) -> None:
        self.shares = Shares(**{"most": 3, "most_of_one": 2, "most_waiting": 16, **limits})
        self.running: list[tuple[str, asyncio.Event]] = []
        self.order: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def ask(self, tenant: str, name: str = "") -> None:
        self.tasks.append(asyncio.create_task(self._work(tenant, name or tenant)))
        await settled()

    async def _work(self, tenant: str, name: str) -> None:
        async with self.shares.place(tenant, 50.0):
            ended = asyncio.Event()
            self.running.append((tenant, ended))
            self.order.append(name)
            try:
                await ended.wait()
            finally:
                self.running.remove((tenant, ended))

    async def end(self, tenant: str) -> None:
        next(ended for one, ended in self.running if one == tenant).set()
        await settled()

    @property
    def held(self) -> Counter[str]:
        return Counter(tenant for tenant, _ in self.running)


async def settled() -> None:
    for _ in range(8):
        await asyncio.sleep(0)


async def test_one_tenant_never_has_all_places_and_who_has_the_fewest_is_next():
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


async def test_tenants_who_wait_have_turns():
    queue = Queue(most=1, most_of_one=1)
    await queue.ask("x")
    for name in ("a0", "a1", "a2", "b0", "b1", "c0"):
        await queue.ask(name[0], name)
    for _ in range(7):
        await queue.end(queue.running[0][0])
    assert queue.order == ["x", "a0", "b0", "c0", "a1", "b1", "a2"]


async def test_a_place_goes_on_when_its_query_is_cancelled_at_any_moment():
    queue = Queue(most=1, most_of_one=1)
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
    shares = Shares(1, 1, 2)
    async with shares.place("a", 1.0):
        with pytest.raises(Wrong, match="Other queries are running"):
            async with shares.place("b", 0.01):
                raise AssertionError
    async with shares.place("c", 1.0):
        pass


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["ask", "end", "cancel"]), st.integers(0, 9)), max_size=40))
def test_places_are_neither_lost_nor_given_twice(steps: list[tuple[str, int]]):
    async def check() -> None:
        queue = Queue(most_waiting=3)
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
