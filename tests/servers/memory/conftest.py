"""Both databases, on the real thing; PostgreSQL is started once."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.servers.memory.talking import Yard
from tests.stores import PostgresServer


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'memory.db'}"
    return request.getfixturevalue("postgres_server").url


@pytest.fixture
async def yard(url: str) -> AsyncIterator[Yard]:
    """Servers over one database, for a tenant of this test's own: PostgreSQL is shared."""
    made = Yard(url, uuid4().hex)
    yield made
    await made.close()
