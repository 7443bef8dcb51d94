"""SQL of `read_result` from hostile hands: it reads one table, changes nothing, and says nothing of us."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.results.library import Library, refused
from tests.results.shelf import records
from toolyard.results.query.reader import ReadResultError

WRITES = {
    "DELETE FROM result RETURNING *": "DELETE",
    "UPDATE result SET state = 'forged' RETURNING *": "UPDATE",
    "INSERT INTO result SELECT * FROM result RETURNING *": "INSERT",
    "COPY result TO 'forged.csv'": "COPY",
}
AROUND = [
    "WITH x AS ({}) SELECT count(*) AS n FROM x",
    "WITH x AS MATERIALIZED ({}) SELECT 1 AS one",
    "SELECT * FROM (WITH x AS ({}) SELECT * FROM x)",
    "SELECT (WITH x AS ({}) SELECT count(*) FROM x) AS n",
    "SELECT 1 AS n UNION ALL (WITH x AS ({}) SELECT count(*) FROM x)",
    "WITH RECURSIVE y AS (SELECT 1 AS n), x AS ({}) SELECT n FROM y",
    "WITH y AS (WITH x AS ({}) SELECT * FROM x) SELECT * FROM y",
    "SELECT id FROM result WHERE EXISTS (WITH x AS ({}) SELECT * FROM x)",
    "DESCRIBE WITH x AS ({}) SELECT * FROM x",
    "SUMMARIZE WITH x AS ({}) SELECT * FROM x",
]


@pytest.mark.parametrize("around", AROUND)
async def test_a_statement_that_writes_inside_of_a_select_changes_nothing(around: str, library: Library):
    """Seen: forged rows then answered other conversations, while the worker kept the table."""
    id = await library.keep(records(30))
    for write, kind in WRITES.items():
        told = await refused(library.ask(id, sql=around.format(write)))
        assert f"not {kind}" in told or "cannot be run" in told
        assert await library.pages(id, sql="FROM result") == records(30)


STATE = [
    "FROM query('WITH x AS (DELETE FROM result RETURNING *) SELECT * FROM x')",
    "FROM query_table('duckdb_settings')",
    "FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))",
    "FROM enable_logging()",
    "SELECT * FROM duckdb_logs",
    "FROM duckdb_databases()",
    "FROM checkpoint()",
    "FROM enable_profiling()",
    "FROM register_external_resource('a', 'b')",
    "FROM duckdb_settings()",
    "FROM main.duckdb_settings",
    "FROM system.main.duckdb_databases",
    "FROM sniff_csv('/etc/passwd')",
    "FROM read_duckdb('/etc/passwd')",
    "FROM arrow_scan(0, 0, 0)",
    "FROM python_map_function(0)",
    "FROM '/etc/passwd'",
    "FROM which_secret('s3://a', 's3')",
    "EXPLAIN ANALYZE DELETE FROM result",
    "EXPLAIN SELECT 1",
    "CALL enable_logging()",
    "PREPARE p AS SELECT 1",
    "EXECUTE p",
    "SET VARIABLE a = 1",
    "SET threads = 4",
    "RESET threads",
    "USE temp",
    "CREATE TEMP TABLE leak AS SELECT 1 AS n",
    "CREATE MACRO leak() AS 1",
    "CREATE VIEW leak AS SELECT 1",
    "ALTER TABLE result ADD COLUMN leak INTEGER",
    "TRUNCATE result",
    "MERGE INTO result USING result AS b ON result.id = b.id WHEN MATCHED THEN DELETE",
    "VACUUM",
    "CHECKPOINT",
    "BEGIN",
    "COMMIT",
    "DETACH memory",
    "EXPORT DATABASE 'x'",
    "LOAD json",
    "PIVOT result ON state USING count(*)",
]


async def test_no_statement_reaches_the_state_of_the_process_or_leaves_any_behind(library: Library):
    id, other = await library.keep(records(30)), await library.keep(records(20))
    for sql in STATE:
        told = await refused(library.ask(id, sql=sql))
        assert "cannot be run" in told or "Only SELECT" in told, sql
        found = await library.ask(id, sql="SELECT table_name FROM information_schema.tables")
        assert found["rows"] == [{"table_name": "result"}], sql
    assert await library.pages(id, sql="FROM result") == records(30)
    assert await library.pages(other, sql="FROM result") == records(20)


async def test_what_only_reads_is_answered_in_all_its_forms(library: Library):
    id = await library.keep(records(30))
    for sql, rows in {
        "FROM result LIMIT 1": records(1),
        "TABLE result": records(20),
        "VALUES (1), (2)": [{"col0": 1}, {"col0": 2}],
        "SELECT count(*) AS n FROM memory.main.result": [{"n": 30}],
        "WITH Open AS (SELECT * FROM RESULT WHERE state = 'open') SELECT count(*) AS n FROM open": [
            {"n": 15}
        ],
        "SELECT a.id FROM result a JOIN result b USING (id), range(2) WHERE id = 3": [{"id": 3}, {"id": 3}],
        "SELECT unnest([1, 2]) AS n": [{"n": 1}, {"n": 2}],
        "SELECT * FROM unnest([1, 2]) AS t(n)": [{"n": 1}, {"n": 2}],
        "(SELECT 1 AS n) UNION ALL (SELECT 2) ORDER BY n": [{"n": 1}, {"n": 2}],
        "SELECT n FROM generate_series(1, 2) AS t(n) -- the end": [{"n": 1}, {"n": 2}],
        "SELECT column_name AS n FROM (DESCRIBE result) LIMIT 1": [{"n": "id"}],
    }.items():
        assert (await library.ask(id, sql=sql))["rows"] == rows, sql
    assert len((await library.ask(id, sql="DESCRIBE result"))["rows"]) == 3
    assert len((await library.ask(id, sql="SUMMARIZE result"))["rows"]) == 3


# Values, and errors


def _types() -> list[str]:
    """A column for each type that this DuckDB has."""
    return [column[0] for column in duckdb.connect().execute("FROM test_all_types() LIMIT 0").description]


def says_nothing_of_us(told: str, statement: str = "") -> None:
    for word in ("Traceback", "Stack Trace", ".py", ".so", "site-packages", "toolyard", "importlib"):
        assert word not in told.replace(statement, "")
    assert re.search(r"(?<!\w)/\w+/", told.replace(statement, "")) is None


async def test_values_of_every_type_are_told_as_json(library: Library):
    """DuckDB makes Python's values of some by way of packages that are not there."""
    id = await library.keep(records(30))
    for column in _types():
        found = await library.ask(id, sql=f'SELECT "{column}" FROM test_all_types()')
        assert found["total"] == 3, column
        says_nothing_of_us(str(found["rows"]))
    whole = await library.ask(id, sql="SELECT * FROM test_all_types()", limit=1)
    assert whole["shown"] == 1


FORMS: dict[str, Any] = {
    "TIMESTAMPTZ_NS '2026-03-01 10:00:00+00'": "2026-03-01 10:00:00+00",
    "[TIMESTAMPTZ '2026-03-01 10:00:00+02']": ["2026-03-01 08:00:00+00"],
    "{'a': 'nan'::DOUBLE, 'b': [1, NULL]}": {"a": "NaN", "b": [1, None]},
    "MAP {[1]: 2}": {"[1]": 2},
    "'\\xAA'::BLOB": "\\xAA",
    "INTERVAL 3 MONTH": "3 months",
    """'{"a": [1, null]}'::JSON""": {"a": [1, None]},
    "'nan'::DOUBLE": "nan",
    "170141183460469231731687303715884105727::HUGEINT": 170141183460469231731687303715884105727,
    "NULL": None,
    "'/etc/passwd'": "/etc/passwd",
}


async def test_values_that_json_lacks_are_told_as_text_and_nested_ones_as_they_are(library: Library):
    id = await library.keep(records(30))
    for expression, value in FORMS.items():
        found = await library.ask(id, sql=f"SELECT {expression} AS x")
        assert found["rows"] == [{"x": value}], expression
    rows = (await library.ask(id, sql="SELECT id, [now()] AS x FROM result ORDER BY id DESC LIMIT 2"))["rows"]
    assert [row["id"] for row in rows] == [29, 28], "the order is that of the statement"


async def test_a_column_of_mixed_values_is_shown_as_the_preview_shows_it(library: Library):
    mixed = [{"id": 1, "x": {"a": 1}}, {"id": 2, "x": [1, "b"]}, {"id": 3, "x": "c"}]
    id = await library.keep(mixed)
    assert (await library.ask(id, sql="FROM result"))["rows"] == mixed == await library.pages(id)


def _functions() -> list[tuple[str, int]]:
    """All scalar functions and how many arguments the least of them takes."""
    sql = (
        "SELECT function_name, min(len(parameters)) FROM duckdb_functions() "
        "WHERE function_type IN ('scalar', 'aggregate', 'macro', 'table', 'table_macro') "
        "AND regexp_full_match(function_name, '[a-z_0-9]+') GROUP BY 1 ORDER BY 1"
    )
    return duckdb.connect().execute(sql).fetchall()


ARGUMENTS = [
    "NULL",
    "1",
    "-1",
    "'a'",
    "'/'",
    "[1]",
    "{'a': 1}",
    "now()",
    "now()::TIMESTAMPTZ_NS",
    "id",
    "state",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("functions")


# Its metaclass hides from pyright what a list of it has.
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))  # pyright: ignore[reportArgumentType]
@given(st.data())
def test_neither_answers_nor_errors_tell_of_files_and_programs_of_ours(folder: Path, data: st.DataObject):
    """Whatever function is called with whatever argument; forty at a time, since a worker has to start."""
    functions = _functions()
    statements: list[str] = []
    for _ in range(40):
        name, count = data.draw(st.sampled_from(functions))
        wanted = data.draw(st.lists(st.sampled_from(ARGUMENTS), min_size=count, max_size=count + 1))
        form = data.draw(
            st.sampled_from(["SELECT {} AS x FROM result", "FROM {}", "SELECT [{}] FROM result"])
        )
        statements.append(form.format(f"{name}({', '.join(wanted)})"))

    async def check() -> None:
        library = Library(folder)
        id = await library.keep(records(30))
        for sql in statements:
            try:
                told = str(await library.ask(id, sql=sql))
            except ReadResultError as error:
                told = str(error)
            says_nothing_of_us(told, sql)
        assert await library.pages(id, sql="FROM result") == records(30)
        await library.close()

    asyncio.run(check())


async def test_an_error_of_the_statement_is_told_with_its_own_words(library: Library):
    id = await library.keep(records(30))
    told = await refused(library.ask(id, sql="SELECT '/etc/passwd'::INTEGER"))
    assert "'/etc/passwd'" in told, "what was asked is no secret"
    assert "LINE 1: SELECT nope" in await refused(library.ask(id, sql="SELECT nope, [now()] FROM result"))


async def test_a_list_of_more_than_a_million_values_is_asked_whole(opened: Callable[..., Library]):
    """Seen: only the first 32,767 were, and nobody was told."""
    library = opened(sql_seconds=50.0)
    id = await library.keep(b"[%s7]" % (b"1," * 1_200_000))
    found = await library.ask(id, sql="SELECT count(*) AS many, max(value) AS most FROM result")
    assert found["rows"] == [{"many": 1_200_001, "most": 7}]
