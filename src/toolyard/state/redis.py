"""State in Redis, for many processes and machines."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ..databases.model import place_of, without_secrets
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
    StateFullError,
    StateTimeoutError,
    StateUnavailableError,
    StateUnusableError,
    WindowSpend,
    check_entry,
    checked_ttl,
)

if TYPE_CHECKING:
    from redis.asyncio import Redis

PREFIX = "toolyard:"
CONNECTIONS = 8
CONNECT_SECONDS = 3.0
SECONDS = 5.0
"""For one command, including the wait for a connection."""
PAGE = 1000
"""How many keys are scanned or read at a time."""

# ARGV: whether an old value is expected, the value; whether a new one is set, the value, its TTL in ms or 0.
_SWAP = """
local now = redis.call('GET', KEYS[1])
if ARGV[1] == '0' then
  if now then return 0 end
elseif now ~= ARGV[2] then
  return 0
end
if ARGV[3] == '0' then
  redis.call('DEL', KEYS[1])
elseif ARGV[5] == '0' then
  redis.call('SET', KEYS[1], ARGV[4])
else
  redis.call('SET', KEYS[1], ARGV[4], 'PX', ARGV[5])
end
return 1
"""
# The sums of `counters.settle`, by the clock of Redis. For each key four values:
# w, amount, ceiling or -1, period in µs or 0 for a month | r, burst, -1, µs for a token | s, leases, ceiling
# or -1, ttl in µs. Returns the time, then the position and the wait of each that is refused.
_SPEND = """
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local function month_end()
  -- Days to a date of the calendar, by years that begin in March.
  local days = math.floor(now / 86400000000) + 719468
  local era = math.floor(days / 146097)
  local day = days - era * 146097
  local year = math.floor((day - math.floor(day / 1460) + math.floor(day / 36524)
    - math.floor(day / 146096)) / 365)
  local first = 365 * year + math.floor(year / 4) - math.floor(year / 100)
  local month = math.floor((5 * (day - first) + 2) / 153)
  local next_first = month == 11 and 365 + ((year + 1) % 4 == 0 and ((year + 1) % 100 ~= 0 or
    (year + 1) % 400 == 0) and 1 or 0) or math.floor((153 * (month + 1) + 2) / 5)
  return (era * 146097 + first + next_first - 719468) * 86400000000
end

local function write(key, text, ends)
  local left = math.ceil((ends - now) / 1000)
  if left > 0 then
    redis.call('SET', key, text, 'PX', string.format('%.0f', left))
  else
    redis.call('DEL', key)
  end
end

local function add(key, text, amount, ceiling, period)
  local used, ends = string.match(text, '^w (%d+) (%d+)$')
  used, ends = tonumber(used or 0), tonumber(ends or 0)
  local length = period == 0 and LONGEST_MONTH or period
  local close = period == 0 and month_end() or (math.floor(now / period) + 1) * period
  if ends <= now then
    used, ends = 0, close
  elseif ends - now > 2 * length then
    ends = close
    write(key, string.format('w %.0f %.0f', used, ends), ends)
  end
  if ceiling >= 0 and used + math.max(amount, 1) > ceiling then return nil, ends - now end
  return string.format('w %.0f %.0f', math.max(used + amount, 0), ends), ends
end

local function take(key, text, burst, interval)
  local full, most = math.max(tonumber(string.match(text, '^r (%d+)$') or 0), now), now + burst * interval
  if full > most then
    full = most
    write(key, string.format('r %.0f', full), full)
  end
  full = full + interval
  if full > most then return nil, full - most end
  return string.format('r %.0f', full), full
end

local function hold(text, leases, ceiling, ttl)
  local kept, mine, count, last = {'s'}, {}, 0, now
  for lease in string.gmatch(leases, '%S+') do mine[lease] = true; count = count + 1 end
  for lease, ends in string.gmatch(text, '(%S+)=(%d+)') do
    if tonumber(ends) > now and not mine[lease] then
      table.insert(kept, lease .. '=' .. ends)
      last = math.max(last, tonumber(ends))
    end
  end
  if ceiling >= 0 and #kept - 1 + count > ceiling then return nil, 0 end
  if ttl > 0 then
    for lease in pairs(mine) do table.insert(kept, string.format('%s=%.0f', lease, now + ttl)) end
    last = math.max(last, now + ttl)
  end
  return table.concat(kept, ' '), last
end

local refused, texts, untils = {now}, {}, {}
for position, key in ipairs(KEYS) do
  local at = 4 * position
  local kind, amount, ceiling, period = ARGV[at - 3], ARGV[at - 2], tonumber(ARGV[at - 1]), tonumber(ARGV[at])
  local text, until_or_wait = redis.call('GET', key) or ''
  if kind == 'w' then text, until_or_wait = add(key, text, tonumber(amount), ceiling, period)
  elseif kind == 'r' then text, until_or_wait = take(key, text, tonumber(amount), period)
  else text, until_or_wait = hold(text, amount, ceiling, period) end
  texts[position], untils[position] = text, until_or_wait
  if not text then
    table.insert(refused, position - 1)
    table.insert(refused, until_or_wait)
  end
end
if #refused == 1 then
  for position, key in ipairs(KEYS) do write(key, texts[position], untils[position]) end
end
return refused
""".replace("LONGEST_MONTH", str(LONGEST_MONTH))
_PATTERN = str.maketrans({each: f"\\{each}" for each in "*?[]^-\\"})

T = TypeVar("T")


class RedisState:
    def __init__(self, url: str) -> None:
        self._url = url
        self._place = place_of(url)
        self._client: Redis | None = None
        self._script: Any = None

    async def get(self, key: str) -> bytes | None:
        check_entry(key)
        return await self._with_retry(lambda redis: redis.get(PREFIX + key))

    async def put(self, key: str, value: bytes, ttl: float | None = None) -> None:
        check_entry(key, value)
        milliseconds = _milliseconds(ttl)
        if milliseconds == 0:
            await self.delete(key)
        else:
            await self._with_retry(lambda redis: redis.set(PREFIX + key, value, px=milliseconds))

    async def swap(self, key: str, old: bytes | None, new: bytes | None, ttl: float | None = None) -> bool:
        check_entry(key, new)
        milliseconds = _milliseconds(ttl)
        if milliseconds == 0:
            new = None
        values = (int(old is not None), old or b"", int(new is not None), new or b"", milliseconds or 0)
        # Redis' EVAL: the script runs in the server.
        return bool(await self._once(lambda redis: redis.eval(_SWAP, 1, PREFIX + key, *values)))

    async def delete(self, key: str) -> bool:
        check_entry(key)
        return bool(await self._with_retry(lambda redis: redis.delete(PREFIX + key)))

    async def keys(self, prefix: str) -> list[str]:
        pattern = f"{PREFIX}{prefix}".translate(_PATTERN) + "*"
        return await self._with_retry(lambda redis: _scan(redis, pattern))

    async def spend(self, entries: Sequence[Spend]) -> SpendResult:
        keys = [PREFIX + entry.key for entry in entries]
        values = [value for entry in entries for value in _script_values(entry)]

        async def ask(redis: Any) -> list[int]:
            if self._script is None:
                # Sent once to each server; then its digest is enough.
                self._script = redis.register_script(_SPEND)
            return await self._script(keys, values)

        now, *refused = await self._once(ask)
        if not refused:
            return DONE
        pairs = zip(refused[::2], refused[1::2], strict=True)
        return SpendResult(
            tuple(SpendRefusal(at, wait / SECOND, (now + wait) / SECOND) for at, wait in pairs)
        )

    async def counters(self, prefix: str) -> CounterReadings:
        keys = await self.keys(prefix)

        async def read(redis: Any) -> CounterReadings:
            seconds, rest = await redis.time()
            now = seconds * SECOND + rest
            values: list[bytes | None] = []
            for first in range(0, len(keys), PAGE):
                values += await redis.mget([PREFIX + key for key in keys[first : first + PAGE]])
            pairs = zip(keys, values, strict=True)
            found = ((key, None if value is None else decode(value)) for key, value in pairs)
            return CounterReadings(now / SECOND, readings(found, now))

        return await self._with_retry(read)

    async def close(self) -> None:
        client, self._client, self._script = self._client, None, None
        if client is not None:
            await client.aclose()

    async def _with_retry(self, action: Callable[[Any], Awaitable[T]]) -> T:
        try:
            return await self._once(action)
        except StateTimeoutError:
            raise
        except StateUnavailableError:
            return await self._once(action)

    async def _once(self, action: Callable[[Any], Awaitable[T]]) -> T:
        from redis.exceptions import RedisError  # 100 to 180 ms of CPU, once

        try:
            async with asyncio.timeout(SECONDS):
                return await action(self._connected())
        except TimeoutError:
            raise self._timeout_error() from None
        except (RedisError, OSError) as error:
            raise self._translate_error(error) from None

    def _connected(self) -> "Redis":
        if self._client is None:
            from redis.asyncio import BlockingConnectionPool, Redis
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff

            try:
                pool = BlockingConnectionPool.from_url(  # pyright: ignore[reportUnknownMemberType]: its **kwargs
                    self._url,
                    max_connections=CONNECTIONS,
                    timeout=SECONDS,
                    socket_connect_timeout=CONNECT_SECONDS,
                    socket_timeout=SECONDS,
                    # `_with_retry` decides what is tried again.
                    retry=Retry(NoBackoff(), 0),
                    # With protocol 3 the package does not check whether an idle connection has been closed.
                    protocol=2,
                )
            except (ValueError, TypeError):
                raise StateUnusableError(
                    f"the address {self._place} cannot be read",
                    "redis://USER:PASSWORD@HOST:PORT/0, with special characters percent-encoded",
                ) from None
            self._client = Redis.from_pool(pool)
        return self._client

    def _timeout_error(self) -> StateTimeoutError:
        return StateTimeoutError(
            f"{self._place} did not answer within {SECONDS:g} s", "is Redis up and reachable?"
        )

    def _translate_error(self, error: Exception) -> StateError:
        from redis.exceptions import (
            AuthenticationError,
            ConnectionError,
            NoPermissionError,
            OutOfMemoryError,
            ResponseError,
        )
        from redis.exceptions import TimeoutError as RedisTimeout

        if isinstance(error, RedisTimeout):
            return self._timeout_error()
        reason = f"{self._place}: {without_secrets(str(error) or type(error).__name__, self._url)}"
        if isinstance(error, AuthenticationError | NoPermissionError):
            return StateUnusableError(reason, "check user and password in the url of [state]")
        if isinstance(error, OutOfMemoryError):
            return StateFullError(reason, "raise Redis' maxmemory")
        if isinstance(error, ResponseError) and not isinstance(error, ConnectionError):
            return StateUnusableError(reason, "is it a Redis server that takes writes and scripts?")
        return StateUnavailableError(reason, "is Redis up, and is the url of [state] right?")


def _script_values(entry: Spend) -> tuple[str | int, str | int, int, int]:
    if isinstance(entry, RateSpend):
        interval, burst = bucket_of(entry)
        return "r", burst, -1, interval
    ceiling = -1 if entry.ceiling is None else entry.ceiling
    if isinstance(entry, WindowSpend):
        period = 0 if entry.period == "month" else period_length(entry.period)
        return "w", entry.amount, ceiling, period
    return "s", " ".join(entry.leases), ceiling, microseconds(entry.ttl)


async def _scan(redis: Any, pattern: str) -> list[str]:
    # SCAN may return a key twice.
    found = {key.decode()[len(PREFIX) :] async for key in redis.scan_iter(match=pattern, count=PAGE)}
    return sorted(found)


def _milliseconds(ttl: float | None) -> int | None:
    """None: no limit. 0: expired already, which Redis does not accept."""
    seconds = checked_ttl(ttl)
    return None if seconds is None else max(1, round(seconds * 1000)) if seconds else 0
