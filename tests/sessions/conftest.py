"""Leases and profiles on real stores, each server started once."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.programs import need
from tests.stores import PostgresServer, RedisServer
from toolyard.state import MemoryState, State, open_state


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    need("redis")
    with RedisServer() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture(params=["sqlite", "redis", "postgres"])
def shared_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of a store that several processes can use."""
    if request.param == "sqlite":
        return f"sqlite://{tmp_path}/state.db"
    return request.getfixturevalue(f"{request.param}_server").url


@pytest.fixture
async def opened(shared_url: str) -> AsyncIterator[Callable[[], State]]:
    """Another way to the same store, as another process would have it."""
    async with AsyncExitStack() as stack:

        def another() -> State:
            state = open_state(shared_url, None)
            stack.push_async_callback(state.close)
            return state

        yield another


@pytest.fixture
def state() -> State:
    return MemoryState()
