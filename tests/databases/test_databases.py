"""Each database through the one interface: what it holds and answers, its limits, how it is stopped."""

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pymysql
import pytest

from tests.programs import needs
from toolyard.databases import Database, DatabaseError, Rows, Table, open_database

ENDLESS = {
    "postgres": "SELECT count(*) FROM generate_series(1, 1000000000000) g(i)",
    "sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
    "duckdb": "SELECT count(*) FROM range(1000000000000) r(i) WHERE hash(i) = 1",
    "mysql": "SELECT count(*) FROM shipments a, shipments b, shipments c WHERE a.id + b.id + c.id < 0",
}


async def ask(
    database: Database, sql: str, *, seconds: float = 20, rows: int = 100, size: int = 1_000_000
) -> Rows:
    return await database.query(sql, seconds=seconds, rows=rows, bytes=size)


async def failure(database: Database, sql: str, **limits: Any) -> DatabaseError:
    with pytest.raises(DatabaseError) as caught:
        await ask(database, sql, **limits)
    return caught.value


async def test_tables_are_seen_with_their_columns_keys_and_indices(database: Database):
    tables = {table.name: table for table in await database.tables()}
    shipments = tables["shipments"]
    assert {column.name for column in shipments.columns} >= {
        "id",
        "customer_id",
        "status",
        "price",
        "ordered_on",
    }
    assert shipments.primary_key == ("id",)
    assert ("customers", ("customer_id",)) in {(key.table, key.columns) for key in shipments.foreign_keys}
    assert ("customer_id", "ordered_on") in {index.columns for index in shipments.indices}
    assert shipments.row_estimate is not None
    assert 4_000 <= shipments.row_estimate <= 6_000
    nullable = {column.name: column.nullable for column in shipments.columns}
    assert (nullable["status"], nullable["notes"]) == (False, True)
    assert (shipments.kind, tables["open_shipments"].kind) == ("table", "view")
    assert ("login",) in {index.columns for index in tables["users"].indices if index.unique}


async def test_descriptions_come_from_the_database(database: Database):
    shipments = await database.table("shipments")
    assert shipments is not None
    if database.dialect == "sqlite":  # has none, but in the text of a table: see the sample
        return
    assert "consignment" in shipments.description
    assert {column.description for column in shipments.columns} >= {"In euros, without tax"}


async def test_a_table_is_found_by_its_name_in_any_case_and_with_its_schema(database: Database):
    found = await database.table("SHIPMENTS")
    assert found is not None
    assert found.name == "shipments"
    assert await database.table(f"{found.schema}.shipments") == found
    assert await database.table("nothing") is None


async def test_a_table_of_another_schema_is_named_with_it(postgres_url: str):
    database = open_database(postgres_url)
    archived = await database.table("archive.shipments_2023")
    assert archived is not None
    assert (archived.name, archived.schema) == ("archive.shipments_2023", "archive")
    assert archived.foreign_keys[0].table == "customers"
    assert len(await database.tables()) >= 32
    await database.close()


async def test_an_answer_has_columns_and_rows_ready_for_json(database: Database):
    answer = await ask(
        database, "SELECT id, status, price, ordered_on, notes FROM shipments ORDER BY id LIMIT 4"
    )
    assert answer.columns == ["id", "status", "price", "ordered_on", "notes"]
    assert answer.rows[2] == [3, "delivered", 10.5, "2024-01-04", None]
    assert "ação" in answer.rows[3][4]
    assert len(answer.types) == 5
    assert json.loads(json.dumps(answer.rows, allow_nan=False)) == answer.rows


async def test_an_empty_answer_still_names_its_columns(database: Database):
    answer = await ask(database, "SELECT id, price FROM shipments WHERE id < 0")
    assert (answer.columns, answer.rows, answer.truncated) == (["id", "price"], [], False)


async def test_rows_over_the_limit_are_cut_and_said_so(database: Database):
    cut = await ask(database, "SELECT id FROM shipments ORDER BY id", rows=3)
    assert (cut.rows, cut.truncated) == ([[1], [2], [3]], True)
    whole = await ask(database, "SELECT id FROM users ORDER BY id", rows=50)
    assert (len(whole.rows), whole.truncated) == (50, False)


async def test_bytes_over_the_limit_are_cut_and_said_so(database: Database):
    cut = await ask(database, "SELECT id, status FROM shipments ORDER BY id", rows=5_000, size=1_000)
    assert cut.truncated
    assert 20 < len(cut.rows) < 100
    assert len(json.dumps(cut.rows, separators=(",", ":"))) <= 1_000
    assert (await failure(database, "SELECT login, password_hash FROM users", size=5)).kind == "too_big"


async def test_a_statement_that_takes_too_long_is_stopped(database: Database):
    error = await failure(database, ENDLESS[database.dialect], seconds=0.2)
    assert error.kind == "timeout"
    assert "0.2 s" in error.reason
    assert (await ask(database, "SELECT 1")).rows == [[1]]


async def test_a_cancelled_task_cancels_the_statement_in_the_database(database: Database, url: str):
    asked = asyncio.create_task(ask(database, ENDLESS[database.dialect], seconds=600))
    await _until_running(url, asked, 1)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    # The statement is gone from the server; embedded, the task does not end before the thread's work has.
    await _until_running(url, None, 0)
    assert (await ask(database, "SELECT 1")).rows == [[1]]


async def _until_running(url: str, task: "asyncio.Task[Rows] | None", count: int) -> None:
    """Until so many of the endless statements run in the server; embedded ones run when they are asked."""
    if not url.startswith(("postgresql", "mysql")):
        await asyncio.sleep(0)
        return
    while await asyncio.to_thread(_running, url) != count:
        assert task is None or not task.done()


def _running(url: str) -> int:
    if url.startswith("mysql"):
        socket = url.partition("socket=")[2]
        with pymysql.connect(unix_socket=socket, user="reader", password="correct-horse-battery") as line:
            cursor = line.cursor()
            cursor.execute(
                "SELECT count(*) FROM information_schema.processlist WHERE info LIKE '%b.id + c%'"
                " AND id <> connection_id()"
            )
            return cursor.fetchall()[0][0]
    with psycopg.connect(url) as line:
        found = line.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%1000000000000%'"
            " AND pid <> pg_backend_pid()"
        ).fetchone()
        return found[0] if found else -1


async def test_more_statements_than_connections_wait_for_each_other(database: Database):
    answers = await asyncio.gather(*(ask(database, f"SELECT {number}") for number in range(20)))
    assert [answer.rows for answer in answers] == [[[number]] for number in range(20)]


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("SELECT * FROM nothing_here", "unknown"),
        ("SELECT nothing_here FROM users", "unknown"),
        ("SELECT FROM WHERE", "syntax"),
        ("DELETE FROM users", "read_only"),
    ],
)
async def test_what_is_wrong_has_a_kind(database: Database, sql: str, kind: str):
    error = await failure(database, sql)
    # A write is no syntax where PostgreSQL expects a question; MySQL's statement is parsed before it is sent.
    assert error.kind in {
        kind,
        *({"syntax"} if kind == "read_only" else ()),
        *({"read_only"} if kind == "syntax" else ()),
    }
    assert error.reason


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:hush%21@127.0.0.1:1/x",
        "mysql://me:hush%21@127.0.0.1:1/x",
        # Signs that had to be written otherwise: the driver takes a part of the password for a host or port.
        "postgresql://me:some@hush@127.0.0.1:1/x",
        "postgresql://me:hush@it/all@127.0.0.1:1/x",
        "mysql://me:hush/it@127.0.0.1:1/x",
        "mysql://me:hush#it@127.0.0.1:1/x",
    ],
)
async def test_what_cannot_be_reached_says_so_without_a_password(url: str):
    database = open_database(url)
    error = await failure(database, "SELECT 1")
    assert error.kind == "unreachable"
    assert "hush" not in error.reason + database.name
    with pytest.raises(DatabaseError):
        await database.tables()
    await database.close()


@pytest.mark.parametrize(
    "url", ["sqlite:/nowhere/at/all.db", "duckdb:/nowhere/at/all.db", "duckdb:/no/a.csv"]
)
async def test_a_file_that_is_not_there_is_nothing_to_wait_for(url: str):
    database = open_database(url)
    error = await failure(database, "SELECT 1")
    assert error.kind == "unusable"
    assert error.reason == f"there is no file {url.rpartition('/')[2]!r}"
    with pytest.raises(DatabaseError):
        await database.tables()
    await database.close()


@pytest.mark.parametrize(
    "url", ["oracle://x", "nonsense", "sqlite:", "duckdb::memory:", "tea.cvs", "https://there/tea.csv"]
)
def test_what_is_no_address_of_a_database_is_refused_at_once(url: str):
    with pytest.raises(DatabaseError, match="hint: sqlite:PATH"):
        open_database(url)


async def test_a_wrong_password_is_not_repeated(postgres_url: str):
    database = open_database(postgres_url.replace("correct-horse-battery", "wrong-horse"))
    error = await failure(database, "SELECT 1")
    assert error.kind == "unreachable"
    assert "wrong-horse" not in error.reason
    await database.close()


async def test_tables_are_looked_at_again_after_a_while_only(tmp_path: Path):
    path = tmp_path / "changing.db"
    _run_in_sqlite(path, "CREATE TABLE one (i integer)")
    kept, fresh = open_database(f"sqlite:{path}"), open_database(f"sqlite:{path}", cache_seconds=0)
    assert _names(await kept.tables()) == _names(await fresh.tables()) == ["one"]
    _run_in_sqlite(path, "CREATE TABLE two (i integer)")
    assert _names(await kept.tables()) == ["one"]
    assert _names(await fresh.tables()) == ["one", "two"]
    await kept.close()
    await fresh.close()


def _run_in_sqlite(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(sql)


def _names(tables: list[Table]) -> list[str]:
    return [table.name for table in tables]


async def test_two_may_read_the_same_file(duckdb_url: str):
    first, second = open_database(duckdb_url), open_database(duckdb_url)
    assert (await ask(first, "SELECT count(*) FROM users")).rows == [[50]]
    assert (await ask(second, "SELECT count(*) FROM users")).rows == [[50]]
    await first.close()
    assert (await ask(second, "SELECT count(*) FROM users")).rows == [[50]]
    await second.close()


async def test_a_line_that_broke_is_replaced(postgres_url: str):
    database = open_database(postgres_url)
    assert (await ask(database, "SELECT 1")).rows == [[1]]
    with psycopg.connect(postgres_url) as line:
        line.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'toolyard'"
        )
    assert (await ask(database, "SELECT 2")).rows == [[2]]
    await database.close()


async def test_a_variable_of_this_program_is_no_table(duckdb_url: str):
    shipments_of_mine = duckdb.sql("SELECT 1 AS i")
    database = open_database(duckdb_url)
    assert (await failure(database, "SELECT * FROM shipments_of_mine")).kind == "unknown"
    assert shipments_of_mine.fetchall() == [(1,)]
    await database.close()


async def test_values_of_postgresql_are_ready_for_json(postgres_url: str):
    database = open_database(postgres_url)
    answer = await ask(
        database,
        "SELECT 12345678901234567890.5::numeric, 0.1::numeric, 7::numeric, 'NaN'::float8,"
        " '-Infinity'::numeric, 'a'::bytea,"
        " TIMESTAMPTZ '2024-05-06 07:08:09+00' AT TIME ZONE 'UTC', ARRAY[1.5, NULL], '{\"a\": [1]}'::jsonb,"
        " INTERVAL '1 day 2 hours', int4range(1, 3), ROW(1, 'x'), 'a'::\"char\", '10.0.0.0/8'::cidr,"
        " TIMESTAMPTZ '2024-05-06 07:08:09.25+00' = '2024-05-06 09:08:09.25+02', 9223372036854775807",
    )
    json.dumps(answer.rows, allow_nan=False)
    assert answer.rows[0][:9] == [
        *("12345678901234567890.5", 0.1, 7, "NaN", "-Infinity", "61", "2024-05-06T07:08:09"),
        *([1.5, None], {"a": [1]}),
    ]
    assert answer.rows[0][9:11] == ["P1DT2H", "[1,3)"]
    assert answer.rows[0][14:] == [True, 9223372036854775807]
    await database.close()


async def test_values_of_duckdb_are_ready_for_json(duckdb_url: str):
    database = open_database(duckdb_url)
    answer = await ask(
        database,
        "SELECT 170141183460469231731687303715884105727::HUGEINT, 1.50::DECIMAL(4, 2), 'nan'::DOUBLE,"
        " 'a'::BLOB, [1, 2], {'a': DATE '2024-01-02'}, MAP {'k': 1.5}, INTERVAL 26 HOUR,"
        " TIMESTAMPTZ '2024-05-06 07:08:09+00' IS NULL,"
        " TIME '12:30:00', NULL",
    )
    json.dumps(answer.rows, allow_nan=False)
    assert answer.rows[0][:7] == [
        *("170141183460469231731687303715884105727", 1.5, "NaN", "61", [1, 2]),
        *({"a": "2024-01-02"}, {"k": 1.5}),
    ]
    assert answer.rows[0][7:] == ["P1DT2H", False, "12:30:00", None]
    await database.close()


async def test_a_value_that_python_has_no_form_for_is_text_or_said_so(duckdb_url: str):
    database = open_database(duckdb_url)
    zoned = "TIMESTAMPTZ '2024-05-06 07:08:09+00'"
    found = await ask(
        database, f"SELECT {zoned}::TIMESTAMPTZ_NS, [{zoned}], DATE '290000-01-01', TIME '24:00:00'"
    )
    assert found.rows[0][0].startswith("2024-05-06T")
    assert found.rows[0][2:] == ["290000-01-01", "24:00:00"]
    error = await failure(database, "SELECT INTERVAL 100000000 YEAR")
    assert error.reason.startswith("a value cannot be shown: ")
    assert (await ask(database, "FROM test_all_types()")).count == 3
    await database.close()


async def test_decimals_keep_their_digits(duckdb_url: str):
    database = open_database(duckdb_url)
    found = await ask(
        database,
        "SELECT 123456789012345::DECIMAL(15, 0), 0.000000000000001::DECIMAL(15, 15),"
        " -12345.678::DECIMAL(8, 3), 1234567890123456.78::DECIMAL(18, 2),"
        " 12345678901234567890.5::DECIMAL(21, 1), 2.50::DECIMAL(20, 2)",
    )
    assert found.rows == [
        [123456789012345, 1e-15, -12345.678, "1234567890123456.78", "12345678901234567890.5", 2.5]
    ]
    await database.close()


async def test_values_of_sqlite_are_ready_for_json(sqlite_url: str):
    database = open_database(sqlite_url)
    answer = await ask(
        database, "SELECT x'00ff', 1e400, 9223372036854775807, CAST(x'ff61' AS TEXT), NULL, 1.5"
    )
    json.dumps(answer.rows, allow_nan=False)
    assert answer.rows == [["00ff", "Infinity", 9223372036854775807, "\ufffda", None, 1.5]]
    assert answer.types == ["BLOB", "REAL", "INTEGER", "TEXT", "", "REAL"]
    await database.close()


@needs("mariadb")
async def test_values_of_mysql_are_ready_for_json(mysql_url: str):
    database = open_database(mysql_url)
    answer = await ask(
        database, "SELECT 1.50, DATE '2024-01-02', TIME '26:00:00', x'00ff', NULL, 18446744073709551615"
    )
    json.dumps(answer.rows, allow_nan=False)
    assert answer.rows == [[1.5, "2024-01-02", "P1DT2H", "00ff", None, "18446744073709551615"]]
    await database.close()


async def test_sqlite_does_not_begin_with_a_pattern_so_long_that_nothing_could_stop_it():
    sample = open_database("")
    error = await failure(
        sample, "SELECT printf('%.3000000c', 'a') GLOB '*' || printf('%.20000c', 'a') || 'b'"
    )
    assert "pattern too complex" in error.reason
    found = await sample.query("SELECT 'tea' LIKE '%ea'", seconds=5, rows=1, bytes=1000)
    assert found.rows == [[1]]
    await sample.close()
