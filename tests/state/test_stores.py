"""What every store does, the same for all four."""

import asyncio

import pytest

from tests.waiting import until
from toolyard.state import State, StateError
from toolyard.state.store import MAX_KEY, MAX_VALUE, StateEntryError


async def test_what_is_put_is_read_until_it_is_deleted(state: State, mine: str) -> None:
    key = f"{mine}ação: 100% _*[a]?"
    assert await state.get(key) is None

    for value in (b"one", b"", b"\x00\xff\r\n", b"x" * MAX_VALUE):
        await state.put(key, value)
        assert await state.get(key) == value

    assert await state.delete(key) is True
    assert await state.delete(key) is False
    assert await state.get(key) is None


async def test_keys_are_found_by_their_beginning_to_the_letter(state: State, mine: str) -> None:
    names = ["a", "a%b", "a*b", "a[b]", "a\\b", "a_b", "ab", "aé", "a🙂", "b", "A"]
    for name in names:
        await state.put(mine + name, b"")

    assert await state.keys(mine) == sorted(mine + name for name in names)
    for name in names:
        expected = sorted(mine + each for each in names if each.startswith(name))
        assert await state.keys(mine + name) == expected
    assert await state.keys(f"{mine}nothing") == []


async def test_a_swap_is_done_only_where_the_old_value_is_what_is_expected(state: State, mine: str) -> None:
    key = f"{mine}key"
    assert not await state.swap(key, b"something", b"new")
    assert await state.swap(key, None, None)
    assert await state.swap(key, None, b"")
    assert not await state.swap(key, None, b"two"), "an empty value is not absence"
    assert not await state.swap(key, None, None)
    assert await state.swap(key, b"", b"two")
    assert not await state.swap(key, b"", b"three")
    assert not await state.swap(key, b"other", None)
    assert await state.get(key) == b"two"
    assert await state.swap(key, b"two", None)
    assert await state.get(key) is None


async def test_of_many_at_once_one_wins_and_no_change_is_lost(state: State, mine: str) -> None:
    tries = [state.swap(f"{mine}first", None, b"%d" % number) for number in range(20)]
    won = await asyncio.gather(*tries)
    assert won.count(True) == 1
    assert await state.get(f"{mine}first") == b"%d" % won.index(True)

    async def add_five() -> None:
        added = 0
        while added < 5:
            before = await state.get(f"{mine}sum")
            added += await state.swap(f"{mine}sum", before, b"%d" % (int(before or b"0") + 1))

    await asyncio.gather(*(add_five() for _ in range(8)))
    assert await state.get(f"{mine}sum") == b"40"


async def test_what_has_expired_is_absent_whatever_is_asked(state: State, mine: str) -> None:
    short, swapped, kept = f"{mine}short", f"{mine}swapped", f"{mine}kept"
    await state.put(kept, b"with a limit", 0.05)
    await state.put(kept, b"without one")
    await state.put(f"{mine}over", b"at once", 0.0)
    assert await state.swap(swapped, None, b"value", 0.05)
    await state.put(short, b"value", 0.05)

    async def gone() -> bool:
        return await state.get(short) is None and await state.get(swapped) is None

    await until(gone)
    assert await state.keys(mine) == [kept]
    assert not await state.swap(short, b"value", b"new")
    assert not await state.swap(swapped, b"value", None)
    assert await state.delete(short) is False
    assert await state.swap(short, None, b"again")
    assert await state.get(short) == b"again"


async def test_a_swap_sets_the_time_limit_anew(state: State, mine: str) -> None:
    longer, limited, other = f"{mine}longer", f"{mine}limited", f"{mine}other"

    async def lengthened() -> bool:
        await state.put(longer, b"value", 0.3)
        return await state.swap(longer, b"value", b"value", 600)

    # Again, should the machine have been too slow for the first limit.
    await until(lengthened)
    await state.put(limited, b"value")
    assert await state.swap(limited, b"value", b"value", 0.3)
    await state.put(other, b"value", 0.3)

    async def gone() -> bool:
        return await state.get(limited) is None and await state.get(other) is None

    await until(gone)
    assert await state.get(longer) == b"value"


async def test_keys_and_values_have_the_same_limits_everywhere(state: State, mine: str) -> None:
    longest = mine + "k" * (MAX_KEY - len(mine))
    await state.put(longest, b"value", 1e300)
    assert await state.get(longest) == b"value"

    for key, value in (("", b""), ("a\nb", b""), ("a\0", b""), (longest + "k", b""), ("é" * MAX_KEY, b"")):
        with pytest.raises(StateEntryError, match="printable text"):
            await state.put(key, value)
        with pytest.raises(StateEntryError):
            await state.get(key)
    with pytest.raises(StateError, match=str(MAX_VALUE)):
        await state.swap(f"{mine}big", None, b"x" * (MAX_VALUE + 1))
    assert await state.keys(f"{mine}big") == []
