"""Keeps the catalogue of one upstream in sync: reads its lists, follows changes, retries while it is down.

This is also the probe of the upstream's breaker: whoever finds an upstream failing wakes its sync, and
calls are let through again once a list has been read.
"""

import asyncio
import logging
import random
import time
from typing import Any, Protocol

from msgspec import Raw
from msgspec.structs import replace

from ..config import ServerConfig, Stdio
from ..telemetry.redaction import redact
from ..upstream.base import Forward, Upstream
from ..upstream.errors import InvalidReplyError, UpstreamError
from ..wire.call import Call, Caller
from ..wire.errors import METHOD_NOT_FOUND, McpError
from ..wire.messages import encode
from .catalogue import Catalogue, ServerCatalogue, ServerIdentity
from .items import KINDS, ItemKind
from .lists import ItemList, UnreadableListError, read_list
from .store import CatalogueStore

logger = logging.getLogger("toolyard.catalogue")

DEBOUNCE_SECONDS = 0.05
"""Changes that come together are read together."""
FLAPPING_SECONDS = 5.0
FLAPPING_COUNT = 10
"""A list that changes more often than that in half a minute is read only every five seconds."""
SHORTEST_TTL = 5.0
REFRESH_SECONDS = 300.0
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 15.0


class UpstreamHealth(Protocol):
    """Whether the upstream takes calls, and what to do about one that does not."""

    @property
    def is_open(self) -> bool:
        """Calls are refused."""
        ...

    @property
    def busy(self) -> bool: ...

    def well(self) -> None: ...

    def unwell(self, reason: str) -> None: ...

    async def reset(self) -> None:
        """Begin anew: close its connections, end its process."""
        ...


class CatalogueSync:
    def __init__(
        self,
        config: ServerConfig,
        shelf: ServerCatalogue,
        catalogue: Catalogue,
        store: CatalogueStore,
        upstream: Upstream,
        caller: Caller,
        meta: Raw,
        health: UpstreamHealth,
        queue: asyncio.Semaphore,
        lazy: bool,
    ) -> None:
        self._config = config
        self._shelf = shelf
        self._catalogue = catalogue
        self._store = store
        self._upstream = upstream
        self._caller = caller
        self._meta = meta
        self._health = health
        self._queue = queue
        self._lazy = lazy
        self._wake = asyncio.Event()
        self._stale: set[str] = set()
        self._announced: set[str] = set()
        """Of those, what the upstream itself said has changed."""
        self._read_at = 0.0
        self._ttl = REFRESH_SECONDS
        self._recent: list[float] = []
        self._saving: set[asyncio.Task[None]] = set()
        self._reading = False
        self._calmer = False
        """Its last list was of no use: it is not asked again at once."""
        self._down_since: float | None = None
        self._task: asyncio.Task[None] | None = None

    def reconfigure(self, config: ServerConfig) -> None:
        self._config = config

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.gather(*self._saving)

    def wake(self) -> None:
        """Look after it now: somebody uses it, or found it unwell."""
        self._lazy = False
        self._wake.set()

    def opened(self) -> None:
        """A caller had a new session opened: what it shows may differ."""
        if not self._reading:
            self._stale.update(kind.name for kind in KINDS)
            self.wake()

    def touch(self) -> None:
        """Somebody looks at its lists: when they are old, read them again, behind their back."""
        if not self._lazy and time.monotonic() - self._read_at > self._ttl:
            self._stale.update(kind.name for kind in KINDS)
            self._wake.set()

    async def _run(self) -> None:
        failures = 0
        while True:
            if self._lazy and self._shelf.known and self._shelf.fault is None:
                self._shelf.settled.set()
                await self._wake.wait()
            self._wake.clear()
            try:
                await self._first_look()
                failures = 0
                await self._attend()
            except TimeoutError as error:
                if isinstance(error, McpError):
                    self._failed(error.message)
                elif not self._health.busy or self._health.is_open:
                    # One that has work in hand may just be slow to answer; one that answers nobody is stuck.
                    self._failed("it does not answer")
                    await self._health.reset()
            except McpError as error:
                self._failed(getattr(error, "reason", error.message))
            except Exception as error:  # a supervisor goes on, whatever it meets
                logger.error("looking after %s failed", self._config.name, exc_info=error)
                self._failed("something unforeseen happened; the log has the details")
            pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2**failures) * random.uniform(0.5, 1.0)
            failures = min(failures + 1, 10)
            await asyncio.sleep(pause)

    async def _first_look(self) -> None:
        """What is known already can wait a little: a restart must not read a hundred lists at once."""
        if self._shelf.known:
            async with self._queue:
                await self._refresh(KINDS)
        else:
            await self._refresh(KINDS)

    def _failed(self, reason: str) -> None:
        self.blame(reason)
        self._shelf.settled.set()
        self._health.unwell(reason)

    def blame(self, reason: str) -> None:
        """Have it known why this upstream is not, or not all, there."""
        reason = redact(reason)
        if self._shelf.fault != reason:
            logger.warning("%s: %s", self._config.name, reason)
            self._shelf.fault = reason
            self._down_since = self._down_since or time.monotonic()
            self._save()

    def _save(self) -> None:
        task = asyncio.create_task(self._store.save(self._config, self._shelf))
        self._saving.add(task)
        task.add_done_callback(self._saving.discard)

    async def _refresh(self, kinds: tuple[ItemKind, ...]) -> None:
        shelf = self._shelf
        seconds = self._config.connect_timeout + min(self._config.timeout, 10.0)
        # A program that is starting has a limit of its own, and must not be disturbed before.
        starts = isinstance(self._config.where, Stdio)
        async with asyncio.timeout(None if starts else seconds) as limit:
            self._reading = True
            try:
                found = await self._upstream.info()
                info = Raw(bytes(found.info))
                identity = ServerIdentity(found.version, info, found.capabilities, found.instructions)
            finally:
                self._reading = False
            if starts:
                limit.reschedule(asyncio.get_running_loop().time() + seconds)
            offered = identity.capabilities
            wanted = [kind for kind in kinds if kind.capability in offered]
            garbled: list[InvalidReplyError] = []
            lists = await asyncio.gather(*(self._read(kind, garbled) for kind in wanted))
            if garbled and len(garbled) == len(wanted):
                raise garbled[0]  # it says nothing that can be understood
        found = dict(zip((kind.name for kind in wanted), lists, strict=True))
        changed = tuple(
            kind for kind in kinds if shelf.put(kind, found[kind.name].items if kind.name in found else ())
        )
        shelf.digests |= {name: listed.digest for name, listed in found.items()}
        ttls = [listed.ttl for listed in lists if listed.ttl is not None]
        self._ttl = max(SHORTEST_TTL, min([*ttls, REFRESH_SECONDS]))
        self._read_at = time.monotonic()
        shelf.notes = tuple(note for listed in lists for note in listed.notes)
        new = not shelf.known or shelf.identity != identity
        shelf.identity = identity
        shelf.known = True
        well_again = shelf.fault is not None
        if well_again:
            since = "" if self._down_since is None else f" after {time.monotonic() - self._down_since:.1f} s"
            tools = len(shelf.entries["tools"])
            logger.info("%s: is back%s, with %d tools", self._config.name, since, tools)
        shelf.fault = self._down_since = None
        shelf.settled.set()
        self._health.well()
        if changed or new:
            self._catalogue.changed(self._config.name, changed)
        if changed or new or well_again:
            self._save()

    async def _read(self, kind: ItemKind, garbled: list[InvalidReplyError]) -> ItemList:
        """Each list for itself: one that is of no use leaves the others, and what was known of it, alone."""
        shelf = self._shelf
        known = ItemList(shelf.lists.get(kind.name, ()), shelf.digests.get(kind.name, b""))
        try:
            return await read_list(self._upstream, kind, self._caller, self._meta, known)
        except UnreadableListError as error:
            note = str(error)
        except InvalidReplyError as error:
            garbled.append(error)
            note = f"its list of {kind.name} is of no use: {error.reason}"
        except UpstreamError:
            raise
        except McpError as error:
            note = f"it does not list its {kind.name}: {error.message[:200]}"
        if note not in shelf.notes:
            logger.warning("%s: %s", self._config.name, note)
        self._calmer = True
        return replace(known, digest=b"", notes=(redact(note),))

    # Following changes

    async def _attend(self) -> None:
        """Keep the lists current until the upstream goes away."""
        listening = asyncio.create_task(self._listen())
        try:
            while not listening.done():
                waking = asyncio.create_task(self._wake.wait())
                try:
                    await asyncio.wait({listening, waking}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    waking.cancel()
                if self._wake.is_set():
                    self._wake.clear()
                    await self._read_changes()
            await listening
        finally:
            await _ended(listening)

    async def _read_changes(self) -> None:
        now = time.monotonic()
        self._recent = [moment for moment in self._recent if now - moment < 30.0] + [now]
        flapping = len(self._recent) > FLAPPING_COUNT or self._calmer
        self._calmer = False
        await asyncio.sleep(FLAPPING_SECONDS if flapping else DEBOUNCE_SECONDS)
        self._wake.clear()
        stale, self._stale = self._stale, set()
        announced, self._announced = self._announced, set()
        kinds = tuple(kind for kind in KINDS if kind.name in stale) or KINDS
        before = {kind.name: self._shelf.lists.get(kind.name) for kind in kinds}
        await self._refresh(kinds)
        # The upstream said so: clients hear it even when we see no difference.
        lists = self._shelf.lists
        same = tuple(k for k in kinds if k.name in announced and before[k.name] == lists.get(k.name))
        if same:
            self._catalogue.changed(self._config.name, same)

    async def _listen(self) -> None:
        wanted = dict.fromkeys(("toolsListChanged", "promptsListChanged", "resourcesListChanged"), True)
        params = Raw(encode({"notifications": wanted, "_meta": self._meta}))
        try:
            call = Call("subscriptions/listen", params, self._caller, self, 1)
            await self._upstream.send(Forward.of(call))
        except McpError as error:
            if error.code != METHOD_NOT_FOUND:
                raise
            await asyncio.Event().wait()  # it tells nobody; its lists are read when they are old

    # The channel that its changes come on

    async def notify(self, method: str, params: Any) -> None:
        kinds = [kind.name for kind in KINDS if kind.changed == method]
        if kinds:
            self._stale.update(kinds)
            self._announced.update(kinds)
            self._wake.set()

    async def ask(self, method: str, params: Any) -> Raw:
        raise McpError(METHOD_NOT_FOUND, f"nobody can be asked {method!r} here")

    async def release(self, retry_ms: int | None) -> None:
        return None


async def _ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
