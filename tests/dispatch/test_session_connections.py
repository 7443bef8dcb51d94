"""Connections of many sessions: one for each, limited in number, closed when idle."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.serving import PATIENCE
from toolyard.dispatch.composio.sessions import SessionConnections
from toolyard.upstream.base import Forward, Outcome, StatelessUpstream
from toolyard.upstream.connection import UpstreamInfo
from toolyard.wire.call import Call


class Path(StatelessUpstream):
    """A connection that records whether it was closed."""

    def __init__(self) -> None:
        self.is_closed = asyncio.Event()
        self.is_free = asyncio.Event()
        self.is_free.set()

    async def send(self, forward: Forward) -> Outcome:
        raise NotImplementedError

    async def info(self, call: Call | None = None) -> UpstreamInfo:
        raise NotImplementedError

    async def idle(self) -> None:
        await self.is_free.wait()

    async def close(self) -> None:
        self.is_closed.set()

    @property
    def closed(self) -> bool:
        return self.is_closed.is_set()


@asynccontextmanager
async def used(connections: SessionConnections, session: str) -> AsyncIterator[Path]:
    """The connection of a session, while it is used."""
    async with connections.use(session, Path) as connection:
        assert isinstance(connection, Path)
        yield connection


async def test_a_session_has_one_connection():
    connections = SessionConnections()
    async with (
        used(connections, "a") as first,
        used(connections, "a") as again,
        used(connections, "b") as other,
    ):
        assert first is again
        assert first is not other
    await connections.close()
    assert first.closed
    assert other.closed


async def test_the_longest_unused_makes_room_and_one_in_use_never_does():
    connections = SessionConnections(max_open=2)
    async with used(connections, "busy") as busy:
        async with used(connections, "old") as old:
            pass
        async with used(connections, "new") as new:
            pass
        assert len(connections) == 2
        async with used(connections, "newest"):
            pass
        await connections.close()
    assert old.closed
    assert new.closed
    assert busy.closed  # with everything else, at the end
    assert len(connections) == 0


async def test_one_in_use_is_not_idle_and_one_with_a_parked_call_waits_for_it():
    connections = SessionConnections(idle_seconds=0)
    async with used(connections, "busy") as busy:
        async with used(connections, "parked") as parked:
            parked.is_free.clear()
        connections.close_idle()
        assert len(connections) == 1
        await asyncio.sleep(0)
        assert not parked.closed
        assert not busy.closed
        parked.is_free.set()
    connections.close_idle()
    await connections.close()
    assert parked.closed
    assert busy.closed


async def test_the_way_to_a_session_that_is_over_is_not_given_out_again_and_closed_by_its_last_user():
    connections = SessionConnections()
    async with used(connections, "a") as first:
        connections.drop("a")
        async with used(connections, "a") as second:
            assert second is not first
        await asyncio.sleep(0)
        assert not first.closed
    async with asyncio.timeout(PATIENCE):
        await first.is_closed.wait()
    assert not second.closed
    await connections.close()
    assert second.closed
