"""The connections to one upstream: opened once, shared where that is allowed, renewed, closed."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from msgspec import Raw

from tests.serving import PATIENCE
from toolyard.upstream import connection
from toolyard.upstream.connection import (
    GATEWAY_CALLER,
    NO_CLIENT,
    Backoff,
    ChangeWatcher,
    ClientProfile,
    ConnectionPool,
    LegacySessionState,
    Params,
    RawResult,
    RequestListener,
    UpstreamInfo,
    profile_of,
)
from toolyard.upstream.errors import NotReachedError
from toolyard.wire.call import NO_CHANNEL, Call, Caller, Identity, LegacySession, Principal

MODERN, LEGACY = "2026-07-28", "2025-11-25"


class FakeConnection:
    """A link that carries nothing."""

    shares_tokens = False

    def __init__(self, profile: ClientProfile, version: str) -> None:
        self.profile = profile
        self.about = UpstreamInfo(version)
        self.server = "up"
        self.standing = LegacySessionState()
        self.closed = False
        self.busy = False

    async def request(
        self,
        method: str,
        params: Params,
        listener: RequestListener,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> RawResult:
        return Raw(b"{}")

    async def notify(self, method: str, params: Params) -> None:
        return None

    def watch(self, watcher: ChangeWatcher) -> None:
        return None

    def unwatch(self, watcher: ChangeWatcher) -> None:
        return None

    async def close(self) -> None:
        self.closed = True


class Opener:
    """Opens ways of one era; fails as often as it is told to."""

    activity = ""

    def __init__(self, version: str = LEGACY, failures: int = 0) -> None:
        self.version = version
        self.failures = failures
        self.opened: list[FakeConnection] = []
        self.tries = 0
        self.times: list[float] = []
        self.tried = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    async def open(self, profile: ClientProfile) -> Any:
        self.tries += 1
        self.times.append(asyncio.get_running_loop().time())
        self.tried.set()
        await self.gate.wait()
        if self.failures:
            self.failures -= 1
            raise NotReachedError("up", "not yet")
        self.opened.append(FakeConnection(profile, self.version))
        return self.opened[-1]


def call(tenant: str = "a", session: str = "1", version: str = LEGACY, **capabilities: Any) -> Call:
    caller = Caller(version, capabilities, identity=Identity(Principal(tenant=tenant)))
    place = LegacySession(id=session) if version == LEGACY else None
    return Call("tools/call", Raw(b"{}"), caller, NO_CHANNEL, 1, session=place)


ASKABLE: dict[str, Any] = {"elicitation": {}}


async def test_a_modern_upstream_has_one_way_for_all():
    opener = Opener(MODERN)
    tested = ConnectionPool("up", opener)
    first = await tested.get(call("a", **ASKABLE))
    assert await tested.get(call("b")) is first
    assert await tested.any() is first
    await tested.close()
    assert len(opener.opened) == 1


async def test_callers_who_cannot_be_asked_share_a_session_and_others_do_not():
    tested = ConnectionPool("up", Opener())
    plain = await tested.get(call("a"))
    assert await tested.get(call("b", experimental={})) is plain
    askable = await tested.get(call("a", **ASKABLE))
    assert askable is not plain
    assert await tested.get(call("a", **ASKABLE)) is askable
    assert await tested.get(call("b", **ASKABLE)) is not askable
    assert await tested.get(call("a", "another session", **ASKABLE)) is not askable
    await tested.close()


async def test_callers_who_come_together_open_one_way():
    opener = Opener()
    opener.gate.clear()
    tested = ConnectionPool("up", opener)
    waiting = [asyncio.create_task(tested.get(call())) for _ in range(10)]
    await asyncio.wait_for(opener.tried.wait(), PATIENCE)
    waiting[0].cancel()
    opener.gate.set()
    first, *others = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(first, asyncio.CancelledError)
    assert len({id(way) for way in others}) == 1
    assert opener.tries == 1
    await tested.close()


async def test_a_way_that_closed_is_opened_anew():
    opener = Opener()
    tested = ConnectionPool("up", opener)
    first: Any = await tested.get(call())
    first.closed = True
    assert await tested.get(call()) is not first
    await tested.close()


async def test_an_upstream_that_changed_its_era_is_followed():
    opener = Opener(LEGACY)
    tested = ConnectionPool("up", opener)
    first: Any = await tested.get(call(**ASKABLE))
    first.closed = True
    opener.version = MODERN
    second = await tested.get(call(**ASKABLE))
    assert await tested.get(call("b")) is second
    await tested.close()


async def test_after_a_failure_the_next_try_waits_a_little():
    opener = Opener(failures=1)
    tested = ConnectionPool("up", opener)
    with pytest.raises(NotReachedError, match="not yet"):
        await tested.get(call())
    await tested.get(call())
    first, second = opener.times
    assert second - first >= connection.FIRST_PAUSE * 0.5 * 0.9
    await tested.close()


async def test_ways_that_close_as_soon_as_they_are_open_are_not_opened_without_a_pause():
    class Fleeting(Opener):
        async def open(self, profile: ClientProfile) -> Any:
            way = await super().open(profile)
            way.closed = True
            return way

    opener = Fleeting()
    tested = ConnectionPool("up", opener)
    with pytest.raises((NotReachedError, TimeoutError)):
        async with asyncio.timeout(0.5):
            await tested.get(call())
    assert opener.tries < 20
    await tested.close()


def test_pauses_grow_with_jitter_up_to_a_bound():
    backoff = Backoff()
    assert backoff.pause == 0
    for number in range(40):
        backoff.failed()
        longest = min(connection.LONGEST_PAUSE, connection.FIRST_PAUSE * 2**number)
        assert longest * 0.5 * 0.9 <= backoff.pause <= longest
    backoff.reset()
    assert backoff.pause == 0


async def test_there_are_only_so_many_sessions_and_the_oldest_idle_one_makes_room():
    opener = Opener()
    tested = ConnectionPool("up", opener)
    for number in range(connection.MAX_CONNECTIONS):
        way: Any = await tested.get(call(str(number), **ASKABLE))
        way.busy = number == 0
    await tested.get(call("one more", **ASKABLE))
    await asyncio.sleep(0)
    assert [way.closed for way in opener.opened[:3]] == [False, True, False]
    for way in opener.opened:
        way.busy = not way.closed
    with pytest.raises(NotReachedError, match="sessions with it are busy"):
        await tested.get(call("and another", **ASKABLE))
    await tested.close()
    assert all(way.closed for way in opener.opened)


@pytest.mark.parametrize("tenants", [1, 200])
async def test_there_are_no_more_sessions_when_all_come_at_the_same_time(tenants: int):
    opener = Opener()
    tested = ConnectionPool("up", opener)
    await tested.get(call())  # it is known to be a legacy one
    calls = [call(f"tenant {number % tenants}", str(number), **ASKABLE) for number in range(200)]
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*map(tested.get, calls), return_exceptions=True)
        await asyncio.sleep(0)
    limit = connection.MAX_CONNECTIONS_EACH if tenants == 1 else connection.MAX_CONNECTIONS
    assert sum(not way.closed for way in opener.opened) <= limit + 1
    await tested.close()
    assert all(way.closed for way in opener.opened)


async def test_idle_sessions_are_let_go_but_for_the_latest(monkeypatch: pytest.MonkeyPatch):
    opener = Opener()
    tested = ConnectionPool("up", opener)
    for tenant in ("a", "b", "c"):
        await tested.get(call(tenant, **ASKABLE))
    opener.opened[1].busy = True
    tested.close_idle()
    await asyncio.sleep(0)
    assert not any(way.closed for way in opener.opened)
    monkeypatch.setattr(connection, "IDLE_SECONDS", -1.0)
    tested.close_idle()
    await asyncio.sleep(0)
    assert [way.closed for way in opener.opened] == [True, False, False]
    await tested.close()


async def test_closing_ends_what_is_being_opened_and_nothing_opens_afterwards():
    opener = Opener()
    opener.gate.clear()
    tested = ConnectionPool("up", opener)
    waiting = asyncio.create_task(tested.get(call()))
    await asyncio.wait_for(opener.tried.wait(), PATIENCE)
    await tested.close()
    with pytest.raises((asyncio.CancelledError, NotReachedError)):
        await waiting
    with pytest.raises(NotReachedError, match="unmounted"):
        await tested.get(call())
    assert opener.opened == []


async def test_a_reset_closes_all_and_the_next_gets_a_new_one():
    opener = Opener()
    tested = ConnectionPool("up", opener)
    first = await tested.get(call())
    await tested.reset()
    assert await tested.get(call()) is not first
    await tested.close()
    assert all(way.closed for way in opener.opened)


def test_a_profile_is_what_its_client_can_be_asked_and_whose_it_is():
    def profile(*client: str, **capabilities: Any) -> ClientProfile:
        return profile_of(call(client[0], **capabilities).caller, client[1])

    assert profile_of(GATEWAY_CALLER, "") is NO_CLIENT
    assert profile("a", "1", experimental={}, tasks={}) is NO_CLIENT
    first = profile("a", "1", elicitation={}, roots={})
    assert first == profile("a", "1", roots={}, elicitation={}, experimental={})
    assert first != profile("b", "1", elicitation={}, roots={})
    assert first != profile("a", "2", elicitation={}, roots={})
    assert first != profile("a", "1", elicitation={})
