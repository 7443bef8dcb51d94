"""All four stores, on the real thing, each server started once."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.programs import need
from tests.stores import PostgresServer, RedisServer
from toolyard.state import State, open_state


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    need("redis")
    with RedisServer() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture(params=["redis", "postgres"])
def server(request: pytest.FixtureRequest) -> RedisServer | PostgresServer:
    return request.getfixturevalue(f"{request.param}_server")


@pytest.fixture(params=["memory", "sqlite", "redis", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    if request.param in ("memory", "sqlite"):
        return f"{request.param}:"
    return request.getfixturevalue(f"{request.param}_server").url


@pytest.fixture
async def state(url: str, tmp_path: Path) -> AsyncIterator[State]:
    opened = open_state(url, tmp_path)
    yield opened
    await opened.close()


@pytest.fixture
def mine() -> str:
    """A prefix of this test's own: the servers are shared."""
    return f"{uuid4().hex}/"
