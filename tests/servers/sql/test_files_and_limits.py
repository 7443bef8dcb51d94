"""The tool on data files, and on statements that take all there is: what clients and users see."""

import asyncio
import os
from pathlib import Path

import duckdb
import pytest

from tests.cli.running import Toolyard
from tests.reading import text_of
from tests.servers.sql.talking import ERAS, talking
from tests.waiting import until

CONFIG = """
[servers.shop]
module = "sql"

[servers.shop.options]
database = "duckdb:{name}"
"""


def _own_memory() -> int:
    return int(Path("/proc/self/statm").read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def sales(tmp_path: Path) -> Path:
    path = tmp_path / "sales.csv"
    path.write_text("day,amount,who\n2024-01-02,1.50,Ana\n2024-01-03,2.25,Bruno\n")
    return path


@pytest.mark.parametrize("mode", ERAS)
async def test_a_csv_file_is_asked_like_a_database(sales: Path, mode: str):
    async with talking(mode, database=f"duckdb:{sales}") as talk:
        found = await talk.rows(sql="SELECT who, amount FROM sales ORDER BY amount DESC")
        assert (found["columns"], found["rows"]) == (["who", "amount"], [["Bruno", 2.25], ["Ana", 1.5]])
        (tables,) = (await talk.client.read_resource("sql://tables")).contents
        assert text_of(tables) == "sales(day, amount, who): The file 'sales.csv'"
        assert "Did you mean 'sales'" in await talk.refusal(sql="SELECT * FROM sale")
        assert "not the name of a table" in await talk.refusal(sql="SELECT * FROM '/etc/passwd'")
        assert "not among those known" in await talk.refusal(sql="SELECT * FROM read_text('/etc/passwd')")


async def test_what_is_no_database_is_not_to_be_tried_again_later(tmp_path: Path):
    (tmp_path / "notes.txt").write_text("hello")
    for locale, name, beginning in (
        ("en", "gone.csv", "The database cannot be used: there is no file 'gone.csv'."),
        ("en", "notes.txt", "The database cannot be used: 'notes.txt' is not a DuckDB database"),
        ("en", "*.parquet", "The database cannot be used: no data file matches"),
        ("pt", "gone.csv", "O banco não pode ser usado: there is no file 'gone.csv'."),
    ):
        async with talking(database=f"duckdb:{tmp_path / name}", locale=locale) as talk:
            said = await talk.refusal(sql="SELECT 1 AS i")
            assert said.startswith(beginning)
            assert "later" not in said
            assert str(tmp_path) not in said


async def test_a_statement_over_the_limit_of_memory_is_told_what_to_do(sales: Path):
    before = _own_memory()
    async with talking(database=f"duckdb:{sales}", max_memory_mb=100, seconds=60) as talk:
        said = await talk.refusal(sql="SELECT len(range(100000000)) AS n")
        assert said == (
            "The statement was cancelled: the statement needs more than the 100 MiB of memory that it may "
            "take. Filter more, aggregate less, or make smaller values; whoever runs the server can set "
            "'max_memory_mb'."
        )
        assert (await talk.rows(sql="SELECT count(*) AS n FROM sales"))["rows"] == [[2]]
    assert _own_memory() - before < 64 * 2**20


@pytest.mark.parametrize("database", ["duckdb", "sqlite"])
async def test_a_statement_that_nothing_can_interrupt_is_ended_in_time(sales: Path, database: str):
    sql = {
        "duckdb": "SELECT len(format('{:>500000000}', who)) FROM sales",
        "sqlite": "SELECT length(printf('%.2147483647c', name)) FROM customers",
    }[database]
    url = f"duckdb:{sales}" if database == "duckdb" else ""
    async with talking(database=url, seconds=0.5, max_memory_mb=4096) as talk:
        assert "took longer than 0.5 s and was cancelled" in await talk.refusal(sql=sql)
        assert (await talk.rows(sql="SELECT 1 AS i"))["rows"] == [[1]]


async def test_a_call_that_is_cancelled_ends_its_process(sales: Path):
    async with talking(database=f"duckdb:{sales}", seconds=600) as talk:
        before = _children()
        endless = "SELECT count(*) AS n FROM range(1000000000000) AS r(i) WHERE hash(i) = 1"
        asked = asyncio.create_task(talk.call(sql=endless))

        async def is_running() -> bool:
            assert not asked.done()
            return bool(_children() - before)

        await until(is_running)
        (worker,) = _children() - before
        asked.cancel()

        async def is_gone() -> bool:
            return worker not in _children()

        await until(is_gone)
        assert (await talk.rows(sql="SELECT 1 AS i"))["rows"] == [[1]]


def _children() -> set[int]:
    return {int(pid) for task in Path("/proc/self/task").iterdir() for pid in _started_by(task)}


def _started_by(task: Path) -> list[str]:
    try:
        return (task / "children").read_text().split()
    except FileNotFoundError:  # the thread has ended meanwhile
        return []


def test_a_call_prints_its_answer_and_nothing_of_a_library(toolyard: Toolyard):
    duckdb.connect(str(toolyard.folder / "shop.duckdb")).execute("CREATE TABLE t AS SELECT 1 AS i").close()
    toolyard.write("toolyard.toml", CONFIG.format(name="shop.duckdb"))
    done = toolyard("call", "mcp__shop__query_sql", "sql=SELECT i FROM t")
    assert done.status == 0
    assert '"rows":[[1]]' in done.out
    assert "nanobind" not in done.err
    assert "leaked" not in done.err


def test_a_file_is_served_from_the_command_line(toolyard: Toolyard):
    toolyard.write("sales.csv", "day,amount\n2024-01-02,1.5\n")
    done = toolyard(
        "call",
        "query_sql",
        "sql=SELECT amount FROM sales",
        "--target",
        "sql",
        TOOLYARD_SQL_DATABASE="duckdb:sales.csv",
    )
    assert (done.status, '"rows":[[1.5]]' in done.out) == (0, True)
    described = toolyard(
        "call",
        "describe_table",
        "table=sales",
        "--target",
        "schema",
        TOOLYARD_SCHEMA_DATABASE="duckdb:sales.csv",
    )
    assert described.status == 0
    assert "The file 'sales.csv' (view)" in described.out
    assert "| amount | DOUBLE |" in described.out
