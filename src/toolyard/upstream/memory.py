"""How much memory the children of one event loop use: one timer for all of them."""

import asyncio
from collections.abc import Callable
from weakref import WeakKeyDictionary

from . import groups
from .groups import Entry
from .guardian import guardian
from .spool import in_words

PERIOD = 2.0

_watches: "WeakKeyDictionary[asyncio.AbstractEventLoop, Watch]" = WeakKeyDictionary()


def watch() -> "Watch":
    """The one of the running loop."""
    loop = asyncio.get_running_loop()
    found = _watches.get(loop)
    if found is None:
        found = _watches[loop] = Watch()
    return found


class Watch:
    """Looks every other second while there is anything to look at."""

    def __init__(self) -> None:
        self._limits: dict[int, tuple[int, Callable[[str], None]]] = {}
        self._task: asyncio.Task[None] | None = None
        self._counting = asyncio.Lock()
        self._counted_at = 0.0
        self._sessions: dict[int, list[Entry]] = {}

    def add(self, group: int, limit: int, on_over: Callable[[str], None]) -> None:
        """`on_over` is called with the reason when the group uses more than `limit` bytes."""
        self._limits[group] = (limit, on_over)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="toolyard memory watch")

    def remove(self, group: int) -> None:
        self._limits.pop(group, None)
        if not self._limits and self._task is not None:
            self._task.cancel()
            self._task = None

    async def census(self) -> dict[int, list[Entry]]:
        """Who is alive, by session. Many who ask at once share a count that began after they asked."""
        asked = asyncio.get_running_loop().time()
        async with self._counting:
            if self._counted_at <= asked:
                began = asyncio.get_running_loop().time()
                self._sessions = await asyncio.to_thread(groups.census)
                self._counted_at = began
            return self._sessions

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(PERIOD)
            guardian.check()
            sessions = await self.census()
            for group, (limit, on_over) in list(self._limits.items()):
                used = sum(memory for _, _, memory in sessions.get(group, ()))
                if used > limit:
                    on_over(f"used {in_words(used)} of memory, over its limit of {in_words(limit)}")
