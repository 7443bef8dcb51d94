"""What can be made anew lives on in memory while its store is away, and is handed over afterwards."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from tests.stores import RedisServer
from tests.waiting import until
from toolyard.state import MemoryState, State, open_state
from toolyard.state.memory import FallbackState
from toolyard.state.store import StateEntryError, StateUnavailableError


class Door:
    """A store that can be shut."""

    def __init__(self, room: State) -> None:
        self.room = room
        self.open = True

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def asked(*arguments: object) -> object:
            if not self.open:
                raise StateUnavailableError("the door is shut")
            return await getattr(self.room, name)(*arguments)

        return asked


async def test_an_outage_is_told_once_and_costs_nothing_that_was_known(
    redis_server: RedisServer, mine: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "toolyard.state")
    store = open_state(redis_server.url, None)
    other = open_state(redis_server.url, None)
    fallback = FallbackState(store, "sessions", retry_seconds=0.05)
    await store.put(f"{mine}read", b"read before")
    assert await fallback.get(f"{mine}read") == b"read before"
    await fallback.put(f"{mine}written", b"written before", 600)
    await asyncio.to_thread(redis_server.stop)
    try:
        assert await fallback.get(f"{mine}read") == b"read before"
        assert await fallback.get(f"{mine}written") == b"written before"
        assert await fallback.swap(f"{mine}meanwhile", None, b"one", 600)
        assert not await fallback.swap(f"{mine}meanwhile", None, b"two", 600)
        assert await fallback.swap(f"{mine}meanwhile", b"one", b"two", 600)
        await fallback.put(f"{mine}dropped", b"value", 600)
        assert await fallback.delete(f"{mine}dropped")
        assert f"{mine}meanwhile" in await fallback.keys(mine)
    finally:
        await asyncio.to_thread(redis_server.start)

    async def handed_over() -> bool:
        await fallback.get(f"{mine}read")
        return await other.get(f"{mine}meanwhile") == b"two"

    await until(handed_over)

    async def back() -> bool:
        await fallback.put(f"{mine}after", b"value")
        return await other.get(f"{mine}after") == b"value"

    await until(back)
    assert await other.get(f"{mine}dropped") is None
    told = [record.getMessage() for record in caplog.records]
    assert len([each for each in told if "in memory for now: redis://127.0.0.1" in each]) == 1
    assert told[-1] == "sessions are kept in the state store again"
    for each in (store, other, fallback):
        await each.close()


async def test_what_somebody_else_put_there_during_the_outage_stays() -> None:
    store = Door(MemoryState())
    fallback = FallbackState(cast(State, store), "sessions", retry_seconds=0.0)
    store.open = False
    assert await fallback.swap("key", None, b"ours")
    assert await fallback.swap("our own", None, b"ours")
    await store.room.put("key", b"theirs")
    store.open = True

    async def read() -> bool:
        return await fallback.get("key") == b"theirs"

    await until(read)
    assert await store.room.get("our own") == b"ours"


async def test_a_key_that_cannot_be_one_is_no_outage() -> None:
    fallback = FallbackState(open_state("memory:", None), "sessions")
    with pytest.raises(StateEntryError):
        await fallback.put("", b"value")
    await fallback.put("key", b"value")
    assert await fallback.get("key") == b"value"
