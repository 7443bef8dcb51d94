"""The stores that several processes may share, each server started once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.programs import need
from tests.stores import PostgresServer, RedisServer


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
    if request.param == "sqlite":
        return f"sqlite://{tmp_path}/state.db"
    return request.getfixturevalue(f"{request.param}_server").url
