"""Looking for new conversations, at the start and then again and again, in a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Event, Thread

from .importing import Importer
from .model import Owner
from .stores.errors import StoreError
from .stores.keeper import Keeper

logger = logging.getLogger("toolyard.sessions")

PATIENCE = 2.0
"""Seconds from the start on in which an answer waits for the first look: most are over by then."""


class Watcher:
    def __init__(self, keeper: Keeper, owner: Owner, roots: Sequence[Path], seconds: float) -> None:
        self._keeper = keeper
        self._owner = owner
        self._roots = roots
        self._seconds = seconds
        self._stopping = Event()
        self._looked = Event()
        self._patient_until = 0.0
        self._thread = Thread(target=self._run, name="toolyard-sessions-import", daemon=True)

    async def has_looked(self) -> bool:
        """Whether all that was there at the start has been read. Who asks soon after it waits a little."""
        left = self._patient_until - time.monotonic()
        if left > 0 and not self._looked.is_set():
            await asyncio.to_thread(self._looked.wait, left)
        return self._looked.is_set()

    def start(self) -> None:
        self._patient_until = time.monotonic() + PATIENCE
        self._thread.start()

    async def stop(self) -> None:
        """What is being written is finished first."""
        self._stopping.set()
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        asyncio.run(self._watch())

    async def _watch(self) -> None:
        keeper = self._keeper.elsewhere()
        importer = Importer(keeper, self._owner, self._roots, self._stopping)
        try:
            while not self._stopping.is_set():
                await self._look(importer)
                # Nothing else runs in this loop: it may as well stand still.
                self._stopping.wait(self._seconds)
        finally:
            await keeper.close()

    async def _look(self, importer: Importer) -> None:
        try:
            await importer.look()
            self._looked.set()
        except StoreError as error:
            logger.warning("conversations were not imported, another try follows: %s", error)
        except Exception:
            # A supervisor: one file that nobody thought of must not end the import of all others.
            logger.exception("conversations were not imported, another try follows")
