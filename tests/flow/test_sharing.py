"""Two gateways that share their state serve one conversation in turns, through a restart of either."""

from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.emulators.composio import ComposioEmulator
from tests.flow.process import agent, configured, started
from tests.stores import PostgresServer, RedisServer

TOOL = "mcp__composio__GITHUB_LIST_ISSUES"
WANTED = "list the open issues of a github repository"


@pytest.fixture(params=[RedisServer, PostgresServer], ids=["redis", "postgres"], scope="module")
def store(request: pytest.FixtureRequest) -> Iterator[Any]:
    with request.param() as server:
        yield server


async def test_one_thread_is_served_by_both_and_by_those_that_take_their_places(store: Any, tmp_path: Path):
    async with AsyncExitStack() as stack:
        composio = await stack.enter_async_context(ComposioEmulator())
        composio.connect("local", "github")
        config = configured(composio, tmp_path, f'[state]\nurl = "{store.url}"')

        async def begin(name: str) -> tuple[AsyncExitStack, Any]:
            own = await stack.enter_async_context(AsyncExitStack())
            return own, await own.enter_async_context(started(tmp_path / name, config))

        first_life, first = await begin("first")
        second_life, second = await begin("second")

        async def session(gateway: Any) -> str:
            async with agent(gateway, **{"X-Toolyard-Thread": "conversation-7"}) as one:
                found = await one.search(WANTED)
                answer = await one.calls(TOOL, owner="acme", repo="shop")
                assert answer["summary"]["item_count"] > 20
                return found["session"]["id"]

        begun = await session(first)
        assert begun.startswith("trs_")
        assert [await session(gateway) for gateway in (second, first, second)] == [begun] * 3

        await first_life.aclose()
        assert await session(second) == begun
        _, third = await begin("third")
        assert await session(third) == begun
        await second_life.aclose()
        assert await session(third) == begun

        # Refused in the middle: one of them renews it, and the others go on with the new one.
        composio.expire(begun, 401)
        _, fourth = await begin("fourth")
        renewed = await session(fourth)
        assert renewed not in ("", begun)
        assert await session(third) == renewed

        # Another client that only knows the id goes on with the same conversation, wherever it comes to.
        async with agent(third) as other:
            assert (await other.search(WANTED, session=renewed))["session"]["id"] == renewed
