"""Waiting calls in Redis and PostgreSQL: two gateways, an operator, and a server that dies in between."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.policy.confirming import ABLE, APPROVE, Setup, text_of
from tests.programs import need
from tests.stores import PostgresServer, RedisServer
from toolyard.policy.pending import AlreadyDecidedError, PendingApprovals
from toolyard.state import open_state


@pytest.fixture(scope="module", params=["redis", "postgres"])
def server(request: pytest.FixtureRequest) -> Iterator[RedisServer | PostgresServer]:
    if request.param == "redis":
        need("redis")
    with RedisServer() if request.param == "redis" else PostgresServer() as started:
        yield started


async def test_any_gateway_and_operator_sees_it_and_one_decision_counts(
    server: RedisServer | PostgresServer, tmp_path: Path
) -> None:
    ours, theirs = (open_state(server.url, tmp_path) for _ in range(2))
    setup, operators = Setup(ours), PendingApprovals(theirs)
    calling = asyncio.create_task(setup.client().call())
    id = (await setup.waiting()).id
    assert [pending.id for pending in await operators.list()] == [id]
    ended = await asyncio.gather(
        *(operators.decide(id, "approve", f"person {number}") for number in range(6)), return_exceptions=True
    )
    assert sum(isinstance(one, AlreadyDecidedError) for one in ended) == 5
    assert text_of(await calling) == "deleted a"
    replicas = [setup, Setup(theirs)]
    asked = await setup.client(ABLE).call()
    rounds = [replica.client(ABLE).answer(asked, APPROVE) for replica in replicas for _ in range(3)]
    done = await asyncio.gather(*rounds, return_exceptions=True)
    assert sum(not isinstance(one, BaseException) for one in done) == 1
    await ours.close()
    await theirs.close()


async def test_a_call_waits_while_the_server_is_restarted(
    server: RedisServer | PostgresServer, tmp_path: Path
) -> None:
    state = open_state(server.url, tmp_path)
    setup = Setup(state)
    calling = asyncio.create_task(setup.client().call())
    id = (await setup.waiting()).id
    await asyncio.to_thread(server.restart)
    assert (await setup.waiting()).id == id
    await setup.approvals.pending.decide(id, "approve", "olga")
    assert text_of(await calling) == "deleted a"
    await state.close()
