"""Every attack is refused by the guard, with a reason; and sent past it to a real database, does nothing."""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.databases.attacks import ALL, ATTACKS, QUESTIONS
from toolyard.databases import Database, DatabaseError
from toolyard.databases.guard.statement import guard_statement
from toolyard.databases.model import StatementRefusedError

LIMITS: dict[str, Any] = {"seconds": 20.0, "rows": 1000, "bytes": 1_000_000}


@pytest.mark.parametrize("dialect", ALL)
def test_every_attack_is_refused_with_a_reason(dialect: str):
    attacks = [attack for attack in ATTACKS if dialect in attack.dialects]
    assert [attack.name for attack in attacks if not _refusal(attack.sql, dialect)] == []


def _refusal(sql: str, dialect: str) -> str:
    try:
        guard_statement(sql, dialect, limit=100)
    except StatementRefusedError as refused:
        return refused.reason
    return ""


def test_there_are_attacks_enough():
    assert len(ATTACKS) >= 200
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS)


async def test_an_attack_past_the_guard_changes_nothing(database: Database, url: str, open_folder: Path):
    before = await _fingerprint(database, url)
    for attack in ATTACKS:
        if database.dialect in attack.dialects:
            with suppress(DatabaseError):
                await database.query(attack.sql.replace("FOLDER", str(open_folder)), **LIMITS)
            assert _names_in(open_folder) == [], attack.name
            seen = await _rows(database, "SELECT count(*), sum(salary) FROM users")
            assert seen == [[50, 51275]], attack.name
    assert await _fingerprint(database, url) == before


async def test_a_question_that_passes_the_guard_says_what_it_said_before(database: Database):
    asked = [question for question, dialects in QUESTIONS if database.dialect in dialects]
    assert len(asked) > 20
    for question in asked:
        through = guard_statement(question, database.dialect, limit=1001)
        as_written = await database.query(question, **LIMITS)
        as_guarded = await database.query(through.sql, **LIMITS)
        assert as_guarded.rows == as_written.rows, question
        assert as_guarded.rows, question


def _names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def _rows(database: Database, sql: str) -> list[list[Any]]:
    return (await database.query(sql, **LIMITS)).rows


async def _fingerprint(database: Database, url: str) -> Any:
    """All that could have been changed: the file itself, or what a superuser sees."""
    if database.dialect in ("sqlite", "duckdb"):
        path = Path(url.partition(":")[2])
        return await asyncio.to_thread(path.read_bytes), _names_in(path.parent)
    if database.dialect == "mysql":
        names = [table.name for table in await database.tables()]
        return [await _rows(database, f"SELECT * FROM {name} ORDER BY 1") for name in names], names
    return await asyncio.to_thread(_seen_by_superuser, url)


_EVERYTHING = """
SELECT (SELECT array_agg(concat(oid, relname, relkind, relnamespace) ORDER BY oid) FROM pg_class),
  (SELECT array_agg(rolname || coalesce(rolpassword, '') ORDER BY oid) FROM pg_authid),
  (SELECT count(*) FROM pg_proc), (SELECT count(*) FROM pg_largeobject_metadata),
  (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'), (SELECT count(*) FROM pg_prepared_statements),
  (SELECT array_agg(extname) FROM pg_extension),
  (SELECT md5(string_agg(s::text, '' ORDER BY id)) FROM shipments s),
  (SELECT md5(string_agg(u::text, '' ORDER BY id)) FROM users u),
  (SELECT array_agg(sourcefile || name) FROM pg_file_settings)
"""


def _seen_by_superuser(url: str) -> Any:
    with psycopg.connect(url) as connection:
        return connection.execute(_EVERYTHING.encode()).fetchone()
