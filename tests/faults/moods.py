"""What a misbehaving upstream does, and how a test tells it to: one word in a file, read at every message.

A file, because it works the same for a process on stdio that dies and is started anew, for one on HTTP and
for a server inside the gateway. Owns the words and what each does to which request; how it is done on a
transport is in `over_http.py`, `over_stdio.py` and `inside.py`.
"""

from pathlib import Path

WELL = "well"
EVERYTHING = frozenset[str]()
CALLS = frozenset({"tools/call"})
LISTS = frozenset({"tools/list"})

MOODS: dict[str, tuple[frozenset[str], str]] = {
    # dead: the process ends and does not come up again; on HTTP, connections are refused
    "dead": (EVERYTHING, "die"),
    # hanging
    "hang": (EVERYTHING, "hang"),
    "hang-list": (LISTS, "hang"),
    "hang-call": (CALLS, "hang"),
    # slow
    "slow": (CALLS, "late"),
    "drip": (CALLS, "drip"),
    # garbage
    "not-json": (EVERYTHING, "not-json"),
    "not-rpc": (EVERYTHING, "not-rpc"),
    "wrong-id": (EVERYTHING, "wrong-id"),
    "cut": (EVERYTHING, "cut"),
    "binary": (EVERYTHING, "binary"),
    "html": (EVERYTHING, "html"),
    "twice": (CALLS, "twice"),
    # restarting: dies in the middle of each call, and comes back; or of one call, and is well after it
    "dies": (CALLS, "die"),
    "dies-once": (CALLS, "die-once"),
    # flapping
    "flood": (LISTS, "another-list"),
    "endless-list": (LISTS, "endless-list"),
    "huge-list": (LISTS, "huge-list"),
    # hungry
    "big": (CALLS, "big"),
    "endless-reply": (CALLS, "endless-reply"),
    "eats": (CALLS, "eat"),
    # what the author of a server in our own process may do: `inside.py`
    "raises": (CALLS, "raise"),
    "no-value": (CALLS, "no-value"),
    "no-text": (CALLS, "no-text"),
    "misfit": (CALLS, "misfit"),
    "cancels": (CALLS, "cancel"),
    "exits": (CALLS, "exit"),
    "closes": (CALLS, "close"),
}
ONLY_INSIDE = frozenset({"raises", "no-value", "no-text", "misfit", "cancels", "exits", "closes"})


def tells(mood: str) -> bool:
    """Whether a server that gets into this mood says that its list has changed, so that it is asked for."""
    return MOODS.get(mood, (CALLS, None))[0] == LISTS


LATE_S = 0.7
DRIP_S = 0.02
BIG = 100 * 2**20
FLOOD_S = 0.002
"""Between two change notifications of a flood."""
EATEN = 600 * 2**20
"""Where a memory-hungry process stops of its own accord, for the sake of the machine under the tests."""


class Mood:
    """The word of one upstream."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def now(self) -> str:
        try:
            return self._path.read_text().strip() or WELL
        except FileNotFoundError:
            return WELL

    def become(self, mood: str) -> None:
        assert mood == WELL or mood in MOODS, mood
        # In one step, so that nobody reads half a word.
        fresh = self._path.with_suffix(".fresh")
        fresh.write_text(mood)
        fresh.replace(self._path)

    def does(self, method: str) -> str | None:
        """What happens to a request of this method, or None when it is answered as it should be."""
        methods, action = MOODS.get(self.now(), (CALLS, None))
        return action if not methods or method in methods else None


class Journal:
    """What reached an upstream, one line each, over all its lives; tests count in it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def note(self, line: str) -> None:
        with self._path.open("a") as file:
            file.write(line + "\n")

    def lines(self) -> list[str]:
        return self._path.read_text().splitlines() if self._path.exists() else []

    def count(self, line: str) -> int:
        return self.lines().count(line)
