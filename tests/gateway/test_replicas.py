"""Three whole gateways on one store: together they give what one would, however many call at once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.replicas import race, replicas, window
from tests.programs import need
from tests.stores import PostgresServer, RedisServer

LIMIT = 60


@pytest.fixture(scope="module", params=["redis", "postgres"])
def store(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "redis":
        need("redis")
    with RedisServer() if request.param == "redis" else PostgresServer() as running:
        yield running.url


async def test_calls_are_counted_together_and_nobody_else_pays(store: str, tmp_path: Path) -> None:
    """Other callers have counters of their own, at whichever replica. Load does not switch the limit off."""
    async with replicas(tmp_path, store, window(LIMIT)) as group:
        anna, ben = await group.key("anna"), await group.key("ben")
        first = await race(group, anna, 5 * LIMIT)
        assert sum(first.passed) == LIMIT, first
        assert first.refused == 4 * LIMIT
        crowd = await race(group, ben, 12 * LIMIT, at_once=4 * LIMIT)
        assert (sum(crowd.passed), crowd.refused) == (LIMIT, 11 * LIMIT), crowd
        assert "cannot be counted" not in "".join(gateway.log for gateway in group.gateways)


async def test_the_calls_of_a_grant_are_counted_together(store: str, tmp_path: Path) -> None:
    """Those of a grant made from it are among them."""
    async with replicas(tmp_path, store, "") as group:
        await group.key("carl")
        parent = await group.grant("lead", "--from", "carl", "--calls", str(LIMIT))
        token = parent["Authorization"].removeprefix("Bearer ")
        child = await group.grant("helper", "--from", token, "--calls", str(LIMIT // 2))
        first = await race(group, child, LIMIT)
        assert (sum(first.passed), first.refused) == (LIMIT // 2, LIMIT // 2), first
        rest = await race(group, parent, 2 * LIMIT)
        assert (sum(rest.passed), rest.refused) == (LIMIT // 2, 3 * LIMIT // 2), rest
