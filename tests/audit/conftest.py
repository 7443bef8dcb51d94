"""Every store of the audit, on the real thing; PostgreSQL is started once."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from tests.stores import PostgresServer


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> str:
    """A database of this test's own."""
    name = f"audit_{uuid4().hex}"
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return postgres_server.url.replace("/postgres?", f"/{name}?")


@pytest.fixture(params=["file", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    return request.getfixturevalue("postgres_url") if request.param == "postgres" else f"{request.param}:"


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Callable[[str], None]]:
    """The address of a database, and a way to change it behind the audit's back."""
    if request.param == "postgres":
        address = request.getfixturevalue("postgres_url")

        def run(statement: str) -> None:
            with psycopg.connect(address, autocommit=True) as connection:
                connection.execute(statement.encode())

        return address, run

    def change(statement: str) -> None:
        with closing(sqlite3.connect(tmp_path / "audit.db", isolation_level=None)) as connection:
            connection.execute(statement)

    return "sqlite:", change
