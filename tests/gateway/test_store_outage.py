"""The state store dies in the middle: known callers go on, limits do as they are told, and no call hangs."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.faults.talk import Talk
from tests.gateway.replicas import ECHO, Replicas, replicas, window
from tests.programs import need
from tests.stores import RedisServer
from tests.waiting import until

CONFIRM = """
[access]
confirm_seconds = {seconds}
[[access.rules]]
allow = ["*"]
[[access.rules]]
name = "sums"
confirm = ["demo/add"]
[audit]
url = "file:"
"""
LONGEST = 15.0
"""Seconds for one answer. What the store does not answer ends after 5, twice in a row at most."""


class Outage:
    """A gateway on Redis, a caller that it knows, and one that it has not seen yet."""

    def __init__(self, group: Replicas, known: dict[str, str], stranger: dict[str, str]) -> None:
        self._group = group
        self.known, self.stranger = known, stranger

    def talk(self, headers: dict[str, str]) -> Talk:
        return self._group.talk(0, headers)

    async def says(self, headers: dict[str, str]) -> str:
        """The text of an answer, or the message of the error."""
        talk = self.talk(headers)
        async with asyncio.timeout(LONGEST):
            answer = await talk.call(ECHO, text="hi")
        talk.close()
        return answer["error"]["message"] if "error" in answer else answer["result"]["content"][0]["text"]

    async def approvals(self) -> list[dict[str, Any]]:
        return json.loads(await self._group.toolyard("approvals", "--json"))

    async def verified(self) -> bool:
        return "intact" in await self._group.toolyard("audit", "verify")


@asynccontextmanager
async def outage(folder: Path, redis: RedisServer, unavailable: str, seconds: int) -> AsyncIterator[Outage]:
    tables = window(1000, unavailable) + CONFIRM.format(seconds=seconds)
    async with replicas(folder, redis.url, tables, 1) as group:
        found = Outage(group, await group.key("anna"), await group.key("ben"))
        assert await found.says(found.known) == "hi"
        yield found


def text_of(answer: dict[str, Any]) -> str:
    return answer["result"]["content"][0]["text"]


@pytest.mark.parametrize("unavailable", ["open", "closed"])
async def test_a_store_that_is_gone(unavailable: str, tmp_path: Path) -> None:
    need("redis")
    with RedisServer() as redis:
        async with outage(tmp_path, redis, unavailable, 60) as gateway:
            await asyncio.to_thread(redis.stop)
            expected = "hi" if unavailable == "open" else "This gateway cannot count calls just now"
            for _ in range(5):
                assert (await gateway.says(gateway.known)).startswith(expected)
            assert "cannot be checked just now; try again" in await gateway.says(gateway.stranger)
            asked = await gateway.talk(gateway.known).call("mcp__demo__add", a=1, b=2)
            assert "state store is not available now" in text_of(asked)
            await asyncio.to_thread(redis.start)
            await until(_says(gateway, gateway.known))
            await until(_says(gateway, gateway.stranger))
            assert await gateway.verified()


async def test_a_call_that_waits_for_a_person_ends_without_the_store_too(tmp_path: Path) -> None:
    need("redis")
    with RedisServer() as redis:
        async with outage(tmp_path, redis, "closed", 20) as gateway:
            waiting = asyncio.create_task(gateway.talk(gateway.known).call("mcp__demo__add", a=1, b=2))
            await until(_has_approvals(gateway))
            await asyncio.to_thread(redis.stop)
            assert "nobody did within 20 s" in text_of(await waiting)
            await asyncio.to_thread(redis.start)
            await until(_no_approvals(gateway))  # it is not offered to anybody any more


async def test_a_store_that_hangs(tmp_path: Path) -> None:
    need("redis")
    with RedisServer() as redis:
        async with outage(tmp_path, redis, "open", 60) as gateway:
            redis.signal(signal.SIGSTOP)
            try:
                for _ in range(5):
                    assert await gateway.says(gateway.known) == "hi"
                assert "cannot be checked just now; try again" in await gateway.says(gateway.stranger)
            finally:
                redis.signal(signal.SIGCONT)
            await until(_says(gateway, gateway.stranger))


def _has_approvals(gateway: Outage) -> Callable[[], Awaitable[bool]]:
    async def ask() -> bool:
        return bool(await gateway.approvals())

    return ask


def _no_approvals(gateway: Outage) -> Callable[[], Awaitable[bool]]:
    async def ask() -> bool:
        return not await gateway.approvals()

    return ask


def _says(gateway: Outage, headers: dict[str, str]) -> Callable[[], Awaitable[bool]]:
    async def ask() -> bool:
        return await gateway.says(headers) == "hi"

    return ask
