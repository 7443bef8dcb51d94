"""Lines of a process on their way to whoever understands them: in order, and a few in each turn of the loop.

A process that writes a thousand lines at once has them taken in one after the other like anybody else; until
they are, no more is read from it.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from .lines import Line

LINES_PER_TURN = 20


class Intake:
    def __init__(
        self, take: Callable[[Line], None], pause: Callable[[], None], resume: Callable[[], None]
    ) -> None:
        """`pause` is called when there is more than enough, `resume` when it is done."""
        self._take = take
        self._pause = pause
        self._resume = resume
        self._waiting: deque[Line] = deque()

    def put(self, lines: list[Line]) -> None:
        if self._waiting:
            self._waiting.extend(lines)
            return
        for line in lines[:LINES_PER_TURN]:
            self._take(line)
        if len(lines) > LINES_PER_TURN:
            self._waiting.extend(lines[LINES_PER_TURN:])
            self._pause()
            asyncio.get_running_loop().call_soon(self._go_on)

    def finish(self) -> None:
        """Take in what is left: nothing will come after it."""
        while self._waiting:
            self._take(self._waiting.popleft())

    def _go_on(self) -> None:
        for _ in range(min(LINES_PER_TURN, len(self._waiting))):
            self._take(self._waiting.popleft())
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._go_on)
        else:
            self._resume()
