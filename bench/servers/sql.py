"""What an answer of 10,000 rows of 10 columns costs from a database to JSON, beside the driver alone.

Alone is a connection that stays open, `execute` and `fetchall`, which leaves dates and Decimals that no JSON
takes; ours is `Database.query` with its limits and its values, and the encoding; the tool is all of a call of
`query_sql`, with guard, text, and the check against its output schema. They are taken in turns, as CPU of
this process and of those it started (SQLite and DuckDB run in one of their own), and as time on the clock; a
ratio is the median of the rounds'.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import msgspec
import psycopg
from msgspec import Raw

from bench.report import Row
from tests.servers.warehouse import fill_postgres
from tests.stores import PostgresServer
from toolyard.databases import open_database
from toolyard.servers.sql import Settings, build
from toolyard.wire.call import NO_CHANNEL, Call, Caller
from toolyard.wire.versions import LATEST_MODERN

ROWS = 10_000
ROUNDS = 25
MOST = 2.0
ASKED = (
    "SELECT id, customer_id, route_id, status, weight_kg, price, ordered_on, delivered_at, fragile, notes"
    f" FROM shipments ORDER BY id LIMIT {ROWS}"
)
CALL = Raw(msgspec.json.encode({"name": "query_sql", "arguments": {"sql": ASKED}}))
CALLER = Caller(LATEST_MODERN, {})
Cost = tuple[float, float]
Way = Callable[[], Awaitable[None]]
Progress = Callable[[str], None]
_TWIN = f"""
SELECT i AS id, i % 2000 + 1 AS customer_id, i % 500 + 1 AS route_id, 'delivered' AS status,
  ((i % 90000) / 1000.0 + 0.125)::DECIMAL(10, 3) AS weight_kg,
  ((i % 5000) / 4.0 + 9.75)::DECIMAL(12, 2) AS price, DATE '2024-01-01' + (i % 700)::INTEGER AS ordered_on,
  TIMESTAMP '2024-01-02 08:00:00' + to_days((i % 700)::INTEGER) AS delivered_at, i % 9 = 0 AS fragile,
  CASE WHEN i % 4 = 0 THEN 'handle with care, ação nº ' || i END AS notes
FROM range(1, {ROWS + 1}) r(i)
"""


def rows(progress: Progress) -> list[Row]:
    progress("sql: starting PostgreSQL and filling it")
    with PostgresServer() as server:
        fill_postgres(server.url)
        found = asyncio.run(_postgres(server.url, progress))
    with tempfile.TemporaryDirectory() as folder:
        progress("sql: filling DuckDB and SQLite")
        _fill(Path(folder))
        found += asyncio.run(_duckdb(Path(folder) / "shop.duckdb", progress))
        return found + asyncio.run(_sqlite(Path(folder) / "shop.db", progress))


def _fill(folder: Path) -> None:
    with duckdb.connect(str(folder / "shop.duckdb")) as connection:
        connection.execute(f"CREATE TABLE shipments AS {_TWIN}")
        made = [
            [value if isinstance(value, int | str | None) else str(value) for value in row]
            for row in connection.execute(ASKED).fetchall()
        ]
    kept = sqlite3.connect(folder / "shop.db")
    kept.execute(
        "CREATE TABLE shipments (id INTEGER PRIMARY KEY, customer_id INTEGER, route_id INTEGER, status TEXT,"
        " weight_kg REAL, price REAL, ordered_on DATE, delivered_at TEXT, fragile BOOLEAN, notes TEXT)"
    )
    kept.executemany(f"INSERT INTO shipments VALUES ({', '.join('?' * 10)})", made)
    kept.commit()
    kept.close()


async def _postgres(url: str, progress: Progress) -> list[Row]:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:

        async def alone() -> None:
            fetched = await (await connection.execute(ASKED.encode())).fetchall()
            assert len(fetched) == ROWS

        return await _measured("PostgreSQL", url, alone, progress)


async def _duckdb(path: Path, progress: Progress) -> list[Row]:
    with duckdb.connect(str(path), read_only=True) as connection:
        return await _measured("DuckDB", f"duckdb:{path}", _alone(connection), progress)


async def _sqlite(path: Path, progress: Progress) -> list[Row]:
    connection = sqlite3.connect(path)
    try:
        return await _measured("SQLite", f"sqlite:{path}", _alone(connection), progress)
    finally:
        connection.close()


def _alone(connection: Any) -> Way:
    async def alone() -> None:
        assert len(connection.execute(ASKED).fetchall()) == ROWS

    return alone


async def _measured(name: str, url: str, alone: Way, progress: Progress) -> list[Row]:
    database = open_database(url)
    server = build(Settings(database=url, max_rows=ROWS, max_bytes=100_000_000, seconds=30))

    async def ours() -> None:
        answer = await database.query(ASKED, seconds=30, rows=ROWS, bytes=100_000_000)
        assert answer.count == ROWS
        msgspec.json.encode(answer)

    async def tool() -> None:
        answer = await server.service.handle(Call("tools/call", CALL, CALLER, NO_CHANNEL, 1))
        assert not answer.is_error

    ways = {"driver alone": alone, "to JSON": ours, "to the tool's structured content": tool}
    try:
        for warming in (*ways.values(), *ways.values()):
            await warming()
        costs: dict[str, list[Cost]] = {way: [] for way in ways}
        for number in range(ROUNDS):
            progress(f"sql: {name}, round {number + 1} of {ROUNDS}")
            for way, work in ways.items():
                costs[way].append(await _cost(work))
    finally:
        await server.close()
        await database.close()
    title = f"sql: {ROWS:,} rows x 10 columns of {name}"
    return [
        row for place, unit in enumerate(("ms CPU", "ms")) for row in _compared(title, costs, place, unit)
    ]


def _compared(title: str, costs: dict[str, list[Cost]], place: int, unit: str) -> list[Row]:
    (first, bare), *others = costs.items()
    return [
        Row("sql", f"{title}, {first}", unit, median(cost[place] for cost in bare)),
        *(_beside(f"{title}, {way}", cost, bare, place, unit) for way, cost in others),
    ]


def _beside(title: str, ours: list[Cost], bare: list[Cost], place: int, unit: str) -> Row:
    ratio = median(mine[place] / alone[place] for mine, alone in zip(ours, bare, strict=True))
    return Row(
        *("sql", title, unit, median(cost[place] for cost in ours)),
        ratio=ratio,
        ratio_to="driver",
        target=f"<= {MOST:g}x driver",
        met=ratio <= MOST,
    )


async def _cost(work: Way) -> Cost:
    cpu, clock = _cpu(), time.perf_counter()
    await work()
    return (_cpu() - cpu) * 1e3, (time.perf_counter() - clock) * 1e3


def _cpu() -> float:
    """Seconds of this process, and of the ones it started and that still run."""
    return time.process_time() + sum(map(_used, _children()))


def _children() -> list[int]:
    listed = Path(f"/proc/self/task/{os.getpid()}/children")
    return [int(pid) for pid in listed.read_text().split()] if listed.exists() else []


def _used(pid: int) -> float:
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9
