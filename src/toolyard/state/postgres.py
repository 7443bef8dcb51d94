"""State in PostgreSQL, for many processes and machines: one small table, and the server's clock."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from ..databases.model import place_of, without_secrets
from ..databases.postgres_pool import PostgresPool, connect
from .counters import (
    DONE,
    LONGEST_MONTH,
    SECOND,
    bucket_of,
    decode,
    microseconds,
    period_length,
    readings,
)
from .store import (
    CounterReadings,
    RateSpend,
    Spend,
    SpendRefusal,
    SpendResult,
    StateError,
    StateExtraError,
    StateFullError,
    StateTimeoutError,
    StateUnavailableError,
    StateUnusableError,
    WindowSpend,
    check_entry,
    checked_ttl,
)

if TYPE_CHECKING:
    from psycopg import AsyncConnection


logger = logging.getLogger("toolyard.state")

CONNECTIONS = 4
CONNECT_SECONDS = 3
SECONDS = 5.0
"""For one statement, including the wait for a connection."""
SWEEP_SECONDS = 60.0
SPEND_TRIES = 3
"""The first try makes the rows of counters that are new. Another process may sweep them away."""

_TABLE = (
    "CREATE TABLE IF NOT EXISTS toolyard_state"
    ' (key text COLLATE "C" PRIMARY KEY, value bytea NOT NULL, expires timestamptz)',
    "CREATE INDEX IF NOT EXISTS toolyard_state_expires ON toolyard_state (expires) WHERE expires IS NOT NULL",
)
_EXPIRES = "clock_timestamp() + %(ttl)s::float8 * interval '1 second'"
_ALIVE = "(expires IS NULL OR expires > clock_timestamp())"
_GET = f"SELECT value FROM toolyard_state WHERE key = %(key)s AND {_ALIVE}"
_PUT = (
    f"INSERT INTO toolyard_state AS mine VALUES (%(key)s, %(new)s, {_EXPIRES}) "
    "ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires = excluded.expires"
)
_ADD = f"{_PUT} WHERE mine.expires <= clock_timestamp()"
_REPLACE = (
    f"UPDATE toolyard_state SET value = %(new)s, expires = {_EXPIRES} "
    f"WHERE key = %(key)s AND value = %(old)s AND {_ALIVE}"
)
_REMOVE = f"DELETE FROM toolyard_state WHERE key = %(key)s AND value = %(old)s AND {_ALIVE}"
_DELETE = f"DELETE FROM toolyard_state WHERE key = %(key)s AND {_ALIVE}"
_KEYS = f"SELECT key FROM toolyard_state WHERE key >= %(key)s AND key < %(last)s AND {_ALIVE} ORDER BY key"
# SKIP LOCKED: two processes that sweep at once do not wait for each other.
_SWEEP = (
    "DELETE FROM toolyard_state WHERE key IN (SELECT key FROM toolyard_state "
    "WHERE expires <= clock_timestamp() LIMIT 1000 FOR UPDATE SKIP LOCKED)"
)
_COUNTERS = f"SELECT key, value FROM toolyard_state WHERE key >= %(key)s AND key < %(last)s AND {_ALIVE}"
_NOW = "(extract(epoch FROM clock_timestamp()) * 1000000)::int8"
# A row that is not there cannot be locked; this is what spending takes for a counter that is at zero.
_MAKE_COUNTERS = (
    "INSERT INTO toolyard_state SELECT key, '', clock_timestamp() + interval '1 minute' "
    "FROM unnest(%(keys)s::text[]) AS asked (key) ORDER BY key ON CONFLICT (key) DO NOTHING"
)
# The sums of `counters.settle`, by the clock of the server, which is read when all rows are locked. They
# are locked in the order of their keys, so that two statements do not wait for each other. `value` is what
# the row holds now, even if that was written after this statement began. `repaired` is for what a clock left
# behind that was ahead. Planning takes longer than the rest, so kinds that are not asked for are left out.
# `expires` is a full minute after the end: it is in an index, which would grow with every call if it changed.
_BEFORE = f"""
WITH asked AS MATERIALIZED (
  SELECT * FROM unnest(
    %(keys)s::text[], %(kinds)s::text[], %(amounts)s::int8[], %(ceilings)s::int8[], %(periods)s::int8[],
    %(leases)s::text[]
  ) WITH ORDINALITY AS asked (key, kind, amount, ceiling, period, leases, position)
), held AS MATERIALIZED (
  SELECT key, value FROM toolyard_state WHERE key = ANY (%(keys)s::text[]) ORDER BY key FOR UPDATE
), clock AS MATERIALIZED (
  SELECT {_NOW} AS now, locked FROM (SELECT count(*) AS locked FROM held) AS rows
), known AS (
  SELECT asked.*, now, convert_from(value, 'UTF8') AS text,
    string_to_array(leases, ' ') AS mine,
    CASE WHEN kind <> 'w' THEN NULL WHEN period > 0 THEN (now / period + 1) * period ELSE
      extract(epoch FROM date_trunc('month', to_timestamp(now / 1000000) AT TIME ZONE 'UTC')
        + interval '1 month')::int8 * 1000000 END AS close
  FROM asked JOIN held USING (key) CROSS JOIN clock
), after (position, key, now, fits, wait, text, until, repaired) AS MATERIALIZED (
"""
_AFTER_BY_KIND = {
    "w": f"""
  SELECT position, key, now,
    ceiling IS NULL OR used + greatest(amount, 1) <= ceiling, ends - now,
    format('w %%s %%s', greatest(used + amount, 0), ends), ends,
    CASE WHEN ends < ends0 THEN format('w %%s %%s', used, ends) END
  FROM known, LATERAL (
    SELECT coalesce(nullif(split_part(text, ' ', 2), '')::int8, 0) AS used0,
      coalesce(nullif(split_part(text, ' ', 3), '')::int8, 0) AS ends0
  ) AS before, LATERAL (
    SELECT CASE WHEN ends0 > now THEN used0 ELSE 0 END AS used,
      CASE WHEN ends0 > now AND ends0 - now <= 2 * coalesce(nullif(period, 0), {LONGEST_MONTH})
        THEN ends0 ELSE close END AS ends
  ) AS open WHERE kind = 'w'
""",
    "r": """
  SELECT position, key, now, most >= "full" + period, "full" + period - most,
    format('r %%s', "full" + period), "full" + period,
    CASE WHEN "full" < full0 THEN format('r %%s', "full") END
  FROM known, LATERAL (
    SELECT coalesce(nullif(split_part(text, ' ', 2), '')::int8, 0) AS full0, now + amount * period AS most
  ) AS before, LATERAL (SELECT least(most, greatest(now, full0)) AS "full") AS open WHERE kind = 'r'
""",
    "s": """
  SELECT position, key, now, ceiling IS NULL OR count + cardinality(mine) <= ceiling, 0,
    concat_ws(' ', 's', kept, added), greatest(last, now + period), NULL
  FROM known, LATERAL (
    SELECT count(*), string_agg(part, ' ') AS kept, max(split_part(part, '=', 2)::int8) AS last
    FROM unnest(string_to_array(substr(text, 3), ' ')) AS part
    WHERE split_part(part, '=', 2)::int8 > now AND split_part(part, '=', 1) <> ALL (mine)
  ) AS others, LATERAL (
    SELECT string_agg(format('%%s=%%s', lease, now + period), ' ') AS added
    FROM unnest(mine) AS lease WHERE period > 0
  ) AS own WHERE kind = 's'
""",
}
_WRITE = """
), verdict AS MATERIALIZED (
  SELECT bool_and(fits) AND count(*) = cardinality(%(keys)s::text[]) AS passed FROM after
), written AS (
  UPDATE toolyard_state SET value = convert_to(CASE WHEN passed THEN text ELSE repaired END, 'UTF8'),
    expires = to_timestamp((until / 60000000 + 2) * 60)
  FROM after, verdict WHERE toolyard_state.key = after.key AND (passed OR repaired IS NOT NULL)
)
SELECT now, locked, position, wait
FROM clock LEFT JOIN (SELECT position, wait FROM after WHERE NOT fits) AS refused ON true ORDER BY position
"""


@cache
def _spend_statement(kinds: frozenset[str]) -> str:
    return _BEFORE + " UNION ALL ".join(_AFTER_BY_KIND[kind] for kind in sorted(kinds)) + _WRITE


T = TypeVar("T")
Row = tuple[Any, ...]


class PostgresState:
    def __init__(self, url: str) -> None:
        self._url = url
        self._place = place_of(url)
        self._pool = PostgresPool(self._connect, CONNECTIONS)
        self._prepared = False
        self._swept = 0.0

    async def get(self, key: str) -> bytes | None:
        check_entry(key)
        rows = await self._with_retry(lambda: self._rows(_GET, {"key": key}))
        return bytes(rows[0][0]) if rows else None

    async def put(self, key: str, value: bytes, ttl: float | None = None) -> None:
        check_entry(key, value)
        await self._with_retry(lambda: self._count(_PUT, {"key": key, "new": value, "ttl": checked_ttl(ttl)}))
        await self._sweep()

    async def swap(self, key: str, old: bytes | None, new: bytes | None, ttl: float | None = None) -> bool:
        check_entry(key, new)
        if old is None and new is None:
            return await self.get(key) is None
        statement = _ADD if old is None else _REMOVE if new is None else _REPLACE
        done = await self._count(statement, {"key": key, "old": old, "new": new, "ttl": checked_ttl(ttl)})
        await self._sweep()
        return done > 0

    async def delete(self, key: str) -> bool:
        check_entry(key)
        return await self._with_retry(lambda: self._count(_DELETE, {"key": key})) > 0

    async def keys(self, prefix: str) -> list[str]:
        values = {"key": prefix, "last": prefix + "\U0010ffff"}
        return [row[0] for row in await self._with_retry(lambda: self._rows(_KEYS, values))]

    async def spend(self, entries: Sequence[Spend]) -> SpendResult:
        if not entries:
            return DONE
        values = _statement_values(entries)
        statement = _spend_statement(frozenset(values["kinds"]))
        for _ in range(SPEND_TRIES):
            rows = await self._rows(statement, values)
            if rows[0][1] == len(entries):
                break
            await self._count(_MAKE_COUNTERS, values)
        else:
            raise StateUnavailableError(f"{self._place}: counters vanish while they are used")
        await self._sweep()
        refused = [(at, wait, now) for now, _, at, wait in rows if at is not None]
        if not refused:
            return DONE
        return SpendResult(
            tuple(SpendRefusal(at - 1, wait / SECOND, (now + wait) / SECOND) for at, wait, now in refused)
        )

    async def counters(self, prefix: str) -> CounterReadings:
        values = {"key": prefix, "last": prefix + "\U0010ffff"}
        now = (await self._with_retry(lambda: self._rows(f"SELECT {_NOW}", {})))[0][0]
        rows = await self._with_retry(lambda: self._rows(_COUNTERS, values))
        found = ((key, decode(bytes(value))) for key, value in rows)
        return CounterReadings(now / SECOND, readings(found, now))

    async def close(self) -> None:
        await self._pool.close()

    async def _with_retry(self, action: Callable[[], Awaitable[T]]) -> T:
        try:
            return await action()
        except StateTimeoutError:
            raise
        except StateUnavailableError:
            return await action()

    async def _rows(self, statement: str, values: Mapping[str, Any]) -> list[Row]:
        async def read(connection: "AsyncConnection[Row]") -> list[Row]:
            cursor = await connection.execute(statement.encode(), values, binary=True)
            return await cursor.fetchall()

        return await self._once(read)

    async def _count(self, statement: str, values: Mapping[str, Any]) -> int:
        async def write(connection: "AsyncConnection[Row]") -> int:
            return (await connection.execute(statement.encode(), values)).rowcount

        return await self._once(write)

    async def _once(self, action: Callable[["AsyncConnection[Row]"], Awaitable[T]]) -> T:
        try:
            from psycopg import Error  # 80 to 110 ms of CPU, once
            from psycopg.errors import DeadlockDetected, SerializationFailure, UndefinedTable
        except ImportError:
            # psycopg is installed but libpq is missing.
            raise StateExtraError(self._place, "postgres") from None

        try:
            async with asyncio.timeout(SECONDS):
                try:
                    return await self._with_connection(action)
                except (DeadlockDetected, SerializationFailure, UndefinedTable) as error:
                    # Nothing was changed. Restoring a database may have dropped the table.
                    self._prepared = self._prepared and not isinstance(error, UndefinedTable)
                    return await self._with_connection(action)
        except TimeoutError:
            raise self._timeout_error() from None
        except (Error, OSError) as error:
            raise self._translate_error(error) from None

    async def _with_connection(self, action: Callable[["AsyncConnection[Row]"], Awaitable[T]]) -> T:
        async with self._pool.acquire() as connection:
            if not self._prepared:
                await _prepare(connection)
                self._prepared = True
            return await action(connection)

    async def _connect(self) -> "AsyncConnection[Row]":
        from psycopg import ProgrammingError

        try:
            return await connect(self._url, application_name="toolyard", seconds=CONNECT_SECONDS)
        except ProgrammingError:
            # Its message may quote a part of the password that it took for a port.
            raise StateUnusableError(
                f"the address {self._place} cannot be read",
                "postgresql://USER:PASSWORD@HOST:PORT/NAME, with special characters percent-encoded",
            ) from None

    async def _sweep(self) -> None:
        """Delete expired entries, at most once a minute and after a write."""
        now = time.monotonic()
        if now - self._swept > SWEEP_SECONDS:
            self._swept = now
            try:
                await self._count(_SWEEP, {})
            except StateError as error:
                logger.warning("cannot delete expired entries: %s", error)

    def _timeout_error(self) -> StateTimeoutError:
        return StateTimeoutError(
            f"{self._place} did not answer within {SECONDS:g} s", "is PostgreSQL up and reachable?"
        )

    def _translate_error(self, error: Exception) -> StateError:
        from psycopg.errors import (
            ConnectionTimeout,
            DiskFull,
            InsufficientPrivilege,
            InvalidAuthorizationSpecification,
        )

        if isinstance(error, ConnectionTimeout):
            return self._timeout_error()

        reason = f"{self._place}: {without_secrets(_first_line(error), self._url)}"
        if isinstance(error, InsufficientPrivilege):
            return StateUnusableError(
                reason, "let the user create a table, or create toolyard_state as the docs show"
            )
        if isinstance(error, DiskFull):
            return StateFullError(reason, "is the server's disk full?")
        if isinstance(error, InvalidAuthorizationSpecification) or "authentication failed" in reason:
            return StateUnusableError(reason, "check user and password in the url of [state]")
        return StateUnavailableError(reason, "is PostgreSQL up, and is the url of [state] right?")


def _statement_values(entries: Sequence[Spend]) -> dict[str, list[Any]]:
    rows = [_statement_row(entry) for entry in entries]
    names = ("keys", "kinds", "amounts", "ceilings", "periods", "leases")
    return {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


def _statement_row(entry: Spend) -> tuple[str, str, int, int | None, int, str]:
    if isinstance(entry, RateSpend):
        interval, burst = bucket_of(entry)
        return entry.key, "r", burst, None, interval, ""
    if isinstance(entry, WindowSpend):
        period = 0 if entry.period == "month" else period_length(entry.period)
        return entry.key, "w", entry.amount, entry.ceiling, period, ""
    return entry.key, "s", 0, entry.ceiling, microseconds(entry.ttl), " ".join(entry.leases)


async def _prepare(connection: "AsyncConnection[Row]") -> None:
    from psycopg.errors import DuplicateTable, UniqueViolation

    # This user may be allowed to use the table and not to create it.
    cursor = await connection.execute("SELECT to_regclass('toolyard_state') IS NOT NULL")
    if (await cursor.fetchone() or (False,))[0]:
        return
    for statement in _TABLE:
        # Another process may create it at the same time, and "if not exists" does not prevent that error.
        with suppress(DuplicateTable, UniqueViolation):
            await connection.execute(statement.encode())


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
