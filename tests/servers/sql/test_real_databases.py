"""The tool on a real PostgreSQL of a few dozen tables, and on DuckDB: answers, attacks, cancelled calls."""

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.app.yard import yard
from tests.databases.attacks import ATTACKS
from tests.databases.mariadb import MariaServer
from tests.programs import need
from tests.servers.sql.talking import ERAS, talking
from tests.servers.warehouse import TWIN_SHIPMENTS, fill_duckdb, fill_postgres
from tests.stores import PASSWORD, PostgresServer
from tests.waiting import until
from toolyard.config import InProcess, ResultsConfig, ServerConfig

SHIPMENTS = 12_000


@pytest.fixture(scope="module")
def postgres() -> Generator[str]:
    with PostgresServer() as server:
        fill_postgres(server.url, shipments=SHIPMENTS)
        yield server.url


@pytest.fixture(scope="module")
def duckdb(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("duckdb") / "warehouse.duckdb"
    fill_duckdb(path)
    return f"duckdb:{path}"


@pytest.fixture(scope="module")
def mysql(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    need("mariadb")
    with MariaServer(tmp_path_factory.mktemp("mariadb")) as server:
        yield server.url


@pytest.mark.parametrize("mode", ERAS)
async def test_postgresql_is_asked_with_its_own_types_and_names(postgres: str, mode: str):
    async with talking(mode, database=postgres) as talk:
        found = await talk.rows(
            sql="SELECT s.id, s.price, s.ordered_on, s.delivered_at, s.fragile, s.tags, "
            "s.details->>'gate' AS gate, c.name FROM shipments AS s "
            "JOIN customers c ON c.id = s.customer_id WHERE s.id IN (2, 10) ORDER BY 1"
        )
        second, tenth = found["rows"]
        assert found["columns"][-2:] == ["gate", "name"]
        assert second[:3] == [2, 10.25, "2024-01-03"]
        assert second[3].startswith("2024-01-04T08:00:00")
        assert second[4:7] == [False, None, "2"]
        assert tenth[5] == ["cold", "tall"]
        assert found["tables_used"] == ["shipments", "customers"]
        turnover = await talk.rows(sql="SELECT count(*) AS n FROM archive.customer_turnover")
        assert turnover["rows"] == [[2000]]
        assert turnover["tables_used"] == ["archive.customer_turnover"]
        assert "Did you mean 'price'" in await talk.refusal(sql="SELECT prize FROM shipments")
        assert "Did you mean 'shipments'" in await talk.refusal(sql="SELECT 1 FROM shipment")
        assert "answered with an error" in await talk.refusal(sql="SELECT 1 / (id - id) FROM shipments")
    async with talking(database=postgres, seconds=0.2) as talk:
        said = await talk.refusal(sql="SELECT count(*) FROM shipments a, shipments b, shipments c")
        assert "was cancelled" in said


@pytest.mark.parametrize("mode", ERAS)
async def test_duckdb_is_asked_in_its_own_words(duckdb: str, mode: str):
    async with talking(mode, database=duckdb) as talk:
        found = await talk.rows(
            sql="SELECT status, count(*) AS n FROM shipments GROUP BY ALL ORDER BY n DESC"
        )
        assert sum(n for _, n in found["rows"]) == TWIN_SHIPMENTS
        assert found["rows"][0][0] == "delivered"
        assert "Did you mean 'shipments'" in await talk.refusal(sql="SELECT 1 FROM shipmets")


@pytest.mark.parametrize("mode", ERAS)
async def test_mysql_is_asked_in_its_own_words(mysql: str, mode: str):
    async with talking(mode, database=mysql, locale="pt") as talk:
        statement = "SELECT `status`, COUNT(*) AS n FROM shipments GROUP BY `status` ORDER BY n DESC LIMIT 1"
        found = await talk.rows(sql=statement)
        assert found["rows"] == [["delivered", TWIN_SHIPMENTS // 2]]
        assert found["tables_used"] == ["shipments"]
        assert "Você quis dizer 'price'" in await talk.refusal(sql="SELECT prize FROM shipments")
        assert "Não executado" in await talk.refusal(sql="SELECT 1 INTO OUTFILE '/tmp/out'")
    async with talking(mode, database=mysql, seconds=0.2) as talk:
        said = await talk.refusal(sql="SELECT COUNT(*) FROM shipments a, shipments b, shipments c")
        assert "was cancelled" in said


OWN_WORDS = ("isto não é SQL de", "não pode ser escrita com segurança")
"""In these the parser's own words are passed on."""
ENGLISH = {"the", "is", "are", "not", "and", "this", "there"}


def sendable(kind: str) -> list[str]:
    """Without what the client cannot send, and nothing at all, which is another mistake."""
    found = [attack.sql for attack in ATTACKS if kind in attack.dialects and attack.sql.strip()]
    return [sql for sql in found if not any("\ud800" <= character <= "\udfff" for character in sql)]


@pytest.mark.parametrize("kind", ["postgres", "duckdb"])
@pytest.mark.parametrize("locale", ["en", "pt"])
async def test_attacks_are_refused_with_a_reason_and_nothing_of_them_happens(
    kind: str, locale: str, request: pytest.FixtureRequest, tmp_path: Path
):
    url = request.getfixturevalue(kind)
    users = "SELECT count(*) AS n, sum(salary) AS salaries FROM users"
    async with talking(database=url, locale=locale) as talk:
        before = (await talk.rows(sql=users))["rows"]
        for attack in sendable(kind):
            said = await talk.refusal(sql=attack.replace("FOLDER", str(tmp_path)))
            assert said.startswith("Not run: " if locale == "en" else "Não executado: "), attack
            assert PASSWORD not in said
            if locale == "pt" and not any(words in said for words in OWN_WORDS):
                assert not ENGLISH & set(said.split()), said
        assert (await talk.rows(sql=users))["rows"] == before
    assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240 (nothing else runs)


async def test_columns_that_are_blocked_are_not_read_in_any_way(postgres: str):
    ways = ("password_hash", "*", "u", "u.*", "to_json(u)", "row_to_json(u)", '"password_hash"', "count(u.*)")
    async with talking(database=postgres, blocked_columns="*password*") as talk:
        for way in ways:
            assert "Not run: " in await talk.refusal(sql=f"SELECT {way} FROM users AS u"), way
        assert "Not run: " in await talk.refusal(sql="SELECT x FROM users AS u(a, b, x, d)")
        assert "Not run: " in await talk.refusal(sql="TABLE users")
        assert (await talk.rows(sql="SELECT login FROM users WHERE id = 1"))["rows"] == [["user1"]]


@asynccontextmanager
async def watching(url: str) -> AsyncGenerator[Any]:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:

        async def running() -> bool:
            asked = await connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%marker%' "
                "AND pid <> pg_backend_pid()"
            )
            found = await asked.fetchone()
            return found is not None and found[0] > 0

        yield running


@pytest.mark.parametrize("mode", ERAS)
async def test_a_cancelled_call_is_cancelled_in_the_database(postgres: str, mode: str):
    endless = "SELECT count(*) AS marker FROM shipments a, shipments b, shipments c"
    async with talking(mode, database=postgres, seconds=3000) as talk, watching(postgres) as running:
        call = asyncio.create_task(talk.call(sql=endless))
        await until(running)
        call.cancel()

        async def ended() -> bool:
            return not await running()

        await until(ended)
        # And the next one is answered.
        assert (await talk.rows(sql="SELECT 1 AS one"))["rows"] == [[1]]


async def test_a_database_that_is_not_there_is_told_without_its_password(tmp_path: Path):
    gone = f"postgresql://ana:{PASSWORD}@/shop?host={tmp_path}"
    async with talking(database=gone) as talk:
        said = await talk.refusal(sql="SELECT 1")
        assert "cannot be reached" in said
        assert PASSWORD not in said
        assert "No model is configured" in await talk.refusal(question="How many?")


async def test_ten_thousand_rows_become_a_summary_and_are_asked_with_sql(postgres: str):
    options = {"database": postgres, "max_rows": 10_000, "max_bytes": 20_000_000}
    mounted = ServerConfig(
        name="sql", where=InProcess(module="toolyard.servers.sql", options=options), pinned=("query_sql",)
    )
    statement = "SELECT id, status, price, weight_kg, ordered_on, notes FROM shipments ORDER BY id"
    async with yard(mounted, results=ResultsConfig(), view="search") as front:
        found = (await front.call("mcp__sql__query_sql", {"sql": statement})).result["structuredContent"]
        assert found["truncated"] is True
        summary = found["summary"]
        assert summary["item_count"] == 10_000
        assert summary["sample_columns"] == ["id", "status", "price", "weight_kg", "ordered_on", "notes"]
        assert summary["path"] == "rows"
        assert found["preview"][0] == {
            "id": 1,
            "status": "loaded",
            "price": 10,
            "weight_kg": 0.126,
            "ordered_on": "2024-01-02",
            "notes": None,
        }
        id = found["storage"]["resource"]
        asked = "SELECT status, count(*) AS n FROM result GROUP BY status ORDER BY n DESC, status LIMIT 2"
        read = (await front.call("read_result", {"id": id, "sql": asked})).result["structuredContent"]
        assert read["rows"] == [{"status": "delivered", "n": 5001}, {"status": "loaded", "n": 1667}]
        page = (await front.call("read_result", {"id": id, "offset": 9_999})).result["structuredContent"]
        assert page["items"][0]["id"] == 10_000
        few = {"sql": "SELECT id, status FROM shipments ORDER BY id LIMIT 3"}
        small = (await front.call("mcp__sql__query_sql", few)).result["structuredContent"]
        assert small["rows"] == [[1, "loaded"], [2, "delivered"], [3, "delivered"]]
