"""Storage of the gateway: the state with leases and profiles, the store of whole results, the ledger.

Owns their start, their health probes and their shutdown. The stores themselves are in `state`, `artifacts`
and `telemetry.usage`.
"""

import asyncio
import logging
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ..artifacts.factory import open_store
from ..artifacts.store import ArtifactStoreError, NewId, ResultLinks, new_id
from ..audit.store import AuditStoreError
from ..config import Config
from ..config.files import config_identity
from ..sessions.leases import Leases
from ..sessions.old_profiles import OldProfiles
from ..sessions.profiles import ProfileStore
from ..state.factory import open_state
from ..state.store import StateError, kind_of, try_state
from ..telemetry.events import EventCounter, Events
from ..telemetry.redaction import redact
from ..telemetry.usage import UsageLedger
from ..upstream.errors import MAX_REASON
from ..vault.base import VaultUnavailableError
from ..vault.factory import needs_vault, open_vault
from ..vault.master_keys import MasterKeys, MemorySource
from ..vault.vault import Vault
from ..wire.seal import Sealer

logger = logging.getLogger("toolyard.app")

SWEEP_SECONDS = 600.0
LEDGER_SECONDS = 10.0
PROBE_TIMEOUT = 2.0
"""Seconds that a request for /health waits for a store to be tried."""
PROBE_MAX_AGE = 5.0
"""Seconds for which the answer of a probe is used again."""

T = TypeVar("T")


class GatewayStorage:
    def __init__(
        self,
        config: Config,
        folder: Path | None,
        sealer: Sealer,
        probe_timeout: float = PROBE_TIMEOUT,
        probe_max_age: float = PROBE_MAX_AGE,
        make_id: NewId = new_id,
        counters: Iterable[EventCounter] = (),
    ) -> None:
        """`counters` count events besides the ledger."""
        self._folder = folder
        self.state = open_state(config.state.url, folder)
        self.ledger = UsageLedger(folder, config_identity(config))
        self.events = Events(self.ledger, *counters)
        self.leases = Leases(self.state, config.state.session_ttl, events=self.events)
        self.vault = open_vault(config, folder, self.state)
        # Profiles in memory end with the process; their secrets should too.
        lasts = self.vault.store is self.state
        secrets = self.vault if lasts else Vault(self.state, MasterKeys(MemorySource()))
        old = OldProfiles.of(config.state.key, config.state.url, folder)
        self.profiles = ProfileStore(self.state, secrets, old)
        self.links = ResultLinks(sealer, config.store.public_url or config.gateway.public_url)
        self.store = open_store(config.store, folder, self.links, make_id)
        self._needs_vault = needs_vault(config)
        self._stores_results = config.results.shape
        self._new_probe = partial(HealthProbe, timeout=probe_timeout, max_age=probe_max_age)
        self.probes: dict[str, HealthProbe] = {}
        self.add_probe("state", "state store", kind_of(config.state.url), lambda: try_state(self.state))
        if self._stores_results:
            self.add_probe("store", "result store", self.store.type, self.store.check)
        self._ledger_failed = False
        self._tasks: list[asyncio.Task[None]] = []

    def add_probe(self, name: str, title: str, kind: str, ask: Callable[[], Awaitable[object]]) -> None:
        """`name` is its key in /health, `title` its name in the log."""
        self.probes[name] = self._new_probe(title, kind, ask)

    async def start(self) -> None:
        """Raises VaultError if the configuration needs the vault, and its key is missing or wrong."""
        if self._folder is not None:
            # Before anything is stored below it: folders that are made on the way have no mode of their own.
            with suppress(OSError):  # whoever needs it says so
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._needs_vault:
            await self._check_vault()
        self._tasks.append(asyncio.create_task(self._write_ledger_periodically()))
        if self._stores_results:
            self._tasks.append(asyncio.create_task(self._sweep()))

    def check_soon(self) -> None:
        """Try the state before anybody asks, so that the log says what is wrong with it. Others begin so."""
        self._tasks.append(asyncio.create_task(self.probes["state"].check()))

    async def _check_vault(self) -> None:
        try:
            await self.vault.check()
        except VaultUnavailableError as error:
            # The store may be back before anybody calls; a wrong key will not be right by itself.
            logger.warning("%s; hint: %s", error.message, error.hint)

    async def check(self) -> None:
        """Try the stores, for at most the time limit of a probe."""
        await asyncio.gather(*(probe.check() for probe in self.probes.values()))

    async def _sweep(self) -> None:
        """Start the store in the background, so that nothing waits for it; then delete expired results."""
        try:
            await self.store.start()
        except ArtifactStoreError as error:
            self.probes["store"].note(error)
        while True:
            with suppress(ArtifactStoreError):
                await self.store.sweep()
            await asyncio.sleep(SWEEP_SECONDS)

    async def _write_ledger_periodically(self) -> None:
        while True:
            await asyncio.sleep(LEDGER_SECONDS)
            await self._write_ledger()

    async def _write_ledger(self) -> None:
        taken = self.ledger.take()
        if taken is None:
            return
        try:
            await run_to_completion(self.ledger.write, taken)
        except (sqlite3.Error, OSError) as error:
            self.ledger.restore(taken)
            if not self._ledger_failed:  # once, and not every few seconds
                logger.warning("cannot write the ledger: %s", self.ledger.explain(error))
            self._ledger_failed = True
        else:
            self._ledger_failed = False

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for probe in self.probes.values():
            await probe.close()
        await self._write_ledger()
        await self.store.close()
        await self.leases.close()
        await self.vault.close()
        await self.state.close()


class HealthProbe:
    """Tries something outside this process, and tells the log when it fails and when it works again.

    However many requests for /health there are, it asks one question at a time, and waits at most `timeout`
    seconds. The answer is used again for `max_age` seconds.
    """

    def __init__(
        self, title: str, kind: str, ask: Callable[[], Awaitable[object]], timeout: float, max_age: float
    ) -> None:
        self._title = title
        self.kind = kind
        self._ask = ask
        self._timeout = timeout
        self._max_age = max_age
        self._task: asyncio.Task[None] | None = None
        self._asked_at: float | None = None
        self._fault: str | None = None

    def as_dict(self) -> dict[str, str]:
        state = "unknown" if self._asked_at is None else "up" if self._fault is None else "down"
        reason = {} if self._fault is None else {"reason": redact(self._fault)[:MAX_REASON]}
        return {"kind": self.kind, "state": state, **reason}

    @property
    def is_down(self) -> bool:
        """Whether the last check found a fault."""
        return self._fault is not None

    async def check(self) -> None:
        trial = self.begin()
        if trial is None:
            return
        await asyncio.wait({trial}, timeout=self._timeout)
        if not trial.done():
            self._record(f"no answer within {self._timeout:g} s")

    def begin(self) -> "asyncio.Task[None] | None":
        """The trial that is under way or begins now; None if the last one was just now."""
        if self._asked_at is not None and time.monotonic() - self._asked_at < self._max_age:
            return None
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._probe())
        return self._task

    async def _probe(self) -> None:
        try:
            await self._ask()
        except Exception as error:  # a probe supervises: an unexpected error is a fault too
            self.note(error)
        else:
            self._record(None)

    def note(self, error: Exception) -> None:
        """It was used, and failed."""
        if isinstance(error, ArtifactStoreError):
            self._record(f"{error.details}; hint: {error.hint}" if error.details else error.reason)
        elif isinstance(error, StateError | AuditStoreError | OSError):
            self._record(str(error))
        else:
            logger.error("the health probe of %s failed", self.kind, exc_info=error)
            self._record("unexpected error; see the log")

    def _record(self, fault: str | None) -> None:
        if fault is not None and self._fault is None:
            logger.warning("%s: %s", self._title, redact(fault))
        elif fault is None and self._fault is not None:
            logger.info("%s: can be used again", self._title)
        self._fault, self._asked_at = fault, time.monotonic()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)


async def run_to_completion(work: Callable[..., T], *arguments: Any) -> T:
    """Run work in a thread, and finish it even if the caller is cancelled."""
    running = asyncio.ensure_future(asyncio.to_thread(work, *arguments))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise
