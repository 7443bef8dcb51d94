"""The processes that queries run in are shared: nobody waits for one who has several."""

import asyncio
from collections.abc import Callable
from typing import Any

from tests.results.library import Library, refused, workers
from tests.results.shelf import records
from tests.waiting import until

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
    assert len(workers()) <= 3, "those that rest included"
    await cancelled(slow)


async def test_who_asks_for_too_much_at_once_is_told_so(opened: Callable[..., Library]):
    library = opened(sql_seconds=50.0)
    mine, theirs = await library.keep(records(30)), await library.keep(records(20), tenant="other")
    slow = [asyncio.create_task(library.ask(mine, sql=FOREVER)) for _ in range(18)]

    async def are_running() -> bool:
        return len(workers()) == 2

    await until(are_running)
    told = await refused(library.ask(mine, sql="SELECT 1"))
    assert told == "16 of your queries are waiting already; try again when some are done"
    assert (await library.ask(theirs, "other", query="length(@)"))["value"] == 20
    await cancelled(slow)
    assert (await library.ask(mine, query="length(@)"))["value"] == 30
