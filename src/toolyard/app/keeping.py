"""What outlives a request: the state, the sessions and profiles in it, and the store of whole results."""

import asyncio
import logging
import sqlite3
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
from ..state.opening import open_state
from ..telemetry.ledger import Ledger
from ..wire.seal import Sealer
from .finishing import to_the_end

logger = logging.getLogger("toolyard.app")

SWEEP_SECONDS = 600.0
COUNT_SECONDS = 10.0


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
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        if self._in_use:
            self._tasks = [asyncio.create_task(self._sweep()), asyncio.create_task(self._count())]

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
        await self._write()
        await self.store.close()
        await self.leases.close()
        await self.state.close()
