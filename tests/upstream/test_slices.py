"""Long texts in slices: other callbacks run first, and one waiting task continues in each turn."""

import asyncio

from tests.serving import PATIENCE
from tests.turning import counting_turns
from toolyard.upstream.messages.slices import next_turn, slices


async def test_of_many_who_wait_one_goes_on_in_each_turn():
    went: list[int] = []
    async with counting_turns() as turns:

        async def work() -> None:
            for _ in range(3):
                await next_turn()
                went.append(turns.count)

        await asyncio.gather(*(work() for _ in range(4)))
    assert len(went) == len(set(went)) == 12


async def test_who_gives_up_waiting_holds_up_nobody():
    leaving = asyncio.create_task(next_turn())
    staying = asyncio.create_task(next_turn())
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.wait_for(staying, PATIENCE)
    await asyncio.wait_for(next_turn(), PATIENCE)


def test_slices_are_the_whole_in_order():
    assert list(slices(b"", 3)) == [b""]
    assert list(slices(b"abc", 3)) == [b"abc"]
    assert list(slices(b"abcdefgh", 3)) == [b"abc", b"def", b"gh"]
