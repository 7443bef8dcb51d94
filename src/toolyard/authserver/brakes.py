"""What slows down strangers: a brake on guessing, and a bulkhead around work that they cause.

Owns how wrong passwords and secrets are counted, in the state store that replicas share, and how much may be
under way in this process at a time. What is guessed or done is in `users`, `server` and `documents`.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping
from typing import Literal

from ..edge.proxies import block_of
from ..state.store import State, WindowSpend

TRIES_WINDOW = 15 * 60.0
TRIES_OF_ADDRESS = 50
TRIES_OF_PAIR = 8
"""For one name from one address."""
TRIES_OF_NAME = 50
"""From all addresses together. Beyond these each address has only `SLOWED_TRIES_OF_PAIR` for this name."""
SLOWED_TRIES_OF_PAIR = 3
BUSY_SECONDS = 5.0
"""After how long somebody who was not admitted may ask again."""

Guessed = Literal["user", "client"]
"""What a name is of."""


class TooManyTriesError(Exception):
    """`wait` is in seconds."""

    def __init__(self, wait: float) -> None:
        super().__init__(f"too many wrong tries; wait {wait:.0f} seconds")
        self.wait = wait


class GuessBrake:
    """Counts tries of an address, of a name from an address, and of a name.

    The last never shuts anybody out: the owner of a password gets in from another address while somebody
    tries his own. Of IPv6 an address is a block of 64 bits. A try is counted before it is made, so that many
    at once gain nothing, and names that do not exist are counted like others.
    """

    def __init__(self, state: State, start: str) -> None:
        """`start` begins the keys of its counters."""
        self._state = state
        self._start = start

    async def count(self, address: str, name: str = "", what: Guessed = "user") -> None:
        """Count a try; it may be for no name. Raises TooManyTriesError."""
        spends = self._spends(address, name, what, 1, TRIES_OF_PAIR, TRIES_OF_NAME)
        outcome = await self._state.spend(spends)
        if [refused.position for refused in outcome.refused] == [_OF_NAME]:
            spends = self._spends(address, name, what, 1, SLOWED_TRIES_OF_PAIR, None)
            outcome = await self._state.spend(spends)
        if outcome.refused:
            raise TooManyTriesError(max(refused.wait for refused in outcome.refused))

    async def forgive(self, address: str, name: str = "", what: Guessed = "user") -> None:
        """Take back a try that was right."""
        await self._state.spend(self._spends(address, name, what, -1, None, None))

    def _spends(
        self, address: str, name: str, what: Guessed, amount: int, of_pair: int | None, of_name: int | None
    ) -> list[WindowSpend]:
        block = block_of(address)[:100]
        found = [self._spend(f"address:{block}", amount, None if amount < 0 else TRIES_OF_ADDRESS)]
        if name:
            # As a digest: names may be long, and some people type a password there.
            named = f"{what}:{hashlib.sha256(name.encode()).hexdigest()[:32]}"
            found.append(self._spend(f"pair:{named}:{block}", amount, of_pair))
            found.append(self._spend(named, amount, of_name))
        return found

    def _spend(self, key: str, amount: int, ceiling: int | None) -> WindowSpend:
        return WindowSpend(f"{self._start}:tries-{key}", amount, ceiling, TRIES_WINDOW)


_OF_NAME = 2
"""Its position among the spends."""


class BusyError(Exception):
    """Too much of this is under way."""


class Bulkhead:
    """Admits so much at a time, and of it a share for whoever has a name here. Nobody waits for a place."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._inside = 0
        self._of: Counter[str] = Counter()

    def enter(self, shares: Mapping[str, int]) -> None:
        """`shares` are the most for each name that it counts for. Raises BusyError."""
        if self._inside >= self._most or any(self._of[name] >= most for name, most in shares.items()):
            raise BusyError
        self._inside += 1
        self._of.update(shares.keys())

    def leave(self, shares: Mapping[str, int]) -> None:
        self._inside -= 1
        self._of.subtract(shares.keys())
        for name in shares:
            if not self._of[name]:
                del self._of[name]
