"""What an answer of 10,000 rows of 10 columns costs from PostgreSQL to JSON, beside the driver alone.

Alone is psycopg's async connection, `execute` and `fetchall`, which leaves dates and Decimals that no JSON
takes; ours is `Database.query` with its transaction, its limits and its values, and the encoding; the tool is
all of a call of `query_sql`, with guard, text, and the check against its output schema. They are taken
in turns in one process, as CPU of it and as time on the clock; a ratio is the median of the rounds'.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from statistics import median

import msgspec
import psycopg
from msgspec import Raw

from bench.report import Row
from tests.servers.warehouse import fill_postgres
from tests.stores import PostgresServer
from toolyard.databases import Database, open_database
from toolyard.kit import Server
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
NAME = "sql: 10,000 rows x 10 columns"
CALL = Raw(msgspec.json.encode({"name": "query_sql", "arguments": {"sql": ASKED}}))
CALLER = Caller(LATEST_MODERN, {})
Cost = tuple[float, float]


def rows(progress: Callable[[str], None]) -> list[Row]:
    progress("sql: starting PostgreSQL and filling it")
    with PostgresServer() as server:
        fill_postgres(server.url)
        return asyncio.run(_rows(server.url, progress))


async def _rows(url: str, progress: Callable[[str], None]) -> list[Row]:
    database = open_database(url)
    server = build(Settings(database=url, max_rows=ROWS, max_bytes=100_000_000, seconds=30))
    try:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            return await _measured(database, server, connection, progress)
    finally:
        await server.close()
        await database.close()


async def _measured(
    database: Database, server: Server, connection: psycopg.AsyncConnection, progress: Callable[[str], None]
) -> list[Row]:
    async def alone() -> None:
        fetched = await (await connection.execute(ASKED)).fetchall()
        assert len(fetched) == ROWS

    async def ours() -> None:
        answer = await database.query(ASKED, seconds=30, rows=ROWS, bytes=100_000_000)
        assert len(answer.rows) == ROWS
        msgspec.json.encode(answer)

    async def tool() -> None:
        answer = await server.service.handle(Call("tools/call", CALL, CALLER, NO_CHANNEL, 1))
        assert not answer.is_error

    ways = {"driver alone": alone, "to JSON": ours, "to the tool's structured content": tool}
    for warming in (*ways.values(), *ways.values()):
        await warming()
    costs: dict[str, list[Cost]] = {way: [] for way in ways}
    for number in range(ROUNDS):
        progress(f"sql: round {number + 1} of {ROUNDS}")
        for way, work in ways.items():
            costs[way].append(await _cost(work))
    return [row for place, unit in enumerate(("ms CPU", "ms")) for row in _compared(costs, place, unit)]


def _compared(costs: dict[str, list[Cost]], place: int, unit: str) -> list[Row]:
    (first, bare), *others = costs.items()
    return [
        Row("sql", f"{NAME}, {first}", unit, median(cost[place] for cost in bare)),
        *(_beside(way, cost, bare, place, unit) for way, cost in others),
    ]


def _beside(way: str, ours: list[Cost], bare: list[Cost], place: int, unit: str) -> Row:
    ratio = median(mine[place] / alone[place] for mine, alone in zip(ours, bare, strict=True))
    return Row(
        *("sql", f"{NAME}, {way}", unit, median(cost[place] for cost in ours)),
        ratio=ratio,
        ratio_to="driver",
        target=f"<= {MOST:g}x driver",
        met=ratio <= MOST,
    )


async def _cost(work: Callable[[], Awaitable[None]]) -> Cost:
    cpu, clock = time.process_time(), time.perf_counter()
    await work()
    return (time.process_time() - cpu) * 1e3, (time.perf_counter() - clock) * 1e3
