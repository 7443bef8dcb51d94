"""The warehouse in real databases, each made once for all tests of this folder."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.databases.mariadb import MariaServer
from tests.programs import need
from tests.servers.warehouse import fill_duckdb, fill_postgres, fill_sqlite
from tests.stores import PostgresServer
from toolyard.databases import Database, open_database

SHIPMENTS = 5_000
"""In PostgreSQL too: enough to go wrong with, and made in less than a second."""


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    with PostgresServer() as server:
        fill_postgres(server.url, shipments=SHIPMENTS)
        yield server.url


@pytest.fixture(scope="session")
def sqlite_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("sqlite") / "warehouse.db"
    fill_sqlite(path)
    return f"sqlite:{path}"


@pytest.fixture(scope="session")
def duckdb_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("duckdb") / "warehouse.duckdb"
    fill_duckdb(path)
    return f"duckdb:{path}"


@pytest.fixture(scope="session")
def mysql_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    need("mariadb")
    with MariaServer(tmp_path_factory.mktemp("mariadb")) as server:
        yield server.url


@pytest.fixture(params=["postgres", "sqlite", "duckdb", "mysql"])
def url(request: pytest.FixtureRequest) -> str:
    return request.getfixturevalue(f"{request.param}_url")


@pytest.fixture
async def database(url: str) -> AsyncIterator[Database]:
    opened = open_database(url)
    yield opened
    await opened.close()


@pytest.fixture
def open_folder(tmp_path: Path) -> Path:
    """Where any user of this machine could make a file."""
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    for parent in folder.parents[:3]:
        parent.chmod(parent.stat().st_mode | 0o011)
    return folder
