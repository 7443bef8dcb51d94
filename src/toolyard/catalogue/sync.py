"""Keeps the catalogue of one upstream in sync: reads its lists, follows changes, retries while it is down.

It is also the probe of the upstream's breaker: a failing call wakes it, and calls are let through again
once a list has been read.
"""

import asyncio
import logging
import random
import time
from contextlib import suppress
from typing import Any, Protocol

from msgspec import Raw
from msgspec.structs import replace

from ..config import ServerConfig, Stdio
from ..telemetry.redaction import redact
from ..upstream.base import Forward, Upstream
from ..upstream.errors import CredentialError, InvalidReplyError, UpstreamError
from ..wire.call import Call, Caller
from ..wire.errors import METHOD_NOT_FOUND, McpError
from ..wire.messages import encode
from .catalogue import Catalogue, ServerCatalogue, ServerIdentity
from .items import KINDS, ItemKind
from .lists import ItemList, UnreadableListError, read_list
from .store import CatalogueStore

logger = logging.getLogger("toolyard.catalogue")

DEBOUNCE_SECONDS = 0.05
"""Waits this long for more changes, to read them together."""
FLAPPING_SECONDS = 5.0
FLAPPING_COUNT = 10
"""A list that changes more often in half a minute is read only every five seconds."""
SHORTEST_TTL = 5.0
REFRESH_SECONDS = 300.0
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 15.0
CREDENTIAL_SECONDS = 10.0
"""How often it is looked whether there is a credential now; whoever connects it here says so at once."""


class UpstreamHealth(Protocol):
    """Whether the upstream takes calls, and how to restart one that does not."""

    @property
    def is_open(self) -> bool:
        """Whether the breaker is open: calls are refused."""
        ...

    @property
    def busy(self) -> bool: ...

    def well(self) -> None: ...

    def unwell(self, reason: str) -> None: ...

    async def reset(self) -> None:
        """Close its connections and end its process."""
        ...


class CatalogueSync:
    def __init__(
        self,
        config: ServerConfig,
        server: ServerCatalogue,
        catalogue: Catalogue,
        store: CatalogueStore,
        upstream: Upstream,
        caller: Caller,
        meta: Raw,
        health: UpstreamHealth,
        queue: asyncio.Semaphore,
        lazy: bool,
        on_demand: bool = False,
    ) -> None:
        """`on_demand`: the lists are read when something needs them; clients ask the upstream itself."""
        self._config = config
        self._server = server
        self._catalogue = catalogue
        self._store = store
        self._upstream = upstream
        self._caller = caller
        self._meta = meta
        self._health = health
        self._queue = queue
        self._lazy = lazy
        self._on_demand = on_demand
        self._is_uncached = False
        """Whether the upstream says of a list that it may change at any time."""
        self._waiting: list[asyncio.Future[None]] = []
        """Those who wait for lists that are read from now on."""
        self._wake = asyncio.Event()
        self._stale: set[str] = set()
        self._announced: set[str] = set()
        """The stale lists that the upstream itself announced as changed."""
        self._read_at = 0.0
        self._ttl = REFRESH_SECONDS
        self._recent: list[float] = []
        self._saving: set[asyncio.Task[None]] = set()
        self._reading = False
        self._listens_elsewhere = False
        """Whether a connection was opened since it began to listen; that one may be of another era."""
        self._slow_down = False
        """Whether its last list was not valid: then it is not read again at once."""
        self._has_warned = False
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
        """Read its lists now: a caller uses it, or a call failed."""
        self._lazy = False
        self._wake.set()

    @property
    def may_have_changed(self) -> bool:
        """Whether a tool was called that may have changed the lists, or the upstream wants to be asked."""
        server = self._server
        if self._lazy or server.fault is not None:
            return False
        return server.written or self._is_uncached or (self._on_demand and not server.was_read)

    async def read_now(self, wait: float) -> None:
        """Read its lists, and wait for that a little."""
        done = asyncio.get_running_loop().create_future()
        self._waiting.append(done)
        self._stale.update(kind.name for kind in KINDS)
        self._on_demand = False
        self._wake.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await done

    def session_opened(self) -> None:
        """A caller opened a new session, whose lists may differ."""
        if not self._reading and not self._on_demand:
            self._stale.update(kind.name for kind in KINDS)
            self._listens_elsewhere = True
            self.wake()

    def refresh_if_old(self) -> None:
        """Read its lists again in the background if they are old; called when a client lists them."""
        if self._lazy or self._on_demand:
            return
        if time.monotonic() - self._read_at > self._ttl:
            self._stale.update(kind.name for kind in KINDS)
            self._wake.set()

    async def _run(self) -> None:
        failures = 0
        while True:
            if self._lazy and self._server.was_read and self._server.fault is None:
                self._server.settled.set()
                await self._wake.wait()
            self._wake.clear()
            try:
                await self._first_read()
                failures = 0
                await self._follow_changes()
            except TimeoutError as error:
                if isinstance(error, McpError):
                    self._failed(error.message)
                elif not self._health.busy or self._health.is_open:
                    # A busy upstream may just be slow; one whose breaker is open is stuck.
                    self._failed("it does not answer")
                    await self._health.reset()
            except CredentialError as error:
                # Nothing is wrong with it, and callers who have a credential may use it.
                self.report_fault(error.reason)
                self._server.settled.set()
                with suppress(TimeoutError):
                    async with asyncio.timeout(CREDENTIAL_SECONDS):
                        await self._wake.wait()
                continue
            except McpError as error:
                # What is before the colon is for everybody; the rest may have a server's own words.
                said = f"it answered with an error: {error.message}"
                self._failed(error.reason if isinstance(error, UpstreamError) else said)
            except Exception as error:  # a supervisor goes on after any error
                logger.error("catalogue sync of %s failed", self._config.name, exc_info=error)
                self._failed("unexpected error; see the log")
            pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2**failures) * random.uniform(0.5, 1.0)
            failures = min(failures + 1, 10)
            await asyncio.sleep(pause)

    async def _first_read(self) -> None:
        """Known lists wait for their turn: a restart must not read a hundred of them at once."""
        if self._server.was_read:
            async with self._queue:
                await self._refresh(KINDS)
        else:
            await self._refresh(() if self._on_demand else KINDS)

    def _failed(self, reason: str) -> None:
        self.report_fault(reason)
        self._server.settled.set()
        self._health.unwell(reason)

    def report_fault(self, reason: str) -> None:
        """Record and log why the upstream, or a part of it, is missing."""
        reason = redact(reason)
        is_new = self._server.fault != reason
        if is_new or not self._has_warned:  # a fault may be remembered from an earlier process
            logger.warning("%s: %s", self._config.name, reason)
            self._has_warned = True
        if is_new:
            self._server.fault = reason
            self._down_since = self._down_since or time.monotonic()
            self._save()

    def _save(self) -> None:
        task = asyncio.create_task(self._store.save(self._config, self._server))
        self._saving.add(task)
        task.add_done_callback(self._saving.discard)

    async def _refresh(self, kinds: tuple[ItemKind, ...]) -> None:
        waiting, self._waiting = self._waiting, []
        self._server.written = False
        try:
            await self._read_all(kinds)
        finally:
            for one in waiting:
                if not one.done():
                    one.set_result(None)

    async def _read_all(self, kinds: tuple[ItemKind, ...]) -> None:
        """No kinds: only what the upstream says of itself."""
        server = self._server
        seconds = self._config.connect_timeout + min(self._config.timeout, 10.0)
        # A starting program has a time limit of its own.
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
            invalid: list[InvalidReplyError] = []
            lists = await asyncio.gather(*(self._read(kind, invalid) for kind in wanted))
            if invalid and len(invalid) == len(wanted):
                raise invalid[0]  # no list is valid
        found = dict(zip((kind.name for kind in wanted), lists, strict=True))
        changed = tuple(
            kind
            for kind in kinds
            if server.replace_list(kind, found[kind.name].items if kind.name in found else ())
        )
        server.digests |= {name: listed.digest for name, listed in found.items()}
        ttls = [listed.ttl for listed in lists if listed.ttl is not None]
        self._ttl = max(SHORTEST_TTL, min([*ttls, REFRESH_SECONDS]))
        self._is_uncached = 0 in ttls
        self._read_at = time.monotonic()
        server.notes = tuple(note for listed in lists for note in listed.notes)
        new = not server.was_read or server.identity != identity
        server.identity = identity
        server.was_read = server.was_read or bool(kinds)
        recovered = server.fault is not None
        if recovered:
            since = "" if self._down_since is None else f" after {time.monotonic() - self._down_since:.1f} s"
            tools = len(server.entries["tools"])
            logger.info("%s: is back%s, with %d tools", self._config.name, since, tools)
        server.fault = self._down_since = None
        server.settled.set()
        self._health.well()
        if changed or new:
            self._catalogue.changed(self._config.name, changed)
        if changed or new or recovered:
            self._save()

    async def _read(self, kind: ItemKind, invalid: list[InvalidReplyError]) -> ItemList:
        """Reads one list. If it is not valid, the others are not affected and the last good one stays."""
        server = self._server
        known = ItemList(server.lists.get(kind.name, ()), server.digests.get(kind.name, b""))
        try:
            return await read_list(self._upstream, kind, self._caller, self._meta, known)
        except UnreadableListError as error:
            note = str(error)
        except InvalidReplyError as error:
            invalid.append(error)
            note = f"its {kind.method} cannot be used: {error.reason}"
        except UpstreamError:
            raise
        except McpError as error:
            note = f"it does not list its {kind.name}: {error.message[:200]}"
        if note not in server.notes:
            logger.warning("%s: %s", self._config.name, note)
        self._slow_down = True
        return replace(known, digest=b"", notes=(redact(note),))

    async def _follow_changes(self) -> None:
        """Keep the lists current until the upstream ends the subscription."""
        while self._on_demand:  # its clients hear it themselves
            await self._wake.wait()
            self._wake.clear()
            await self._refresh(() if self._on_demand else KINDS)
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
                    if self._listens_elsewhere:
                        await _ended(listening)
                        listening = asyncio.create_task(self._listen())
                    await self._read_changes()
            await listening
        finally:
            await _ended(listening)

    async def _read_changes(self) -> None:
        now = time.monotonic()
        self._recent = [moment for moment in self._recent if now - moment < 30.0] + [now]
        flapping = len(self._recent) > FLAPPING_COUNT or self._slow_down
        self._slow_down = False
        if not self._waiting:
            await asyncio.sleep(FLAPPING_SECONDS if flapping else DEBOUNCE_SECONDS)
        self._wake.clear()
        stale, self._stale = self._stale, set()
        announced, self._announced = self._announced, set()
        kinds = tuple(kind for kind in KINDS if kind.name in stale) or KINDS
        before = {kind.name: self._server.lists.get(kind.name) for kind in kinds}
        await self._refresh(kinds)
        # Clients get every announcement of the upstream, even if we see no difference.
        lists = self._server.lists
        same = tuple(k for k in kinds if k.name in announced and before[k.name] == lists.get(k.name))
        if same:
            self._catalogue.changed(self._config.name, same)

    async def _listen(self) -> None:
        self._listens_elsewhere = False
        wanted = dict.fromkeys(("toolsListChanged", "promptsListChanged", "resourcesListChanged"), True)
        params = Raw(encode({"notifications": wanted, "_meta": self._meta}))
        try:
            call = Call("subscriptions/listen", params, self._caller, self, 1)
            await self._upstream.send(Forward.of(call))
        except McpError as error:
            if error.code != METHOD_NOT_FOUND:
                raise
            await asyncio.Event().wait()  # it has no subscriptions; its lists are read when they are old

    # The channel of `subscriptions/listen`

    async def notify(self, method: str, params: Any) -> None:
        changed = tuple(kind for kind in KINDS if kind.changed == method)
        if changed:
            kinds = [kind.name for kind in changed]
            self._stale.update(kinds)
            self._announced.update(kinds)
            self._wake.set()

    async def ask(self, method: str, params: Any) -> Raw:
        raise McpError(METHOD_NOT_FOUND, f"{method!r} is not supported here: no client is connected")

    async def release(self, retry_ms: int | None) -> None:
        return None


async def _ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
