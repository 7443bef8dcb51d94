"""What an answer of 10,000 rows of 10 columns costs from PostgreSQL to JSON, beside the driver alone.

Alone is psycopg's async connection, `execute` and `fetchall`, which leaves dates and Decimals that no JSON
takes; ours is `Database.query` with its transaction, its limits and its values, and the encoding. Both are
taken in turns in one process, as CPU of it and as time on the clock; a ratio is the median of the rounds'.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from statistics import median

import msgspec
import psycopg

from bench.report import Row
from tests.servers.warehouse import fill_postgres
from tests.stores import PostgresServer
from toolyard.databases import Database, open_database

ROWS = 10_000
ROUNDS = 25
MOST = 2.0
ASKED = (
    "SELECT id, customer_id, route_id, status, weight_kg, price, ordered_on, delivered_at, fragile, notes"
    f" FROM shipments ORDER BY id LIMIT {ROWS}"
)
Cost = tuple[float, float]


def rows(progress: Callable[[str], None]) -> list[Row]:
    progress("sql: starting PostgreSQL and filling it")
    with PostgresServer() as server:
        fill_postgres(server.url)
        return asyncio.run(_rows(server.url, progress))


async def _rows(url: str, progress: Callable[[str], None]) -> list[Row]:
    database = open_database(url)
    try:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            return await _measured(database, connection, progress)
    finally:
        await database.close()


async def _measured(
    database: Database, connection: psycopg.AsyncConnection, progress: Callable[[str], None]
) -> list[Row]:
    async def alone() -> None:
        fetched = await (await connection.execute(ASKED)).fetchall()
        assert len(fetched) == ROWS

    async def ours() -> None:
        answer = await database.query(ASKED, seconds=30, rows=ROWS, bytes=100_000_000)
        assert len(answer.rows) == ROWS
        msgspec.json.encode(answer)

    for warming in (alone, ours, alone, ours):
        await warming()
    bare: list[Cost] = []
    with_all: list[Cost] = []
    for number in range(ROUNDS):
        progress(f"sql: round {number + 1} of {ROUNDS}")
        bare.append(await _cost(alone))
        with_all.append(await _cost(ours))
    return [row for place, unit in enumerate(("ms CPU", "ms")) for row in _pair(bare, with_all, place, unit)]


def _pair(bare: list[Cost], ours: list[Cost], place: int, unit: str) -> list[Row]:
    ratio = median(mine[place] / alone[place] for mine, alone in zip(ours, bare, strict=True))
    name = "sql: 10,000 rows x 10 columns"
    return [
        Row("sql", f"{name}, driver alone", unit, median(cost[place] for cost in bare)),
        Row(
            *("sql", f"{name}, to JSON", unit, median(cost[place] for cost in ours)),
            ratio=ratio,
            ratio_to="driver",
            target=f"<= {MOST:g}x driver",
            met=ratio <= MOST,
        ),
    ]


async def _cost(work: Callable[[], Awaitable[None]]) -> Cost:
    cpu, clock = time.process_time(), time.perf_counter()
    await work()
    return (time.process_time() - cpu) * 1e3, (time.perf_counter() - clock) * 1e3
