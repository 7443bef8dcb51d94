"""Three gateway processes on one store: a rotating refresh token is used once, even if its user is killed."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from msgspec.structs import replace
from yarl import URL

from tests.connections.token_endpoint import ADDRESS, granted, refused, session_of, token, written_endpoint
from tests.connections.token_hop import TokenHop, token_hop
from tests.connections.yard import (
    KEY,
    Guarded,
    config_of,
    connect,
    guarded,
    key_of,
    link_in,
    log_in,
    replica,
    save_token,
)
from tests.faults.talk import Talk
from tests.faults.yard import Gateway, toml
from tests.programs import need
from tests.stores import PostgresServer, RedisServer
from toolyard.config.callers import AuthConfig
from toolyard.config.models import StateConfig
from toolyard.connections.oauth.tokens import TokenStore
from toolyard.state import open_state
from toolyard.vault.master_keys import MasterKeys, TextSource
from toolyard.vault.vault import Vault
from toolyard.wire.call import Principal

pytestmark = pytest.mark.asyncio(loop_scope="module")

TOOL = "mcp__guarded__whoami"
CALLS = 100
LONGEST = 120.0
"""Seconds for all answers. Reached only when a test fails."""


class Replicas:
    def __init__(self, url: str, upstream: Guarded, hop: TokenHop, folder: Path) -> None:
        self._url = url
        self._upstream = upstream
        self._folder = folder
        self.hop = hop
        self._config = replace(
            config_of(upstream.url, folder),
            state=StateConfig(url=url, key=KEY.decode()),
            auth=AuthConfig(keys=True),
        )
        self.gateways: list[Gateway] = []
        self.dead: set[int] = set()
        """The positions of those that were killed."""

    async def start(self, position: int) -> Gateway:
        own = self._folder / f"replica-{position}"
        own.mkdir(exist_ok=True)
        servers = {"guarded": {"url": self._upstream.url, "auth": "oauth"}}
        tables = f'[state]\nurl = "{self._url}"\nkey = "{KEY.decode()}"\n[auth]\nkeys = true\n'
        config = toml(servers, state_dir=str(own / "state")) + tables
        return await Gateway.start(own, config, TOOLYARD_KEY=KEY.decode())

    async def revive(self) -> None:
        for position in sorted(self.dead):
            self.gateways[position] = await self.start(position)
        self.dead.clear()

    async def kill(self, pid: int) -> None:
        position = next(at for at, gateway in enumerate(self.gateways) if gateway.pid == pid)
        self.dead.add(position)
        await self.gateways[position].kill()

    async def expired(self, *users: str) -> "list[Caller]":
        """Users who are connected, and whose tokens have ended."""
        found: list[Caller] = []
        async with replica(self._config) as (gateway, _):
            for user in users:
                principal = Principal(subject=user)
                record = await log_in(gateway, principal, user)
                ended = replace(record, obtained=0.0, token_endpoint=self.hop.url)
                await save_token(gateway, principal, ended)
                found.append(Caller(user, await key_of(self._config, user), ended.refresh_token))
        return found

    async def log_in_for_lists(self) -> None:
        async with replica(self._config) as (gateway, _):
            await log_in(gateway, Principal(), "lister")

    def call_all(self, caller: "Caller") -> "list[tuple[Gateway, asyncio.Task[Any]]]":
        """A hundred calls at once, a third to each."""
        return [
            (gateway, asyncio.create_task(_called(gateway.port, caller)))
            for number in range(CALLS)
            for gateway in [self.gateways[number % len(self.gateways)]]
        ]


class Caller:
    def __init__(self, name: str, key: dict[str, str], refresh_token: str) -> None:
        self.name = name
        self.key = key
        self.refresh_token = refresh_token


async def _called(port: int, caller: Caller) -> Any:
    """The result of a call, or the error with which its connection broke."""
    talk = Talk(port, headers=caller.key)
    try:
        answer = await talk.call(TOOL)
    except (OSError, EOFError) as error:
        return error
    finally:
        talk.close()
    assert "result" in answer, answer
    return answer["result"]


def said(result: Any) -> tuple[bool, str]:
    return bool(result.get("isError")), result["content"][0]["text"]


async def answers(calls: Sequence[tuple[Gateway, "asyncio.Task[Any]"]]) -> list[tuple[int, Any]]:
    """What came of each call, with the process that was asked."""
    async with asyncio.timeout(LONGEST):
        return [(gateway.pid, await task) for gateway, task in calls]


@pytest.fixture(scope="module", params=["sqlite", "redis", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite://{tmp_path_factory.mktemp('state')}/state.db"
        return
    if request.param == "redis":
        need("redis")
    with RedisServer() if request.param == "redis" else PostgresServer() as running:
        yield running.url


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def upstream() -> AsyncIterator[Guarded]:
    async with guarded() as found:
        yield found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(
    store: str, upstream: Guarded, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Replicas]:
    folder = tmp_path_factory.mktemp("replicas")
    async with token_hop(f"{upstream.provider.url}/token") as hop, AsyncExitStack() as stack:
        group = Replicas(store, upstream, hop, folder)
        await group.log_in_for_lists()

        async def end() -> None:
            for gateway in group.gateways:
                await gateway.kill()

        stack.push_async_callback(end)
        group.gateways += await asyncio.gather(*(group.start(position) for position in range(3)))
        yield group


@pytest_asyncio.fixture(loop_scope="module")
async def replicas(running: Replicas) -> Replicas:
    await running.revive()
    return running


async def test_a_hundred_calls_through_three_processes_refresh_once(replicas: Replicas, upstream: Guarded):
    (ana,) = await replicas.expired("ana")
    before = await upstream.provider.refreshes()
    hold = replicas.hop.hold(ana.refresh_token, "before")
    calls = replicas.call_all(ana)
    await hold.reached()  # by whoever was first, while the other processes wait for its lease
    hold.release()
    assert {said(result) for _, result in await answers(calls)} == {(False, "ana")}
    assert replicas.hop.sent.count(ana.refresh_token) == 1
    assert await upstream.provider.refreshes() - before == 1


async def test_if_the_process_that_refreshes_is_killed_another_one_does_or_the_user_is_asked(
    replicas: Replicas, upstream: Guarded
):
    """The issuer has seen nothing of the first refresh, and has answered the second one."""
    unseen, rotated = await replicas.expired("ben", "eva")
    before = await upstream.provider.refreshes()
    holds = {
        unseen: replicas.hop.hold(unseen.refresh_token, "before"),
        rotated: replicas.hop.hold(rotated.refresh_token, "after"),
    }
    calls = {caller: replicas.call_all(caller) for caller in holds}
    pids = [gateway.pid for gateway in replicas.gateways]
    killed = {await hold.holder(pids) for hold in holds.values()}
    for pid in killed:
        await replicas.kill(pid)
    found = {caller: await answers(made) for caller, made in calls.items()}
    for results in found.values():
        assert all(isinstance(result, OSError | EOFError) for pid, result in results if pid in killed)

    survivors = [said(result) for pid, result in found[unseen] if pid not in killed]
    assert len(survivors) >= CALLS // 3
    assert set(survivors) == {(False, "ben")}
    assert replicas.hop.sent.count(unseen.refresh_token) == 1

    # Nobody knows the successor, and the issuer takes the second use for theft: it refuses once, for all.
    asked = {said(result) for pid, result in found[rotated] if pid not in killed}
    assert all(failed and "'guarded' needs your permission" in text for failed, text in asked), asked
    assert replicas.hop.sent.count(rotated.refresh_token) == 2
    assert await upstream.provider.refreshes() - before == 2
    alive = next(gateway for gateway in replicas.gateways if gateway.pid not in killed)
    assert (await connect(link_in(said(await _called(alive.port, rotated))[1]), "eva"))[0] == 200
    assert said(await _called(alive.port, rotated)) == (False, "eva")


async def test_ten_replicas_that_need_a_token_at_once_refresh_it_once(store: str):
    async with written_endpoint() as endpoint, AsyncExitStack() as stack:

        async def rotate(writer: asyncio.StreamWriter) -> None:
            is_first = endpoint.asked.count(endpoint.asked[-1]) == 1
            writer.write(granted() if is_first else refused("invalid_grant"))

        endpoint.answer = rotate
        stores: list[TokenStore] = []
        for _ in range(10):
            vault = Vault(open_state(store, None), MasterKeys(TextSource(KEY.decode())), owns_state=True)
            stack.push_async_callback(vault.close)
            stores.append(TokenStore(vault, vault.store))
        await stores[0].save(ADDRESS, token(endpoint, obtained=0.0))
        sessions = [session_of(tokens) for tokens in stores for _ in range(3)]
        url = URL(sessions[0].url)
        found = await asyncio.gather(*(session.headers("POST", url) for session in sessions))
        assert {each.get("Authorization") for each in found} == {"Bearer new"}
        assert endpoint.asked == ["r1"]
