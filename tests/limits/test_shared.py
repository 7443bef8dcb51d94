"""Limits in a store that several processes share: exact, and not in the way while it is down."""

import asyncio
import logging
import sys
import time
from collections.abc import AsyncIterator, Sequence

import pytest

from tests.limits.replica import ANA, LEASE_SECONDS, ONE_AT_A_TIME, calls_in_a_window, passed, race
from tests.stores import PostgresServer, RedisServer
from tests.waiting import until
from toolyard.config.callers import LimitRule, LimitsConfig
from toolyard.limits import Limiter, LimitExceededError, LimitsUnavailableError
from toolyard.state import MemoryState, State, open_state
from toolyard.state.store import Spend, SpendResult
from toolyard.wire.call import Principal


@pytest.fixture
async def state(shared_url: str) -> AsyncIterator[State]:
    opened = open_state(shared_url, None)
    await _forget(opened)
    yield opened
    await opened.close()


async def _forget(state: State) -> None:
    for key in await state.keys("limits/"):
        await state.delete(key)


async def admitted(limiter: Limiter) -> bool:
    try:
        await limiter.admit(ANA, "notes", "add")
    except LimitExceededError:
        return False
    return True


async def test_three_replicas_give_what_one_would(shared_url: str, state: State) -> None:
    said = await race(shared_url, [400, 400, 400], 300)
    assert sum(said) == 300, said
    assert not await admitted(Limiter(calls_in_a_window(300), state, store_seconds=30))


async def test_the_slots_of_a_replica_that_was_killed_come_back(shared_url: str, state: State) -> None:
    command = [sys.executable, "-m", "tests.limits.replica", shared_url, "hold"]
    replica = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert replica.stdout is not None
    assert await replica.stdout.readline() == b"held\n"
    limiter = Limiter(ONE_AT_A_TIME, state, store_seconds=30)
    assert not await admitted(limiter)
    replica.kill()
    await replica.wait()

    async def free() -> bool:
        return await admitted(limiter)

    await until(free)
    await limiter.close()


async def test_a_call_that_takes_longer_than_a_lease_keeps_its_slot(state: State) -> None:
    first = Limiter(ONE_AT_A_TIME, state, store_seconds=30, lease_seconds=LEASE_SECONDS)
    second = Limiter(ONE_AT_A_TIME, state, store_seconds=30)
    running = await first.admit(ANA, "notes", "add")
    began = await state.counters("limits/")

    async def renewed_often() -> bool:
        assert not await admitted(second)
        now = await state.counters("limits/")
        return now.now - began.counters[0].until > LEASE_SECONDS

    await until(renewed_often)
    await running.finish(bytes=0, tokens=0, failed=False)
    assert await admitted(second)
    await second.close()
    assert await admitted(first), "what a limiter holds is free when it is closed"
    await first.close()


async def test_what_a_call_used_is_booked_for_all_replicas(state: State) -> None:
    config = LimitsConfig(rules=(LimitRule(name="both", tokens_a_month=100, concurrent=1),))
    first, second = (Limiter(config, state, store_seconds=30) for _ in range(2))
    admission = await first.admit(ANA, "notes", "add")
    await admission.finish(bytes=5, tokens=100, failed=False)
    with pytest.raises(LimitExceededError, match="100 tokens a month"):
        await second.admit(ANA, "notes", "add")
    await first.close()


@pytest.mark.parametrize("unavailable", ["open", "closed"])
async def test_while_the_store_is_down_calls_pass_or_not_as_configured_and_the_log_says_so_once(
    redis_server: RedisServer, unavailable: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "toolyard.limits")
    state = open_state(redis_server.url, None)
    await _forget(state)
    config = LimitsConfig(rules=(LimitRule(calls_a_month=3, concurrent=5),), unavailable=unavailable)  # pyright: ignore[reportArgumentType]
    limiter = Limiter(config, state, store_seconds=30, retry_seconds=0.05)
    before = await limiter.admit(ANA, "notes", "add")
    await asyncio.to_thread(redis_server.stop)
    try:
        await before.finish(bytes=1, tokens=1, failed=False)
        for _ in range(10):
            if unavailable == "open":
                admission = await limiter.admit(ANA, "notes", "add")
                await admission.finish(bytes=1, tokens=1, failed=False)
            else:
                with pytest.raises(LimitsUnavailableError, match="cannot count calls") as caught:
                    await limiter.admit(ANA, "notes", "add")
                assert caught.value.http_status == 503
                assert caught.value.http_headers == [(b"retry-after", b"1")]
                assert "redis" not in caught.value.message
    finally:
        await asyncio.to_thread(redis_server.start)

    async def counted_again() -> bool:
        try:
            await limiter.admit(ANA, "notes", "add")
        except LimitExceededError:
            return True
        except LimitsUnavailableError:
            pass
        return False

    await until(counted_again)
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert ("pass without limits" if unavailable == "open" else "are refused") in told[0]
    assert "redis://127.0.0.1" in told[0]
    assert told[1] == "calls are counted in the state store again"
    await limiter.close()
    await state.close()


class SlowStore(MemoryState):
    """Counts, and then does not answer: as a store does whose answer is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.counted = MemoryState()
        self.answers = asyncio.Event()

    async def spend(self, entries: Sequence[Spend]) -> SpendResult:
        result = await self.counted.spend(entries)
        await self.answers.wait()
        return result


class Remote:
    """A store that is not this process's memory."""

    def __init__(self, state: State) -> None:
        self.spend, self.counters, self.close = state.spend, state.counters, state.close
        self.get, self.put, self.swap = state.get, state.put, state.swap
        self.delete, self.keys = state.delete, state.keys


async def test_a_store_that_does_not_answer_holds_no_call_up() -> None:
    limiter = Limiter(ONE_AT_A_TIME, Remote(SlowStore()), store_seconds=0.01, retry_seconds=600)
    for _ in range(1000):
        with pytest.raises(LimitsUnavailableError):
            await limiter.admit(ANA, "notes", "add")
    await limiter.close()


class BusyStore(MemoryState):
    """Answers one question after the other, each after 5 ms."""

    def __init__(self) -> None:
        super().__init__()
        self._turn = asyncio.Lock()

    async def spend(self, entries: Sequence[Spend]) -> SpendResult:
        async with self._turn:
            await asyncio.sleep(0.005)
            return await super().spend(entries)


@pytest.mark.parametrize("unavailable", ["open", "closed"])
async def test_a_store_that_is_busy_is_not_taken_for_one_that_is_down(unavailable: str) -> None:
    """Otherwise many calls at once would switch off the limit that is there for them."""
    config = LimitsConfig(rules=(LimitRule(calls_a_month=50),), unavailable=unavailable)  # pyright: ignore[reportArgumentType]
    limiter = Limiter(config, Remote(BusyStore()), store_seconds=0.1)
    said = await asyncio.gather(*(admitted(limiter) for _ in range(100)))
    assert sum(said) == 50
    await limiter.close()


async def test_a_process_that_is_busy_itself_blames_no_store() -> None:
    config = LimitsConfig(rules=(LimitRule(calls_a_month=3),))
    limiter = Limiter(config, Remote(BusyStore()), store_seconds=0.05)
    stopped = False

    async def hog() -> None:
        while not stopped:
            time.sleep(0.06)  # noqa: ASYNC251  that is the point
            await asyncio.sleep(0)

    hogging = asyncio.create_task(hog())
    said = [await admitted(limiter) for _ in range(5)]
    stopped = True
    await hogging
    assert said == [True] * 3 + [False] * 2
    await limiter.close()


async def test_a_call_that_is_cancelled_while_it_is_counted_leaves_no_slot_behind() -> None:
    store = SlowStore()
    limiter = Limiter(ONE_AT_A_TIME, Remote(store), store_seconds=600)
    waiting = asyncio.create_task(limiter.admit(ANA, "notes", "add"))

    async def taken() -> bool:
        return bool((await store.counted.counters("")).counters)

    await until(taken)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    store.answers.set()

    async def free() -> bool:
        return not await taken()

    await until(free)
    admission = await limiter.admit(ANA, "notes", "add")
    await admission.finish(bytes=0, tokens=0, failed=False)
    await limiter.close()


async def test_a_replica_with_a_wrong_clock_gets_nothing_more(
    redis_server: RedisServer, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The window is that of the store's clock, so ours may say what it likes."""
    for server in (redis_server, postgres_server):
        state = open_state(server.url, None)
        await _forget(state)
        limiter = Limiter(
            LimitsConfig(rules=(LimitRule(calls_a_month=20, rate=0.0001, burst=20),)), state, store_seconds=30
        )
        assert await passed(limiter, 40) == 20
        with monkeypatch.context() as patched:
            for jump in (-1e9, 40 * 86400.0, 1e9):
                patched.setattr("time.time", lambda jump=jump: 1.8e9 + jump)
                assert await passed(limiter, 40) == 0
        await limiter.close()
        await state.close()


async def test_a_memory_that_is_full_refuses_or_admits_new_callers_and_counts_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    state = MemoryState(max_entries=1)
    config = LimitsConfig(rules=(LimitRule(calls_a_month=2),), unavailable="closed")
    limiter = Limiter(config, state)
    assert await admitted(limiter)
    for number in range(3):
        with pytest.raises(LimitsUnavailableError):
            await limiter.admit(Principal(subject=f"user {number}"), "notes", "add")
    assert [await admitted(limiter) for _ in range(3)] == [True, False, False]
    assert len([each for each in caplog.records if "full" in each.getMessage()]) == 1
