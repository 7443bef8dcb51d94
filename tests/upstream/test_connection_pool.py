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
    PROCESSES,
    SESSIONS,
    Backoff,
    ChangeWatcher,
    ClientProfile,
    ConnectionPool,
    LegacySessionState,
    Params,
    RawResult,
    RequestListener,
    Room,
    UpstreamConnection,
    UpstreamInfo,
    profile_of,
)
from toolyard.upstream.errors import NotReachedError
from toolyard.wire.call import NO_CHANNEL, Call, Caller, Identity, LegacySession, Principal
from toolyard.wire.messages import Id
from toolyard.wire.versions import Era

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
        as_id: Id | None = None,
    ) -> RawResult:
        return Raw(b"{}")

    async def notify(self, method: str, params: Params) -> None:
        return None

    def watch(self, watcher: ChangeWatcher) -> None:
        return None

    def unwatch(self, watcher: ChangeWatcher) -> None:
        return None

    def adopt(self, listener: RequestListener | None) -> None:
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

    async def open(self, profile: ClientProfile, era: Era | None = None) -> Any:
        self.tries += 1
        self.times.append(asyncio.get_running_loop().time())
        self.tried.set()
        await self.gate.wait()
        if self.failures:
            self.failures -= 1
            raise NotReachedError("up", "not yet")
        self.opened.append(FakeConnection(profile, self.version))
        return self.opened[-1]

    async def denies_modern(self, connection: UpstreamConnection) -> bool:
        return self.version == LEGACY


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
        async def open(self, profile: ClientProfile, era: Era | None = None) -> Any:
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
    for number in range(PROCESSES.most):
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
    limit = PROCESSES.each if tenants == 1 else PROCESSES.most
    assert sum(not way.closed for way in opener.opened) <= limit + 1
    await tested.close()
    assert all(way.closed for way in opener.opened)


@pytest.mark.parametrize(("idle", "closed"), [(300.0, [False, False, False]), (-1.0, [True, False, False])])
async def test_idle_sessions_are_let_go_but_for_the_latest(idle: float, closed: list[bool]):
    opener = Opener()
    tested = ConnectionPool("up", opener, room=Room(64, 16, idle))
    for tenant in ("a", "b", "c"):
        await tested.get(call(tenant, **ASKABLE))
    opener.opened[1].busy = True
    tested.close_idle()
    await asyncio.sleep(0)
    assert [way.closed for way in opener.opened] == closed
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
        return profile_of(call(client[0], **capabilities).caller, LegacySession(client[1]))

    assert profile_of(GATEWAY_CALLER, None) is NO_CLIENT
    assert profile("a", "1", experimental={}, tasks={}) is NO_CLIENT
    first = profile("a", "1", elicitation={}, roots={})
    assert first == profile("a", "1", roots={}, elicitation={}, experimental={})
    assert first != profile("b", "1", elicitation={}, roots={})
    assert first != profile("a", "2", elicitation={}, roots={})
    assert first != profile("a", "1", elicitation={})


def test_a_session_of_a_clients_own_has_all_that_the_client_says_of_itself():
    asked = call("a", "1", experimental={"x": {}})
    own = profile_of(asked.caller, asked.session, own_sessions=True)
    assert own.is_own
    assert b"experimental" in own.capabilities
    assert own.version == LEGACY
    assert own != profile_of(asked.caller, LegacySession("2"), own_sessions=True)
    for other in (LegacySession("1", lasts=False), None):  # nothing more can come in it
        assert profile_of(asked.caller, other, own_sessions=True) is NO_CLIENT
    modern = call("a", version=MODERN)
    assert profile_of(modern.caller, modern.session, own_sessions=True) is NO_CLIENT


class Both(Opener):
    """An upstream of both eras, or of one."""

    def __init__(self, *eras: Era, denies: bool = False) -> None:
        super().__init__()
        self.eras = eras
        self.denies = denies

    async def open(self, profile: ClientProfile, era: Era | None = None) -> Any:
        spoken = era if era in self.eras else self.eras[0]
        self.version = MODERN if spoken == "modern" else LEGACY
        return await super().open(profile, era)

    async def denies_modern(self, connection: UpstreamConnection) -> bool:
        return self.denies


@pytest.mark.parametrize("together", [False, True])
async def test_an_upstream_of_both_eras_is_spoken_to_in_its_callers(together: bool):
    opener = Both("modern", "legacy")
    tested = ConnectionPool("up", opener)
    calls = [call("a"), call("b", version=MODERN), call("c"), call("d", version=MODERN)]
    if together:
        found: list[Any] = list(await asyncio.gather(*map(tested.get, calls)))
    else:
        found = [await tested.get(one) for one in calls]
    assert [one.about.era for one in found] == ["legacy", "modern", "legacy", "modern"]
    assert (found[0], found[1]) == (found[2], found[3])
    assert sum(not one.closed for one in opener.opened) == 2
    await tested.close()


@pytest.mark.parametrize(("has", "lacks"), [("modern", LEGACY), ("legacy", MODERN)])
async def test_an_era_that_an_upstream_lacks_is_asked_for_once(has: Era, lacks: str):
    opener = Both(has, denies=True)
    tested = ConnectionPool("up", opener)
    first = await tested.get(call("a", version=lacks))
    assert await tested.get(call("b", version=lacks)) is first
    assert await tested.get(call("b", version=LEGACY if lacks == MODERN else MODERN)) is first
    assert len(opener.opened) == 1
    await tested.close()


@pytest.mark.parametrize("has", ["legacy", "modern"])
async def test_callers_of_both_eras_who_come_together_after_a_failure_get_the_one_era_there_is(has: Era):
    """What was known of its eras is forgotten at the failure, so each of them opens one, and one stays."""
    version = MODERN if has == "modern" else LEGACY
    opener = Opener(version)
    tested = ConnectionPool("up", opener)
    await tested.get(call(version=version))
    opener.opened[0].closed = True
    opener.failures = 1
    with pytest.raises(NotReachedError):
        await tested.get(call(version=version))

    opener.gate.clear()
    tries = opener.tries
    callers = [asyncio.create_task(tested.get(call(version=era))) for era in (MODERN, LEGACY)]
    async with asyncio.timeout(PATIENCE):
        while opener.tries < tries + 2:
            opener.tried.clear()
            await opener.tried.wait()
    opener.gate.set()
    got = await asyncio.gather(*callers)

    assert got[0] is got[1]
    assert [one for one in opener.opened if not one.closed] == [got[0]]
    assert tested.starting() is None
    await tested.close()


async def test_all_callers_are_served_in_the_modern_era_where_that_is_wished():
    opener = Both("modern", "legacy")
    tested = ConnectionPool("up", opener, modern_first=True)
    assert (await tested.get(call("a", **ASKABLE))).about.era == "modern"
    assert await tested.any() is await tested.get(call("b", version=MODERN))
    assert len(opener.opened) == 1
    await tested.close()


async def test_the_gateway_never_asks_in_a_session_that_is_a_clients_own():
    opener = Both("legacy")
    tested = ConnectionPool("up", opener, room=SESSIONS, own_sessions=True)
    theirs = await tested.get(call("a"))
    assert await tested.any() is not theirs
    assert await tested.get(call("a")) is theirs
    tested.end_session(call("a"))
    await asyncio.sleep(0)
    assert [one.closed for one in opener.opened] == [True, False]
    await tested.close()
