"""What outlives a request: the state, the sessions and profiles in it, and the store of whole results."""

import asyncio
import logging
import sqlite3
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from ..artifacts.links import Links
from ..artifacts.opening import open_store
from ..artifacts.store import StoreError
from ..config import Config
from ..config.places import identity_of
from ..sessions.ciphers import cipher_for
from ..sessions.leases import Leases
from ..sessions.profiles import Profiles
from ..state.address import kind_of
from ..state.errors import StateError
from ..state.opening import open_state
from ..telemetry.ledger import Ledger
from ..telemetry.masking import masked
from ..upstream.errors import MAX_REASON
from ..wire.seal import Sealer
from .finishing import to_the_end

logger = logging.getLogger("toolyard.app")

SWEEP_SECONDS = 600.0
COUNT_SECONDS = 10.0
CHECK_SECONDS = 2.0
"""How long somebody who asks how we are waits for a store to answer."""
CHECKED_SECONDS = 5.0
"""How long what was found then counts."""
NEVER_GIVEN = "0" * 32


class Place:
    """Where something is kept outside of this process, and whether it answers.

    Asked for by whoever looks at /health, however many do: one question at a time, and not too often.
    """

    def __init__(self, kind: str, ask: Callable[[], Awaitable[object]]) -> None:
        self.kind = kind
        self._ask = ask
        self._asking: asyncio.Task[None] | None = None
        self._asked_at: float | None = None
        self._fault: str | None = None

    def shown(self) -> dict[str, str]:
        state = "unknown" if self._asked_at is None else "up" if self._fault is None else "down"
        reason = {} if self._fault is None else {"reason": masked(self._fault)[:MAX_REASON]}
        return {"kind": self.kind, "state": state, **reason}

    async def check(self) -> None:
        if self._asked_at is not None and time.monotonic() - self._asked_at < CHECKED_SECONDS:
            return
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._look())
        await asyncio.wait({self._asking}, timeout=CHECK_SECONDS)
        if not self._asking.done():
            self._found(f"it gave no answer within {CHECK_SECONDS:g} s")

    async def _look(self) -> None:
        try:
            await self._ask()
        except (StateError, StoreError, OSError) as error:
            self._found(getattr(error, "message", "") or getattr(error, "reason", "") or str(error))
        except Exception as error:  # a look must not end with one that nobody foresaw
            logger.error("looking whether %s answers failed", self.kind, exc_info=error)
            self._found("something unforeseen happened; the log has the details")
        else:
            self._found(None)

    def _found(self, fault: str | None) -> None:
        self._fault, self._asked_at = fault, time.monotonic()

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)


class Keeping:
    def __init__(self, config: Config, folder: Path | None, sealer: Sealer) -> None:
        self.state = open_state(config.state.url, folder)
        self.leases = Leases(self.state, config.state.session_ttl)
        self.profiles = Profiles(self.state, cipher_for(config.state.key, config.state.url, folder))
        self.links = Links(sealer, config.store.public_url or config.gateway.public_url)
        self.store = open_store(config.store, folder, self.links)
        self.ledger = Ledger(folder, identity_of(config))
        self._in_use = config.results.shape
        """Where results pass as they are, there is nothing to store and nothing to count."""
        self.places = {"state": Place(kind_of(config.state.url), lambda: self.state.get("there"))}
        if self._in_use:
            self.places["store"] = Place(self.store.type, lambda: self.store.open("", NEVER_GIVEN))
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        if self._in_use:
            self._tasks = [asyncio.create_task(self._sweep()), asyncio.create_task(self._count())]

    async def check(self) -> None:
        """See whether what is kept elsewhere can be reached; for a moment at most."""
        await asyncio.gather(*(place.check() for place in self.places.values()))

    async def _sweep(self) -> None:
        """Beside everything else: nobody waits for a store to be ready."""
        try:
            await self.store.start()
        except StoreError as error:
            logger.warning("whole results cannot be kept now: %s", error.reason)
        while True:
            with suppress(StoreError):
                await self.store.sweep()
            await asyncio.sleep(SWEEP_SECONDS)

    async def _count(self) -> None:
        while True:
            await asyncio.sleep(COUNT_SECONDS)
            await self._write()

    async def _write(self) -> None:
        taken = self.ledger.take()
        if taken is None:
            return
        try:
            await to_the_end(self.ledger.write, taken)
        except (sqlite3.Error, OSError) as error:
            self.ledger.put_back(taken)
            logger.warning("what tools returned cannot be counted now: %s", error)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for place in self.places.values():
            await place.close()
        await self._write()
        await self.store.close()
        await self.leases.close()
        await self.state.close()
