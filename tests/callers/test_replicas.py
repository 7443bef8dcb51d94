"""Two gateways on one real store: a key of one is a key of both, and a dying store locks out nobody known."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from tests.callers.test_authenticator import Time, ask, bearer, refused
from tests.programs import need
from tests.stores import PostgresServer, RedisServer
from toolyard.callers.authenticator import RECHECK_SECONDS, Authenticator
from toolyard.callers.keys import ApiKeyError, ApiKeys, KeyHolder, open_keys
from toolyard.wire.seal import Sealer

KEY = b"the same key at every replica"


@pytest.fixture(params=["redis", "postgres"], scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[RedisServer | PostgresServer]:
    if request.param == "redis":
        need("redis")
    with RedisServer() if request.param == "redis" else PostgresServer() as running:
        yield running


@asynccontextmanager
async def replica(server: RedisServer | PostgresServer, name: str) -> AsyncIterator[ApiKeys]:
    keys = open_keys(server.url, None, name, Sealer(KEY, name))
    try:
        yield keys
    finally:
        await keys.close()


async def test_a_key_made_and_revoked_at_one_is_so_at_the_other(server: RedisServer | PostgresServer):
    time = Time()
    async with replica(server, "yard") as one, replica(server, "yard") as other:
        issued = await one.create(KeyHolder(name="anna", agent="coder"))
        with pytest.raises(ApiKeyError, match="exists"):
            await other.create(KeyHolder(name="anna"))
        with pytest.raises(ApiKeyError, match="by look"):
            await other.create(KeyHolder(name="ben", agent="Coder"))
        who = Authenticator([other], clock=time, sleep=time.sleep)
        assert (await ask(who, bearer(issued.text))).subject == "anna"
        await one.revoke(issued.key.id)
        time.now += RECHECK_SECONDS
        assert (await refused(who, bearer(issued.text))).status == 401
        assert [key.name for key in await other.list()] == ["anna"]


async def test_a_store_that_dies_in_the_middle(server: RedisServer | PostgresServer):
    time = Time()
    async with replica(server, "fragile") as keys:
        anna = await keys.create(KeyHolder(name="anna"))
        ben = await keys.create(KeyHolder(name="ben"))
        who = Authenticator([keys], clock=time, sleep=time.sleep)
        await ask(who, bearer(anna.text))
        server.stop()
        try:
            time.now += RECHECK_SECONDS
            assert (await ask(who, bearer(anna.text))).subject == "anna"
            refusal = await refused(who, bearer(ben.text))
            assert (refusal.status, dict(refusal.headers)[b"retry-after"]) == (503, b"5")
        finally:
            server.start()
        time.now += RECHECK_SECONDS
        assert (await ask(who, bearer(ben.text))).subject == "ben"
        assert (await ask(who, bearer(anna.text))).subject == "anna"
