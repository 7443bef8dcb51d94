"""Connections of many sessions: one for each, few at a time, none for longer than it is used."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.serving import PATIENCE
from toolyard.dispatch.composio.sessions import SessionConnections
from toolyard.upstream.connection import UpstreamInfo
from toolyard.wire.call import Call


class Path:
    """A way that keeps whether it was closed, and when it may be."""

    def __init__(self) -> None:
        self.is_closed = asyncio.Event()
        self.is_free = asyncio.Event()
        self.is_free.set()

    async def handle(self, call: Call) -> Any:
        raise NotImplementedError

    async def about(self) -> UpstreamInfo:
        raise NotImplementedError

    async def idle(self) -> None:
        await self.is_free.wait()

    async def close(self) -> None:
        self.is_closed.set()

    @property
    def closed(self) -> bool:
        return self.is_closed.is_set()


@asynccontextmanager
async def used(ways: SessionConnections, session: str) -> AsyncIterator[Path]:
    """The way of a session, while it is used."""
    async with ways.use(session, Path) as way:
        assert isinstance(way, Path)
        yield way


async def test_a_session_has_one_way_and_another_session_another():
    ways = SessionConnections()
    async with used(ways, "a") as first, used(ways, "a") as again, used(ways, "b") as other:
        assert first is again
        assert first is not other
    await ways.close()
    assert first.closed
    assert other.closed


async def test_the_longest_unused_makes_room_and_one_in_use_never_does():
    ways = SessionConnections(most=2)
    async with used(ways, "busy") as busy:
        async with used(ways, "old") as old:
            pass
        async with used(ways, "new") as new:
            pass
        assert len(ways) == 2
        async with used(ways, "newest"):
            pass
        await ways.close()
    assert old.closed
    assert new.closed
    assert busy.closed  # with everything else, at the end
    assert len(ways) == 0


async def test_one_in_use_is_not_idle_and_one_with_a_parked_call_waits_for_it():
    ways = SessionConnections(idle_seconds=0)
    async with used(ways, "busy") as busy:
        async with used(ways, "parked") as parked:
            parked.is_free.clear()
        ways.close_idle()
        assert len(ways) == 1
        await asyncio.sleep(0)
        assert not parked.closed
        assert not busy.closed
        parked.is_free.set()
    ways.close_idle()
    await ways.close()
    assert parked.closed
    assert busy.closed


async def test_the_way_to_a_session_that_is_over_is_not_given_out_again_and_closed_by_its_last_user():
    ways = SessionConnections()
    async with used(ways, "a") as first:
        ways.drop("a")
        async with used(ways, "a") as second:
            assert second is not first
        await asyncio.sleep(0)
        assert not first.closed
    async with asyncio.timeout(PATIENCE):
        await first.is_closed.wait()
    assert not second.closed
    await ways.close()
    assert second.closed
