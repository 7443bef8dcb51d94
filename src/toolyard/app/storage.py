"""What outlives a request: the state with sessions and profiles, the store of whole results, the ledger.

Owns their start, their health probes and their shutdown.
"""

import asyncio
import logging
import sqlite3
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from ..artifacts.factory import open_store
from ..artifacts.store import ArtifactStoreError, ResultLinks
from ..config import Config
from ..config.files import config_identity
from ..sessions.leases import Leases
from ..sessions.profiles import ProfileStore, cipher_for
from ..state.factory import open_state
from ..state.store import StateError, kind_of
from ..telemetry.redaction import redact
from ..telemetry.usage import UsageLedger
from ..upstream.errors import MAX_REASON
from ..wire.seal import Sealer

T = TypeVar("T")


async def run_to_completion(work: Callable[..., T], *arguments: Any) -> T:
    running = asyncio.ensure_future(asyncio.to_thread(work, *arguments))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise


logger = logging.getLogger("toolyard.app")

SWEEP_SECONDS = 600.0
COUNT_SECONDS = 10.0
CHECK_SECONDS = 2.0
"""How long somebody who asks how we are waits for a store to answer."""
CHECKED_SECONDS = 5.0
"""How long what was found then counts."""
UNUSED_ID = "0" * 32


class HealthProbe:
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
        reason = {} if self._fault is None else {"reason": redact(self._fault)[:MAX_REASON]}
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
        except (StateError, ArtifactStoreError, OSError) as error:
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


class GatewayStorage:
    def __init__(self, config: Config, folder: Path | None, sealer: Sealer) -> None:
        self.state = open_state(config.state.url, folder)
        self.leases = Leases(self.state, config.state.session_ttl)
        self.profiles = ProfileStore(self.state, cipher_for(config.state.key, config.state.url, folder))
        self.links = ResultLinks(sealer, config.store.public_url or config.gateway.public_url)
        self.store = open_store(config.store, folder, self.links)
        self.ledger = UsageLedger(folder, config_identity(config))
        self._in_use = config.results.shape
        """Where results pass as they are, there is nothing to store and nothing to count."""
        self.places = {"state": HealthProbe(kind_of(config.state.url), lambda: self.state.get("there"))}
        if self._in_use:
            self.places["store"] = HealthProbe(self.store.type, lambda: self.store.open("", UNUSED_ID))
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
        except ArtifactStoreError as error:
            logger.warning("whole results cannot be kept now: %s", error.reason)
        while True:
            with suppress(ArtifactStoreError):
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
            await run_to_completion(self.ledger.write, taken)
        except (sqlite3.Error, OSError) as error:
            self.ledger.restore(taken)
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
