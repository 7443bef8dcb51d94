"""Three gateways on one real store: a grant's calls are counted together, and a revocation is for all."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from tests.programs import need
from tests.stores import PostgresServer, RedisServer
from toolyard import narrow_grant
from toolyard.callers.errors import InvalidTokenError
from toolyard.callers.grants import Grants, GrantSpentError, open_grants
from toolyard.config.callers import AuthConfig
from toolyard.wire.call import Principal
from toolyard.wire.seal import Sealer

Server = RedisServer | PostgresServer


@pytest.fixture(params=["redis", "postgres"], scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    if request.param == "redis":
        need("redis")
    with RedisServer() if request.param == "redis" else PostgresServer() as running:
        yield running


def replica(server: Server) -> Grants:
    return open_grants(server.url, None, "yard", Sealer(b"the same key at every replica"), AuthConfig())


async def admitted(grants: Grants, token: str) -> bool:
    try:
        await grants.admit(await grants.verify(token, "/mcp"))
    except GrantSpentError:
        return False
    return True


async def test_exactly_as_many_calls_pass_as_a_grant_permits(server: Server):
    async with AsyncExitStack() as stack:
        replicas = [replica(server) for _ in range(3)]
        for each in replicas:
            stack.push_async_callback(each.close)
        token = (await replicas[0].make(Principal(), "helper", calls=100)).token
        narrowed = narrow_grant(token, calls=30)
        tokens = [token, narrowed, narrow_grant(narrowed)]
        passed = await asyncio.gather(
            *(admitted(replicas[n % 3], tokens[1 + n // 3 % 2]) for n in range(60)),
        )
        assert sum(passed) == 30
        passed = await asyncio.gather(*(admitted(replicas[n % 3], token) for n in range(120)))
        assert sum(passed) == 70
        assert [(one.used, one.state) for one in await replicas[1].list()] == [(100, "used up")]


async def test_a_grant_that_one_revokes_is_revoked_for_all(server: Server):
    one, other = replica(server), replica(server)
    issued = await one.make(Principal(), "other")
    await one.revoke(issued.record.id)
    with pytest.raises(InvalidTokenError, match="revoked"):
        await other.verify(issued.token, "/mcp")
    await one.close()
    await other.close()
