"""State in Redis, for many processes and machines."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ..databases.model import place_of, without_secrets
from .store import (
    StateError,
    StateFullError,
    StateTimeoutError,
    StateUnavailableError,
    StateUnusableError,
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
_PATTERN = str.maketrans({each: f"\\{each}" for each in "*?[]^-\\"})

T = TypeVar("T")


class RedisState:
    def __init__(self, url: str) -> None:
        self._url = url
        self._place = place_of(url)
        self._client: Redis | None = None

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

    async def close(self) -> None:
        client, self._client = self._client, None
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


async def _scan(redis: Any, pattern: str) -> list[str]:
    # SCAN may return a key twice.
    found = {key.decode()[len(PREFIX) :] async for key in redis.scan_iter(match=pattern, count=1000)}
    return sorted(found)


def _milliseconds(ttl: float | None) -> int | None:
    """None: no limit. 0: expired already, which Redis does not accept."""
    seconds = checked_ttl(ttl)
    return None if seconds is None else max(1, round(seconds * 1000)) if seconds else 0
