"""Limits of time and memory hold for any statement on SQLite and DuckDB, also past the guard."""

import asyncio
import logging
import os
import re
import sqlite3
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import get_args

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolyard.databases import Database, DatabaseError, ErrorKind, open_database

EXAMPLES = 40
"""Of each engine: few, since many of them take all of their time. It held for 900."""
SECONDS = 0.4
MEMORY = 128 * 2**20
ROOM = 64 * 2**20
"""How much this process may grow by what a statement does: an answer of a megabyte, and what Python keeps."""

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT sum(i) FROM n"
HOSTILE = [
    ("duckdb", "SELECT len(range(100000000))"),
    ("duckdb", "SELECT len(format('{:>500000000}', 1))"),
    ("duckdb", "SELECT len(printf('%500000000d', 1))"),
    ("duckdb", "SELECT len(list_aggregate(range(100000000), 'string_agg', ','))"),
    ("duckdb", "SELECT len(repeat(repeat('x', 100000), 20000))"),
    ("duckdb", "SELECT max(len(lpad('x', 900000000, 'y'))) FROM range(1000)"),
    ("duckdb", "SELECT count(*) FROM range(10000000) a, range(10000000) b, range(10000000) c WHERE a < b"),
    ("duckdb", "SELECT list(i) FROM range(1000000000) r(i)"),
    (
        "duckdb",
        "WITH RECURSIVE n(t) AS (SELECT 'x' UNION ALL SELECT t || t FROM n) SELECT max(len(t)) FROM n",
    ),
    ("duckdb", "SELECT string_split(repeat('a', 100000000), '')"),
    ("duckdb", "SELECT levenshtein(repeat('a', 1000000), repeat('b', 1000000))"),
    ("sqlite", "SELECT length(printf('%.2147483647c', 'x'))"),
    ("sqlite", "SELECT length(printf('%.1900000000c', 1)) + length(printf('%.1900000000c', 1))"),
    ("sqlite", "SELECT length(hex(zeroblob(900000000)))"),
    ("sqlite", "SELECT instr(hex(zeroblob(490000)), hex(zeroblob(240000)) || '1')"),
    ("sqlite", "SELECT length(replace(hex(zeroblob(490000)), hex(zeroblob(200000)) || '1', 'x'))"),
    ("sqlite", ENDLESS),
    ("sqlite", "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n ORDER BY -i"),
    ("sqlite", "SELECT count(*) FROM orders a, orders b, orders c, orders d, orders e"),
    ("sqlite", "SELECT trim(hex(zeroblob(490000)), hex(randomblob(490000)))"),
]


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[dict[str, Database]]:
    path = _empty(tmp_path)
    databases = {
        "duckdb": open_database(f"duckdb:{path}", memory=MEMORY),
        "sqlite": open_database("", memory=MEMORY),
    }
    yield databases
    for database in databases.values():
        await database.close()


def _empty(folder: Path) -> Path:
    path = folder / "empty.duckdb"
    duckdb.connect(str(path)).close()
    return path


def _own_memory() -> int:
    return int(Path("/proc/self/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def _ended(database: Database, sql: str) -> ErrorKind | None:
    """Why a statement gave nothing, or None; and the next one is answered."""
    before = _own_memory()
    try:
        await database.query(sql, seconds=SECONDS, rows=10, bytes=1_000_000)
        kind, reason = None, "none"
    except DatabaseError as error:
        kind, reason = error.kind, error.reason
    assert reason
    assert kind is None or kind in get_args(ErrorKind)
    assert _own_memory() - before < ROOM, sql
    assert (await database.query("SELECT 1", seconds=30, rows=1, bytes=1000)).rows == [[1]]
    return kind


@pytest.mark.parametrize(("dialect", "sql"), HOSTILE)
async def test_a_statement_that_takes_all_there_is_ends_at_a_limit(
    opened: dict[str, Database], dialect: str, sql: str
):
    assert await _ended(opened[dialect], sql) in ("timeout", "memory", "too_big")


async def test_the_error_names_the_limit(opened: dict[str, Database]):
    with pytest.raises(DatabaseError, match="exceeds its memory limit of 128 MiB") as memory:
        await opened["duckdb"].query(
            "SELECT list(i) FROM range(1000000000) r(i)", seconds=30, rows=1, bytes=1000
        )
    assert memory.value.kind == "memory"
    with pytest.raises(DatabaseError, match=r"stopped after 0\.4 s"):
        await opened["sqlite"].query(ENDLESS, seconds=SECONDS, rows=1, bytes=1000)


async def test_others_are_answered_while_one_takes_all_it_may(opened: dict[str, Database]):
    database = opened["duckdb"]
    endless = "SELECT count(*) FROM range(1000000000000) r(i) WHERE hash(i) = 1"
    hogs = [
        asyncio.create_task(database.query(endless, seconds=600, rows=1, bytes=1000, caller="one"))
        for _ in range(8)
    ]
    for number in range(5):
        found = await database.query(f"SELECT {number}", seconds=30, rows=1, bytes=1000, caller="another")
        assert found.rows == [[number]]
    assert not any(hog.done() for hog in hogs)
    for hog in hogs:
        hog.cancel()
    await asyncio.gather(*hogs, return_exceptions=True)


# Statements made of all functions that an engine itself lists, and of huge constants.

HUGE = [100_000_000, 500_000_000, 2**31 - 1, 2**31, 2**63 - 1, -1, -(2**63)]
NUMBERS = [str(number) for number in HUGE] + ["1e308", "1", "'100000000'"]
TEXTS = {
    "duckdb": [
        *(
            "'x'",
            "'%500000000d'",
            "'{:>500000000}'",
            "'{:>2147483647}'",
            "'%.2147483647f'",
            "'(a*)*b'",
            "'$[*]'",
        ),
        *("'string_agg'", "'2000-01-01'", "repeat('x', 100000000)", "lpad('x', 500000000, 'y')"),
    ],
    "sqlite": [
        *(
            "'x'",
            "'%500000000d'",
            "'%.2147483647c'",
            "'%2147483647.2147483647f'",
            "'$[1]'",
            "'+1000000000 years'",
        ),
        *("zeroblob(100000000)", "hex(zeroblob(490000))", "printf('%.900000000c', 'x')", "x'ff'"),
    ],
}
LISTS = [
    *("range(100000000)", "range(9223372036854775807)", "[1, 2]", "[repeat('x', 100000000)]"),
    *(
        "string_split(repeat('x,', 10000000), ',')",
        "generate_series(1, 100000000)",
        "MAP {1: range(100000000)}",
    ),
]
Signature = tuple[str, str, tuple[str, ...]]


def _duckdb_signatures() -> list[Signature]:
    """Name, kind, and the types of the arguments."""
    with duckdb.connect() as connection:
        found = connection.execute(
            "SELECT DISTINCT function_name, function_type, parameter_types FROM duckdb_functions()"
            " WHERE function_type IN ('scalar', 'aggregate', 'table', 'macro', 'table_macro') ORDER BY ALL"
        ).fetchall()
    return [
        (name, kind, tuple(one or "ANY" for one in types))
        for name, kind, types in found
        if re.fullmatch(r"\w+", name)
    ]


def _sqlite_signatures() -> list[Signature]:
    found = sqlite3.connect(":memory:").execute(
        "SELECT DISTINCT name, type, narg FROM pragma_function_list ORDER BY 1, 2, 3"
    )
    return [
        (name, kind, ("ANY",) * (many if many >= 0 else 3))
        for name, kind, many in found
        if re.fullmatch(r"\w+", name)
    ]


@st.composite
def _statements(draw: st.DrawFn, dialect: str, signatures: Sequence[Signature]) -> str:
    def expression(depth: int) -> tuple[str, str]:
        name, kind, types = draw(st.sampled_from(signatures))
        return f'"{name}"({", ".join(argument(one, depth) for one in types)})', kind

    def argument(kind: str, depth: int) -> str:
        if depth and draw(st.integers(0, 3)) == 0:
            return expression(depth - 1)[0]
        texts = TEXTS[dialect]
        if dialect == "duckdb" and ("[" in kind or kind.startswith("MAP")):
            return draw(st.sampled_from(LISTS))
        if kind in ("VARCHAR", "BLOB", "JSON", "BIT"):
            return draw(st.sampled_from(texts))
        return draw(st.sampled_from([*NUMBERS, *texts, *(LISTS if dialect == "duckdb" else ())]))

    made, kind = expression(2)
    if kind.startswith("table"):
        return f"SELECT count(*) FROM {made}"
    many = " FROM range(100000000) r(i)" if dialect == "duckdb" else " FROM orders a, orders b, orders c"
    return draw(st.sampled_from([f"SELECT {made}", f"SELECT {made}{many}", f"SELECT count({made}){many}"]))


@pytest.mark.parametrize("dialect", ["duckdb", "sqlite"])
def test_any_function_with_huge_constants_ends_within_the_limits(
    dialect: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    signatures = _duckdb_signatures() if dialect == "duckdb" else _sqlite_signatures()
    assert len({name for name, *_ in signatures}) > 100
    path = _empty(tmp_path)
    with asyncio.Runner() as runner:
        database = open_database(f"duckdb:{path}" if dialect == "duckdb" else "", memory=MEMORY)
        runner.run(_ended(database, "SELECT 2"))

        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            suppress_health_check=[HealthCheck.too_slow],
        )
        @given(_statements(dialect, signatures))
        def holds(sql: str) -> None:
            runner.run(_ended(database, sql))

        try:
            with caplog.at_level(logging.INFO, "toolyard.workers"):
                holds()
        finally:
            runner.run(database.close())
    # A worker that ends for want of memory is aborted; a status of its own would be a mistake of ours.
    assert "(status " not in caplog.text
