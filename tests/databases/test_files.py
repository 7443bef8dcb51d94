"""Data files as a DuckDB database: what becomes a table, what is said of the rest, and no way out."""

import asyncio
import gzip
import json
import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import pytest

from toolyard.databases import Database, DatabaseError, Rows, open_database

SALES = 'day,amount,who\n2024-01-02,1.50,Ana\n2024-01-03,2.25,"O\'Neil, ""B"""\n'


class Opened:
    """A database of data files, closed after the test."""

    def __init__(self) -> None:
        self._all: list[Database] = []

    def __call__(self, address: object, scheme: str = "duckdb:", **options: Any) -> Database:
        database = open_database(f"{scheme}{address}", **options)
        self._all.append(database)
        return database

    async def close(self) -> None:
        for database in self._all:
            await database.close()


@pytest.fixture
async def opened() -> Any:
    made = Opened()
    yield made
    await made.close()


async def ask(database: Database, sql: str) -> Rows:
    return await database.query(sql, seconds=30, rows=100, bytes=1_000_000)


async def failure(database: Database, sql: str = "SELECT 1") -> DatabaseError:
    with pytest.raises(DatabaseError) as caught:
        await ask(database, sql)
    return caught.value


async def names(database: Database) -> list[str]:
    return [table.name for table in await database.tables()]


def write(path: Path, text: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


async def test_a_csv_file_is_a_table_with_types(opened: Opened, tmp_path: Path):
    database = opened(write(tmp_path / "sales.csv", SALES))
    found = await ask(database, "SELECT * FROM sales ORDER BY day")
    assert (found.columns, found.types) == (["day", "amount", "who"], ["DATE", "DOUBLE", "VARCHAR"])
    assert found.rows == [["2024-01-02", 1.5, "Ana"], ["2024-01-03", 2.25, 'O\'Neil, "B"']]
    (table,) = await database.tables()
    assert (table.name, table.kind, table.description) == ("sales", "view", "The file 'sales.csv'")
    assert [(column.name, column.type) for column in table.columns] == [
        *(("day", "DATE"), ("amount", "DOUBLE"), ("who", "VARCHAR")),
    ]


@pytest.mark.parametrize("given", ["sales.csv", ".", "sales*.csv", "shop.db", "shop.duckdb"])
async def test_a_path_alone_is_enough_where_its_name_says_what_it_is(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "sales.csv", SALES)
    with sqlite3.connect("shop.db") as lite, duckdb.connect("shop.duckdb") as duck:
        for made in (lite, duck):
            made.execute("CREATE TABLE sales AS SELECT 'O''Neil' AS who")
    assert (await ask(opened(given, ""), "SELECT who FROM sales WHERE who LIKE 'O%'")).count == 1


async def test_a_path_of_nothing_is_named(opened: Opened, tmp_path: Path):
    assert (await failure(opened(tmp_path / "tea.csv", ""))).reason == "there is no file 'tea.csv'"


async def test_other_kinds_of_files_are_tables_too(opened: Opened, tmp_path: Path):
    records = [{"a": 1, "b": {"c": [1, 2]}}, {"a": 2, "b": None}]
    write(tmp_path / "tabs.tsv", "a\tb\n1\tx\n")
    write(tmp_path / "packed.csv.gz", gzip.compress(b"a,b\n1,x\n"))
    write(tmp_path / "whole.json", json.dumps(records))
    write(tmp_path / "lines.ndjson", "\n".join(map(json.dumps, records)))
    write(tmp_path / "more.jsonl", '{"a": 1, "b": "x"}\n')
    duckdb.sql(f"COPY (SELECT 1 AS a, 'x' AS b) TO '{tmp_path / 'columns.parquet'}'")
    for name in ("tabs.tsv", "packed.csv.gz", "more.jsonl", "columns.parquet"):
        assert (await ask(opened(tmp_path / name), f"SELECT * FROM {name.split('.')[0]}")).rows == [[1, "x"]]
    for name in ("whole.json", "lines.ndjson"):
        found = await ask(opened(tmp_path / name), f"SELECT * FROM {name.split('.')[0]} ORDER BY a")
        assert found.rows == [[1, {"c": [1, 2]}], [2, None]]


async def test_a_folder_has_a_table_for_each_file_and_each_folder_in_it(opened: Opened, tmp_path: Path):
    write(tmp_path / "sales.csv", SALES)
    write(tmp_path / "people.json", '[{"who": "Ana", "age": 31}]')
    write(tmp_path / "notes.txt", "no table")
    write(tmp_path / "days" / "year=2024" / "a.csv", "d\n1\n2\n")
    write(tmp_path / "days" / "year=2025" / "b.csv", "d\n3\n")
    database = opened(f"{tmp_path}/")
    assert await names(database) == ["days", "people", "sales"]
    joined = await ask(database, "SELECT age FROM people JOIN sales USING (who)")
    assert joined.rows == [[31]]
    by_year = await ask(database, "SELECT year, count(*) FROM days GROUP BY year ORDER BY year")
    assert by_year.rows == [[2024, 2], [2025, 1]]


async def test_files_that_come_change_and_go_are_seen_by_the_next_statement(opened: Opened, tmp_path: Path):
    write(tmp_path / "one.csv", "a\n1\n")
    database = opened(tmp_path, cache_seconds=0)
    assert (await ask(database, "SELECT * FROM one")).rows == [[1]]
    write(tmp_path / "two.csv", "b\nx\n")
    assert (await ask(database, "SELECT * FROM two")).rows == [["x"]]
    write(tmp_path / "one.csv", "other,columns\n1,2\n")
    assert (await ask(database, "SELECT * FROM one")).columns == ["other", "columns"]
    (tmp_path / "one.csv").unlink()
    assert (await failure(database, "SELECT * FROM one")).kind == "unknown"
    assert await names(database) == ["two"]


async def test_a_pattern_is_one_table_of_all_its_files(opened: Opened, tmp_path: Path):
    for month in (1, 2, 3):
        write(tmp_path / "data" / f"sales-{month}.csv", f"month,amount\n{month},{month * 10}\n")
    write(tmp_path / "data" / "sales-4.csv", "amount,note\n40,late\n")
    by_folder, by_name = opened(tmp_path / "data" / "*.csv"), opened(tmp_path / "data" / "sales-?.csv")
    assert await names(by_folder) == ["data"]
    assert await names(by_name) == ["sales"]
    assert (await ask(by_name, "SELECT sum(amount), count(note) FROM sales")).rows == [[100, 1]]
    assert (await ask(by_folder, "SELECT count(*) FROM data")).rows == [[4]]


async def test_tables_have_names_that_a_statement_can_say(opened: Opened, tmp_path: Path):
    for name in (
        "2024 sales.csv",
        "pg_x.csv",
        'it\'s "q".csv',
        "[a]*.csv",
        "ação.csv",
        "a.csv",
        "a.json",
        "A.tsv",
    ):
        write(tmp_path / name, '[{"i": 1}]' if name.endswith("json") else "i\n1\n")
    database = opened(tmp_path)
    found = await names(database)
    assert sorted(found) == sorted(
        ["_2024_sales", "_pg_x", "it_s_q", "A_csv", "a_csv_2", "a_csv_3", "a_json", "ação"]
    )
    for name in found:
        assert (await ask(database, f"SELECT i FROM {name}")).rows == [[1]]


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("notes.txt", "hello", "'notes.txt' is not a DuckDB database, and its name is not"),
        ("book.xlsx", "PK", "hint: data files end in .csv"),
        ("bad.json", '{"a": ', "The file 'bad.json' cannot be read as JSON: Malformed JSON"),
        (
            "bad.parquet",
            "PAR1 and no more",
            "The file 'bad.parquet' cannot be read as Parquet: No magic bytes",
        ),
        ("bad.csv.gz", "not packed", "The file 'bad.csv.gz' cannot be read as CSV"),
    ],
)
async def test_what_is_no_data_is_said_with_what_to_do(
    opened: Opened, tmp_path: Path, name: str, content: str, reason: str
):
    error = await failure(opened(write(tmp_path / name, content)))
    assert error.kind == "unusable"
    assert reason in error.reason
    assert str(tmp_path) not in error.reason


async def test_what_is_not_there_is_said_with_what_to_do(opened: Opened, tmp_path: Path):
    write(tmp_path / "none" / "readme.txt", "x")
    write(tmp_path / "both" / "a.csv", "a\n1\n")
    write(tmp_path / "both" / "a.json", "[1]")
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE t (i)")
    other.close()
    os.mkfifo(tmp_path / "pipe.csv")
    said = {
        "gone.csv": "there is no file 'gone.csv'",
        "none": "no data files in the folder 'none'; hint: .csv,",
        "none/*.csv": "no data file matches 'none/*.csv'; hint: .csv,",
        "both/*": "'both/*' matches files of CSV and JSON, which do not make one table; hint: ",
        "other.db": "'other.db' is an SQLite database; hint: sqlite:PATH",
        "pipe.csv": "'pipe.csv' is not a regular file",
    }
    for address, reason in said.items():
        error = await failure(opened(tmp_path / address))
        assert (error.kind, error.reason[: len(reason)]) == ("unusable", reason)


async def test_a_folder_of_very_many_files_is_better_one_table(opened: Opened, tmp_path: Path):
    for number in range(1_001):
        write(tmp_path / "logs" / f"{number}.csv", f"a\n{number}\n")
    error = await failure(opened(tmp_path / "logs"))
    assert error.kind == "unusable"
    assert "would have 1001 tables; the limit is 1000; hint: a pattern, such as logs/*.csv" in error.reason
    found = await ask(opened(tmp_path / "logs" / "*.csv"), "SELECT count(*), max(a) FROM logs")
    assert found.rows == [[1001, 1000]]


async def test_one_bad_file_does_not_hide_the_others(opened: Opened, tmp_path: Path):
    write(tmp_path / "good.csv", "a\n1\n")
    write(tmp_path / "bad.parquet", "nothing of the kind")
    database = opened(tmp_path)
    assert (await ask(database, "SELECT * FROM good")).rows == [[1]]
    tables = {table.name: table.description for table in await database.tables()}
    assert "cannot be read as Parquet" in tables["bad"]
    assert (
        "The file 'bad.parquet' cannot be read as Parquet"
        in (await failure(database, "SELECT * FROM bad")).reason
    )


async def test_a_line_that_does_not_fit_is_said_with_its_place(opened: Opened, tmp_path: Path):
    lines = "\n".join(map(str, range(60_000)))
    database = opened(write(tmp_path / "late.csv", f"a\n{lines}\nnot a number\n"))
    assert (await ask(database, "SELECT a FROM late LIMIT 1")).rows == [[0]]
    error = await failure(database, "SELECT sum(a) FROM late")
    assert "60002" in error.reason
    assert str(tmp_path) not in error.reason


async def test_a_file_larger_than_the_memory_is_read(opened: Opened, tmp_path: Path):
    memory, rows = 200 * 2**20, 250_000
    path = tmp_path / "big.csv"
    duckdb.sql(f"COPY (SELECT i % 7 AS g, repeat('x', 1000) AS t FROM range({rows}) r(i)) TO '{path}'")
    assert path.stat().st_size > memory
    database = opened(path, memory=memory)
    found = await ask(database, "SELECT g, count(*), min(len(t)) FROM big GROUP BY g ORDER BY g")
    assert sum(row[1] for row in found.rows) == rows
    path.unlink()


OUTSIDE = [
    "SELECT * FROM read_csv('SECRET')",
    "SELECT * FROM read_csv('FOLDER/../secret.csv')",
    "SELECT * FROM read_csv('FOLDER/out.csv')",
    "SELECT * FROM read_csv(['FOLDER/a.csv', 'SECRET'])",
    "SELECT * FROM 'SECRET'",
    'SELECT * FROM "SECRET"',
    "SELECT content FROM read_text('SECRET')",
    "SELECT content FROM read_text('FOLDER/*')",
    "SELECT * FROM read_blob('SECRET')",
    "SELECT * FROM glob('ROOT/*')",
    "SELECT * FROM glob('FOLDER/*')",
    "SELECT * FROM sniff_csv('SECRET')",
    "SELECT * FROM parquet_metadata('SECRET')",
    "SELECT * FROM read_json('SECRET')",
    "SELECT * FROM read_duckdb('ROOT/other.duckdb', table_name = 't')",
    "SELECT * FROM query('SELECT * FROM read_text(''SECRET'')')",
    "ATTACH 'ROOT/other.duckdb' AS other",
    "COPY (SELECT 1) TO 'FOLDER/a.csv'",
    "COPY (SELECT 1) TO 'FOLDER/a.csv' (USE_TMP_FILE false)",
    "COPY (SELECT 1) TO 'FOLDER/new.csv'",
    "SELECT 1; COPY (SELECT 1) TO 'FOLDER/a.csv' (USE_TMP_FILE false)",
    "EXPORT DATABASE 'FOLDER/exported'",
    "SET allowed_paths = ['SECRET']",
    "SET enable_external_access = true",
    "SELECT * FROM enable_logging('QueryLog', storage = 'file', storage_path = 'FOLDER')",
    "CREATE OR REPLACE VIEW a AS SELECT 'forged' AS i",
    "CREATE TABLE forged AS SELECT 1",
    "CREATE TEMP TABLE a AS SELECT 'forged' AS i",
    "CREATE MACRO a() AS 1",
    "DROP VIEW a",
    "WITH x AS (INSERT INTO a VALUES (2) RETURNING *) SELECT * FROM x",
    "WITH x AS (DELETE FROM a RETURNING *) SELECT * FROM x",
    "INSTALL httpfs",
    "LOAD httpfs",
    "PREPARE a AS SELECT 1",
    "BEGIN; CREATE TABLE forged (i integer); COMMIT",
]


async def test_nothing_but_the_files_can_be_read_and_nothing_written(opened: Opened, tmp_path: Path):
    root = tmp_path / "root"
    folder = root / "folder"
    secret = write(root / "secret.csv", "word\nhush\n")
    write(folder / "a.csv", "i\n1\n")
    (folder / "out.csv").symlink_to(secret)
    (folder / "inside.csv").symlink_to(folder / "a.csv")
    with duckdb.connect(str(root / "other.duckdb")) as other:
        other.execute("CREATE TABLE t AS SELECT 'hush' AS word")
    before = await asyncio.to_thread(_seen, root)
    for address in (folder, folder / "*.csv", folder / "a.csv"):
        database = opened(address)
        assert set(await names(database)) <= {"a", "folder", "inside"}
        for sql in OUTSIDE:
            filled = (
                sql.replace("SECRET", str(secret)).replace("FOLDER", str(folder)).replace("ROOT", str(root))
            )
            with suppress(DatabaseError):
                found = await ask(database, filled)
                assert "hush" not in bytes(found.json).decode(), sql
                assert found.rows in ([], [[True]]), sql
            table = "folder" if address.name == "*.csv" else "a"
            assert (await ask(database, f"SELECT i FROM {table}")).rows == [[1]], sql
        assert await asyncio.to_thread(_seen, root) == before


def _seen(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
