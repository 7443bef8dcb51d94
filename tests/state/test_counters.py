"""Counters: windows, buckets and slots, the same in all four stores, and exact however many ask at once."""

import asyncio
import random
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.state.spending import passed
from tests.stores import PostgresServer, RedisServer
from tests.waiting import until
from toolyard.state import MemoryState, State, open_state
from toolyard.state.memory import FallbackState
from toolyard.state.sqlite import SqliteState
from toolyard.state.store import (
    DAY,
    RateSpend,
    SlotSpend,
    Spend,
    SpendResult,
    StateEntryError,
    StateFullError,
    WindowSpend,
)

YEAR = 365 * DAY
LONG = 100 * YEAR
"""A window that does not end while a test runs."""


async def test_a_window_gives_as_much_as_its_ceiling_and_says_when_it_ends(state: State, mine: str) -> None:
    def calls(amount: int, ceiling: int | None = 10) -> WindowSpend:
        return WindowSpend(f"{mine}calls", amount, ceiling, LONG)

    assert await state.spend([calls(7)]) == SpendResult()
    refused = (await state.spend([calls(4)])).refused
    assert [each.position for each in refused] == [0]
    assert refused[0].free_at % LONG == 0
    assert 0 < refused[0].wait <= LONG

    assert not (await state.spend([calls(3)])).refused, "what was refused was not counted"
    assert (await state.spend([calls(0)])).refused, "nothing is left"
    assert not (await state.spend([calls(-1, None)])).refused
    assert not (await state.spend([calls(0)])).refused
    assert not (await state.spend([calls(50, None)])).refused
    assert (await state.counters(mine)).counters[0].used == 59
    await state.spend([calls(-100, None)])
    assert (await state.counters(mine)).counters[0].used == 0


async def test_days_and_months_end_with_those_of_the_calendar_in_utc(state: State, mine: str) -> None:
    asked = [WindowSpend(f"{mine}d", 1, 0, DAY), WindowSpend(f"{mine}m", 1, 0, "month")]
    day, month = (await state.spend(asked)).refused
    assert day.free_at % DAY == 0
    assert 0 < day.wait <= DAY
    ends = datetime.fromtimestamp(month.free_at, UTC)
    assert (ends.day, ends.hour, ends.minute, ends.second, ends.microsecond) == (1, 0, 0, 0, 0)
    assert 0 < month.wait <= 31 * DAY


async def test_a_window_that_is_over_begins_anew(state: State, mine: str) -> None:
    async def begun() -> bool:
        return not (await state.spend([WindowSpend(f"{mine}short", 2, 2, 0.2)])).refused

    await until(begun)
    await until(begun)
    await until(begun)


async def test_a_bucket_gives_its_burst_and_then_its_rate(state: State, mine: str) -> None:
    slow = RateSpend(f"{mine}slow", 0.001, 3)
    given = [await state.spend([slow]) for _ in range(4)]
    assert [bool(each.refused) for each in given] == [False, False, False, True]
    assert 900 < given[3].refused[0].wait <= 1000

    fast = RateSpend(f"{mine}fast", 50, 1)
    assert not (await state.spend([fast])).refused

    async def filled() -> bool:
        return not (await state.spend([fast])).refused

    await until(filled)


async def test_slots_are_taken_renewed_freed_and_come_back_when_nobody_renews_them(
    state: State, mine: str
) -> None:
    key = f"{mine}slots"

    async def take(lease: str, ttl: float = 600) -> bool:
        return not (await state.spend([SlotSpend(key, (lease,), 2, ttl)])).refused

    assert await take("a")
    assert await take("b")
    assert not await take("c")
    assert await take("b"), "a lease that is held is renewed"
    assert (await state.counters(key)).counters[0].used == 2
    await state.spend([SlotSpend(key, ("a", "never-held"), None, 0)])
    assert await take("c", ttl=0.05)
    await state.spend([SlotSpend(key, ("b", "forced", "another"), None, 600)])
    assert not await take("d")
    await state.spend([SlotSpend(key, ("b", "forced"), None, 0)])

    async def back() -> bool:
        return await take("d")

    await until(back)
    await state.spend([SlotSpend(key, ("d", "another"), None, 0)])
    assert not (await state.counters(key)).counters


async def test_all_of_it_is_done_or_nothing(state: State, mine: str) -> None:
    wide = WindowSpend(f"{mine}wide", 1, 100, LONG)
    narrow = WindowSpend(f"{mine}narrow", 1, 1, LONG)
    bucket = RateSpend(f"{mine}bucket", 0.001, 5)
    slot = SlotSpend(f"{mine}slot", ("lease",), 5, 600)
    assert not (await state.spend([wide, narrow, bucket, slot])).refused
    for _ in range(20):
        refused = (await state.spend([slot, bucket, narrow, wide])).refused
        assert [each.position for each in refused] == [2]
    found = {each.key.removeprefix(mine): each.used for each in (await state.counters(mine)).counters}
    assert found == {"wide": 1, "narrow": 1, "bucket": 0, "slot": 1}
    assert not (await state.spend([wide, *[bucket]])).refused
    assert await state.spend([]) == SpendResult()


async def test_readings_say_when_a_bucket_is_full_again_by_the_clock_of_the_store(
    state: State, mine: str
) -> None:
    for _ in range(3):
        await state.spend([RateSpend(f"{mine}bucket", 0.01, 5)])
    await state.put(f"{mine}entry", b"no counter")
    found = await state.counters(mine)
    assert [each.key for each in found.counters] == [f"{mine}bucket"]
    assert 290 < found.counters[0].until - found.now <= 300


async def test_many_at_once_get_exactly_what_there_is(state: State, mine: str) -> None:
    """The counters are new, which is when two could both believe to be the first."""
    asked = [
        WindowSpend(f"{mine}b", 1, 30, LONG),
        WindowSpend(f"{mine}a", 1, 1000, "month"),
        RateSpend(f"{mine}c", 0.001, 50),
    ]
    assert await passed(state, asked, 120) == 30
    used = {each.key.removeprefix(mine): each.used for each in (await state.counters(mine)).counters}
    assert used == {"a": 30, "b": 30, "c": 0}


@pytest.mark.parametrize("seed", range(3))
async def test_every_store_decides_as_memory_does(state: State, mine: str, seed: int) -> None:
    """Nothing ends while it runs, so the clocks of the stores do not matter."""
    memory, chance = MemoryState(), random.Random(seed)
    leases = [f"lease-{number}" for number in range(6)]
    for step in range(80):
        entries: list[Spend] = []
        for key in chance.sample("abcdef", chance.randint(1, 4)):
            if key in "ab":
                amount, ceiling = chance.randint(-5, 20), chance.choice([None, 0, 40, 100])
                entries.append(WindowSpend(mine + key, amount, ceiling, LONG))
            elif key in "cd":
                entries.append(RateSpend(mine + key, 1e-6, chance.choice([5, 20])))
            else:
                some = tuple(chance.sample(leases, chance.randint(1, 3)))
                ceiling, ttl = chance.choice([None, 3, 4]), chance.choice([0.0, 0.0, 6000.0])
                entries.append(SlotSpend(mine + key, some, ceiling, ttl))
        expected, got = await memory.spend(entries), await state.spend(entries)
        told = f"step {step}: {entries}"
        assert [each.position for each in got.refused] == [each.position for each in expected.refused], told
        used = [(each.key, each.used) for each in (await memory.counters(mine)).counters]
        assert [(each.key, each.used) for each in (await state.counters(mine)).counters] == used, told


@pytest.mark.parametrize("kind", ["sqlite", "redis", "postgres"])
async def test_three_processes_get_exactly_what_there_is(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, mine: str
) -> None:
    url = f"sqlite://{tmp_path}/shared.db"
    if kind != "sqlite":
        url = request.getfixturevalue(f"{kind}_server").url
    command = [sys.executable, "-m", "tests.state.spending", url, mine, "400", "300"]
    running = [
        await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE) for _ in range(3)
    ]
    said = [(await each.communicate())[0] for each in running]
    assert sum(map(int, said)) == 300


async def test_amounts_that_make_no_sense_break_no_store(state: State, mine: str) -> None:
    slow = RateSpend(f"{mine}slow", 1e-300, 10**12)
    fast = RateSpend(f"{mine}fast", 1e300, 1)
    endless = WindowSpend(f"{mine}endless", 1, 2**53, 1e300)
    short = WindowSpend(f"{mine}short", 1, 2**53, 1e-300)
    for entries in ([slow], [fast, endless], [short]):
        assert not (await state.spend(entries)).refused
    assert (await state.spend([slow])).refused[0].wait <= LONG


def test_a_key_has_the_limits_of_every_key() -> None:
    with pytest.raises(StateEntryError):
        WindowSpend("", 1, 1, DAY)
    with pytest.raises(StateEntryError):
        RateSpend("a\nb", 1, 1)
    with pytest.raises(StateEntryError):
        SlotSpend("k" * 2000, ("lease",), 1, 1)


async def test_after_a_restart_of_the_server_counting_goes_on(
    server: RedisServer | PostgresServer, mine: str
) -> None:
    state = open_state(server.url, None)
    asked = [WindowSpend(f"{mine}calls", 1, 2, LONG)]
    assert not (await state.spend(asked)).refused
    await asyncio.to_thread(server.restart)
    assert not (await state.spend(asked)).refused
    assert (await state.spend(asked)).refused
    await state.close()


async def test_while_a_store_is_away_the_fallback_counts_for_itself(
    redis_server: RedisServer, mine: str
) -> None:
    store = open_state(redis_server.url, None)
    fallback = FallbackState(store, "counters", retry_seconds=0.05)
    asked = [WindowSpend(f"{mine}calls", 1, 1, LONG)]
    assert not (await fallback.spend(asked)).refused
    await asyncio.to_thread(redis_server.stop)
    try:
        assert not (await fallback.spend(asked)).refused
        assert (await fallback.spend(asked)).refused
        assert (await fallback.counters(mine)).counters[0].used == 1
    finally:
        await asyncio.to_thread(redis_server.start)
    await fallback.close()
    await store.close()


class Clock:
    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


NOON = datetime(2027, 2, 27, 12, tzinfo=UTC).timestamp()


@pytest.fixture(params=["memory", "sqlite"])
def clock_and_state(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Clock, State]:
    clock = Clock(NOON)
    if request.param == "memory":
        return clock, MemoryState(clock=clock)
    return clock, SqliteState(tmp_path / "state.db", clock)


async def given(state: State, asked: WindowSpend | RateSpend, times: int = 30) -> int:
    return sum([not (await state.spend([asked])).refused for _ in range(times)])


async def test_a_clock_that_goes_back_gives_nothing_more(clock_and_state: tuple[Clock, State]) -> None:
    clock, state = clock_and_state
    day, month = WindowSpend("day", 1, 10, DAY), WindowSpend("month", 1, 10, "month")
    rate = RateSpend("rate", 1, 10)
    for asked in (day, month, rate):
        assert await given(state, asked) == 10
    for jump in (1, 3600, DAY, 40 * DAY, 3 * YEAR):
        clock.now = NOON - jump
        for asked in (day, month, rate):
            assert await given(state, asked) == 0, (asked.key, jump)
    await state.close()


async def test_a_clock_that_was_ahead_gives_nothing_on_its_way_back_and_nobody_waits_for_that_day(
    clock_and_state: tuple[Clock, State],
) -> None:
    clock, state = clock_and_state
    day, rate = WindowSpend("day", 1, 10, DAY), RateSpend("rate", 1, 10)
    clock.now = NOON + 400 * DAY
    assert await given(state, day) == await given(state, rate) == 10
    clock.now = NOON
    assert await given(state, day) == await given(state, rate) == 0
    clock.now = NOON + 5
    assert await given(state, rate) == 5
    clock.now = NOON + DAY
    assert await given(state, day) == await given(state, rate) == 10
    await state.close()


async def test_a_server_whose_clock_was_ahead_gives_nothing_on_its_way_back_and_heals(
    server: RedisServer | PostgresServer, mine: str
) -> None:
    """Its clock cannot be set, so the counters are left as such a clock leaves them."""
    state = open_state(server.url, None)
    ahead = (await state.counters(mine)).now + 400 * DAY
    await state.put(f"{mine}window", b"w 10 %d" % (ahead * 1e6), YEAR)
    await state.put(f"{mine}rate", b"r %d" % (ahead * 1e6), YEAR)
    window, rate = WindowSpend(f"{mine}window", 1, 10, 1.0), RateSpend(f"{mine}rate", 5, 1)
    for asked, longest in ((window, 1.0), (rate, 0.2)):
        refused = (await state.spend([asked])).refused
        assert 0 < refused[0].wait <= longest

    async def healed() -> bool:
        return not (await state.spend([window, rate])).refused

    await until(healed)
    await state.close()


async def test_a_month_is_as_long_as_the_calendar_says(clock_and_state: tuple[Clock, State]) -> None:
    clock, state = clock_and_state
    asked = [WindowSpend("month", 1, 1, "month")]
    for begins, ends in (((2027, 2), (2027, 3)), ((2027, 12), (2028, 1)), ((2028, 2), (2028, 3))):
        first = datetime(*begins, 1, tzinfo=UTC).timestamp()
        last = datetime(*ends, 1, tzinfo=UTC).timestamp()
        clock.now = first
        assert not (await state.spend(asked)).refused
        clock.now = last - 0.001
        assert (await state.spend(asked)).refused[0].free_at == last
    await state.close()


async def test_a_full_memory_drops_counters_that_are_over_and_refuses_new_ones() -> None:
    clock = Clock(NOON)
    state = MemoryState(max_entries=3, clock=clock)
    for name in ("a", "b"):
        await state.spend([WindowSpend(name, 1, 1, 60.0)])
    await state.spend([WindowSpend("c", 1, 1, DAY)])
    with pytest.raises(StateFullError):
        await state.spend([WindowSpend("c", 1, None, DAY), WindowSpend("d", 1, 1, DAY)])
    assert (await state.counters("c")).counters[0].used == 1
    clock.now += 61
    await state.spend([WindowSpend("d", 1, 1, DAY)])
    assert [each.key for each in (await state.counters("")).counters] == ["c", "d"]
