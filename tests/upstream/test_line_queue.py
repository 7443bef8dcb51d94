"""A flood of lines is delivered in order, and a limited number in each turn."""

import asyncio

from tests.turning import counting_turns
from toolyard.upstream.stdio.process import LINES_PER_TURN, LineQueue, OutputLine


class Reader:
    """What takes lines, and the channel they come from."""

    def __init__(self) -> None:
        self.taken: list[OutputLine] = []
        self.paused = 0
        self.resumed = asyncio.Event()
        self.intake = LineQueue(self.taken.append, self._pause, self.resumed.set)

    def _pause(self) -> None:
        self.paused += 1


FLOOD: list[OutputLine] = [b"%d" % number for number in range(50 * LINES_PER_TURN)]


async def test_a_few_lines_are_taken_in_at_once():
    reader = Reader()
    reader.intake.put([b"one", b"two"])
    assert reader.taken == [b"one", b"two"]
    assert not reader.paused


async def test_a_flood_is_taken_in_turn_by_turn_and_no_more_is_read_meanwhile():
    reader = Reader()
    async with counting_turns() as turns:
        reader.intake.put(FLOOD)
        assert reader.taken == FLOOD[:LINES_PER_TURN]
        assert reader.paused == 1
        reader.intake.put([b"more"])
        await reader.resumed.wait()
    assert reader.taken == [*FLOOD, b"more"]
    assert turns.count >= len(FLOOD) // LINES_PER_TURN - 1


async def test_what_is_left_at_the_end_is_taken_in():
    reader = Reader()
    reader.intake.put(FLOOD)
    reader.intake.finish()
    assert reader.taken == FLOOD
