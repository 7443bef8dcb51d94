"""Both databases, on the real thing; PostgreSQL is started once, and every test has a tenant of its own."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.servers.sessions.archive import Archive
from tests.stores import PostgresServer


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'sessions.db'}"
    return request.getfixturevalue("postgres_server").url


@pytest.fixture
async def archive(url: str) -> AsyncIterator[Archive]:
    made = Archive(url, uuid4().hex)
    yield made
    await made.close()


@pytest.fixture
async def sqlite_archive(tmp_path: Path) -> AsyncIterator[Archive]:
    made = Archive(f"sqlite:{tmp_path / 'sessions.db'}", "local")
    yield made
    await made.close()
