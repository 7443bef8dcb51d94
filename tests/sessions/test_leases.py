"""A conversation's session at an upstream, within one process."""

import asyncio
import logging
from datetime import UTC, datetime

import pytest

from tests.sessions.remote import Remote
from tests.waiting import until
from toolyard.sessions import Leases, NewSession
from toolyard.state import MemoryState, State, open_state
from toolyard.upstream.errors import NotReachedError


async def test_without_a_remote_a_thread_has_one_local_session_until_it_is_dropped(state: State) -> None:
    leases = Leases(state, 600)
    assert await leases.peek("acme", "t1", "") is None
    lease = await leases.get("acme", "t1", "")

    shown = lease.shown()
    assert list(shown) == ["id", "ttl", "expires_at", "generated", "source"]
    assert lease.id.startswith("local-")
    assert lease.is_local
    assert (shown["ttl"], shown["generated"], shown["source"]) == (600, True, "local")
    left = datetime.fromisoformat(shown["expires_at"]) - datetime.now(UTC)
    assert 0 < left.total_seconds() <= 601

    assert await leases.get("acme", "t1", "") == lease
    assert await leases.peek("acme", "t1", "") == lease
    assert await Leases(state, 600).get("acme", "t1", "") == lease, "it is in the store, not in us"
    await leases.drop("acme", "t1", "")
    assert await leases.peek("acme", "t1", "") is None
    assert (await leases.get("acme", "t1", "")).id != lease.id


async def test_no_two_conversations_share_a_session_whatever_they_are_called(state: State) -> None:
    leases = Leases(state, 600)
    long = "x" * 500
    whose = [
        ("a", "b", "c"),
        ("a:b", "c", ""),
        ("a", "b:c", ""),
        ("", "a:b", "c"),
        ("a%3Ab", "c", ""),
        ("a", "", "b:c"),
        ("A", "b", "c"),
        ("á", "b", "c"),
        ("a", "b\n", "c"),
        ("a", f"{long}1", "c"),
        ("a", f"{long}2", "c"),
        ("a", "#" + "0" * 40, "c"),
    ]
    ids = [(await leases.get(*who)).id for who in whose]
    assert len(set(ids)) == len(whose)
    assert [(await leases.get(*who)).id for who in whose] == ids


async def test_a_remote_s_session_is_kept_with_what_belongs_to_it_and_shown_without(state: State) -> None:
    remote = Remote(ttl=60.0)
    lease = await Leases(state, 600).get("acme", "t1", "composio", remote.begin)
    again = await Leases(state, 600).get("acme", "t1", "composio", remote.begin)

    assert remote.begun == 1
    assert again == lease
    assert not lease.is_local
    assert (lease.id, lease.ttl, lease.source) == ("session-1", 60.0, "composio")
    assert again.detail == {"mcp_url": "https://secret.example"}
    assert "secret" not in repr(lease) + str(lease.shown())

    nameless = await Leases(state, 600).get("acme", "t1", "other", _gives(NewSession("abc", ttl=-1)))
    assert (nameless.ttl, nameless.source) == (600, "other")


async def test_an_expired_session_is_begun_anew(state: State) -> None:
    leases, remote = Leases(state, 600), Remote(ttl=0.05)
    assert (await leases.get("acme", "t1", "composio", remote.begin)).id == "session-1"

    async def another() -> bool:
        return (await leases.get("acme", "t1", "composio", remote.begin)).id != "session-1"

    await until(another)


@pytest.mark.parametrize(
    "answer",
    [
        None,
        NotReachedError("composio", "connection refused"),
        TimeoutError(),
        NewSession("a\r\nb"),
        NewSession(""),
    ],
)
async def test_a_remote_that_gives_none_is_asked_again_after_a_while(
    state: State, answer: NewSession | Exception | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    leases = Leases(state, 600, retry=0.2)
    remote = Remote()
    local = await leases.get("acme", "t1", "composio", _gives(answer))
    assert local.is_local
    assert ("no session at 'composio'" in caplog.text) == (answer is not None)

    # The same one, however often the remote fails, until it gives one.
    async def asked_again() -> bool:
        asked: list[bool] = []
        lease = await leases.get("acme", "t1", "composio", _gives(answer, asked))
        assert lease.id == local.id
        return bool(asked)

    await until(asked_again)

    async def given() -> bool:
        return (await leases.get("acme", "t1", "composio", remote.begin)).id == "session-1"

    await until(given)
    assert remote.begun == 1


async def test_while_a_remote_is_asked_again_the_others_go_on_with_the_local_session(state: State) -> None:
    leases, remote = Leases(state, 600, retry=0.0), Remote()
    local = await leases.get("acme", "t1", "composio", _gives(None))
    remote.going.clear()
    asking = asyncio.create_task(leases.get("acme", "t1", "composio", remote.begin))
    await remote.asked.wait()

    assert await leases.get("acme", "t1", "composio", remote.begin) == local
    assert await Leases(state, 600, retry=0.0).get("acme", "t1", "composio", remote.begin) == local
    remote.going.set()
    assert (await asking).id == "session-1"
    assert (await leases.get("acme", "t1", "composio", remote.begin)).id == "session-1"


async def test_many_who_come_at_once_get_one_session_even_when_the_first_goes_away(state: State) -> None:
    leases, remote = Leases(state, 600), Remote()
    remote.going.clear()
    first = asyncio.create_task(leases.get("acme", "t1", "composio", remote.begin))
    await remote.asked.wait()
    others = [asyncio.create_task(leases.get("acme", "t1", "composio", remote.begin)) for _ in range(20)]
    await asyncio.sleep(0)
    first.cancel()
    remote.going.set()

    assert {each.id for each in await asyncio.gather(*others)} == {"session-1"}
    assert remote.begun == 1


async def test_a_refused_session_is_renewed_once_however_many_were_refused(state: State) -> None:
    leases, remote = Leases(state, 600), Remote()
    old = await leases.get("acme", "t1", "composio", remote.begin)
    renewals = [leases.renew("acme", "t1", "composio", old.id, remote.begin) for _ in range(20)]
    assert {each.id for each in await asyncio.gather(*renewals)} == {"session-2"}

    # One whose call was under way all the time.
    late = await leases.renew("acme", "t1", "composio", old.id, remote.begin)
    assert late.id == "session-2"
    assert remote.begun == 2
    assert (await leases.renew("acme", "t1", "composio", "session-2", remote.begin)).id == "session-3"


async def test_a_session_that_cannot_be_renewed_becomes_local(state: State) -> None:
    leases, remote = Leases(state, 600), Remote()
    old = await leases.get("acme", "t1", "composio", remote.begin)
    remote.refusing = True
    renewed = [leases.renew("acme", "t1", "composio", old.id, remote.begin) for _ in range(5)]
    ids = {each.id for each in await asyncio.gather(*renewed)}
    assert len(ids) == 1
    assert ids.pop().startswith("local-")
    local = await leases.get("acme", "t2", "")
    assert (await leases.renew("acme", "t2", "", local.id, None)).id != local.id


async def test_a_fault_in_our_own_code_reaches_all_who_wait_and_leaves_nothing_behind(state: State) -> None:
    leases, remote = Leases(state, 600), Remote()

    async def broken() -> NewSession:
        raise LookupError("a bug")

    asked = [leases.get("acme", "t1", "composio", broken) for _ in range(3)]
    told = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(each) for each in told] == [LookupError] * 3
    assert (await leases.get("acme", "t1", "composio", remote.begin)).id == "session-1"


async def test_closing_ends_what_is_under_way(state: State) -> None:
    leases, remote = Leases(state, 600), Remote()
    remote.going.clear()
    waiting = asyncio.create_task(leases.get("acme", "t1", "composio", remote.begin))
    await remote.asked.wait()
    await leases.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await state.keys("") == [], "no claim is left behind"


async def test_a_store_that_is_away_fails_no_call_and_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    store = open_state("redis://:password@127.0.0.1:1/0", None)
    leases, remote = Leases(store, 600), Remote()
    local = await leases.get("acme", "t1", "")
    assert await leases.get("acme", "t1", "") == local
    begun = await leases.get("acme", "t1", "composio", remote.begin)
    assert (await leases.renew("acme", "t1", "composio", begun.id, remote.begin)).id == "session-2"
    await leases.drop("acme", "t1", "")
    assert await leases.peek("acme", "t1", "") is None
    told = [each.getMessage() for each in caplog.records if "for now" in each.getMessage()]
    assert len(told) == 1
    assert "127.0.0.1:1" in told[0]
    assert "password" not in caplog.text
    await store.close()


async def test_what_lies_in_the_store_and_cannot_be_read_is_replaced() -> None:
    state = MemoryState()
    await Leases(state, 600).get("acme", "t1", "composio", Remote("old").begin)
    for key in await state.keys("lease:"):
        await state.put(key, b"\xff{}", 600)
    leases, remote = Leases(state, 600), Remote("new")
    assert await leases.peek("acme", "t1", "composio") is None
    assert (await leases.get("acme", "t1", "composio", remote.begin)).id == "new-1"
    assert (await leases.peek("acme", "t1", "composio") or pytest.fail("nothing")).id == "new-1"


def _gives(answer: NewSession | Exception | None, asked: list[bool] | None = None):
    async def begin() -> NewSession | None:
        if asked is not None:
            asked.append(True)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return begin
