"""The audit log: every record is in the store before its call is answered.

Owns what happens while the store cannot be written: `closed` refuses calls, `open` lets them pass and counts
what has no record. Retention and delivery run beside it. Stores are in `files` and `database`.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

import msgspec

from ..config.callers import AuditConfig
from .chain import ChainKey, RecordsLost
from .database import DatabaseAuditStore
from .delivery import AuditDelivery, AuditSink, SyslogSink, WebhookSink
from .files import FileAuditStore
from .postgres import PostgresAuditDatabase
from .record import MAX_BODY, ArgumentPolicy, AuditRecord, CallEnding, RecordTemplate, clipped, now
from .store import AuditStore, AuditStoreError, AuditUnavailableError

logger = logging.getLogger("toolyard.audit")

PRUNE_SECONDS = 3600.0
WARN_SECONDS = 30.0
"""At most one warning in this time about a store that cannot be written."""


class AuditLog:
    def __init__(
        self,
        store: AuditStore,
        arguments: ArgumentPolicy,
        *,
        unavailable: Literal["open", "closed"] = "closed",
        keep: float | None = None,
        deliveries: Sequence[AuditDelivery] = (),
    ) -> None:
        self.store = store
        self.arguments = arguments
        """What of a call's arguments belongs into its record."""
        self.written = 0
        self.lost = 0
        """Records of this process that could not be written."""
        self._is_closed_on_failure = unavailable == "closed"
        self._keep = keep
        self._deliveries = deliveries
        self._encode = msgspec.json.Encoder().encode
        # Only files take a line without waiting.
        self._append_now = store.append_now if isinstance(store, FileAuditStore) else None
        self.failing_since: datetime | None = None
        """Since when nothing can be written; None if the last attempt succeeded."""
        self._unreported = 0
        self._reporting = asyncio.Lock()
        self._warned = float("-inf")
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def is_failing(self) -> bool:
        """Whether the last attempt to write failed."""
        return self.failing_since is not None

    @property
    def refuses_calls(self) -> bool:
        """Whether no call is answered that has no record."""
        return self._is_closed_on_failure

    async def check(self) -> None:
        """Raise AuditStoreError unless records can be written.

        What could not be written before is made good: who refuses calls may get none that would do it.
        """
        await self._report_lost()
        await self.store.check()

    async def start(self) -> None:
        """Begin the chain, retention and delivery. Records can be appended without it.

        If the chain cannot begin, the log fails from the start, so that `closed` refuses the first call too.
        """
        try:
            await self.store.begin()
        except AuditStoreError as error:
            self._fail(error)
        if self._keep is not None:
            self._tasks.append(asyncio.create_task(self._prune_periodically(self._keep)))
        for delivery in self._deliveries:
            await delivery.start()

    async def append(self, record: AuditRecord) -> None:
        """When it returns, killing this process cannot lose the record.

        The record is kept even if the caller is cancelled while it waits, so nobody has to shield it.
        Raises AuditUnavailableError if it cannot be written and the log is closed then.
        """
        await self._append_body(self._body(record))

    def append_call(self, template: RecordTemplate, ending: CallEnding) -> Awaitable[None] | None:
        """`append` for a call of which most was known before; None if there is nothing to wait for."""
        body = template.body(ending, self.arguments)
        if self._append_now is None or self.failing_since is not None:
            return self._append_body(body)
        try:
            self._append_now(body)
        except AuditStoreError as error:
            self._lose(error)
            return None
        self.written += 1
        for delivery in self._deliveries:
            delivery.wake()
        return None

    async def _append_body(self, body: bytes) -> None:
        if self.failing_since is None:
            await self._append(body)
        else:  # two lines have to be written, and a cancelled caller must not stop between them
            await asyncio.shield(asyncio.create_task(self._append(body)))

    async def _append(self, body: bytes) -> None:
        try:
            if self.failing_since is not None:
                await self._report_lost()
            await self.store.append(body)
            self.written += 1
            for delivery in self._deliveries:
                delivery.wake()
        except AuditStoreError as error:
            self._lose(error)

    def _lose(self, error: AuditStoreError) -> None:
        self.lost += 1
        self._unreported += 1
        self._fail(error)
        if self._is_closed_on_failure:
            raise AuditUnavailableError from None

    def _body(self, record: AuditRecord) -> bytes:
        try:
            body = self._encode(record)
        except UnicodeEncodeError:  # a lone surrogate in a name
            return self._encode(clipped(record))
        return body if len(body) <= MAX_BODY else self._encode(clipped(record))

    async def ensure_writable(self) -> None:
        """Refuse a call before it has any effect if its record could not be written.

        Costs nothing unless the last attempt to write failed.
        """
        if self.failing_since is None or not self._is_closed_on_failure:
            return
        try:
            await self._report_lost()
        except AuditStoreError as error:
            self._fail(error)
            raise AuditUnavailableError from None

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        await asyncio.gather(*(delivery.close() for delivery in self._deliveries))
        await self.store.close()

    async def _report_lost(self) -> None:
        """The first line after a failure says how many records are missing."""
        async with self._reporting:
            since, count = self.failing_since, self._unreported
            if since is None:
                return
            if count:
                await self.store.append(self._encode(RecordsLost(time=now(), count=count, since=since)))
            else:
                await self.store.begin()
            self._unreported -= count
            self.failing_since = None
        logger.warning("the audit can be written again; %d calls have no record", count)

    def _fail(self, error: AuditStoreError) -> None:
        if self.failing_since is None:
            self.failing_since = now()
        if time.monotonic() - self._warned > WARN_SECONDS:
            self._warned = time.monotonic()
            effect = "calls are refused" if self._is_closed_on_failure else "calls go on without records"
            logger.error("%s, so %s", error, effect)

    async def _prune_periodically(self, keep: float) -> None:
        while True:
            try:
                for pruned in await self.store.prune(time.time() - keep):
                    logger.info(
                        "removed %d old lines of the audit's chain %s", pruned.lines, pruned.last.chain
                    )
            except AuditStoreError as error:
                logger.warning("cannot remove old records of the audit: %s", error)
            await asyncio.sleep(PRUNE_SECONDS)


def open_audit(config: AuditConfig, folder: Path | None, key: bytes | None) -> AuditLog:
    """The log of a configuration. `folder` is the state folder, `key` the gateway's."""
    store = open_audit_store(config, folder, ChainKey(key))
    sinks: list[AuditSink] = []
    if config.webhook:
        sinks.append(WebhookSink(config.webhook, config.webhook_headers))
    if config.syslog:
        sinks.append(SyslogSink(config.syslog))
    return AuditLog(
        store,
        ArgumentPolicy(config.arguments, key),
        unavailable=config.unavailable,
        keep=config.keep,
        deliveries=[AuditDelivery(store, sink) for sink in sinks],
    )


def open_audit_store(config: AuditConfig, folder: Path | None, key: ChainKey) -> AuditStore:
    match config.url.partition(":")[0].lower():
        case "file":
            return FileAuditStore(_path_of(config.url, folder, "audit"), key, config.max_bytes)
        case "sqlite":
            from .sqlite import SqliteAuditDatabase  # 3 ms

            return DatabaseAuditStore(SqliteAuditDatabase(_path_of(config.url, folder, "audit.db")), key)
        case _:
            return DatabaseAuditStore(PostgresAuditDatabase(config.url), key)


def _path_of(url: str, folder: Path | None, default: str) -> Path:
    """`file:` is the default below the state folder, `file:name` that name there, `file:///path` the path."""
    rest = url.partition(":")[2]
    if rest.startswith("//"):
        rest = unquote(rest[2:])
        if not rest.startswith("/"):
            raise AuditStoreError(
                f"{url!r} of [audit] names a host", "write file:///path, with three slashes"
            )
        return Path("/" + rest.lstrip("/"))
    name = Path(unquote(rest) or default).expanduser()
    if name.is_absolute():
        return name
    if folder is None:
        raise AuditStoreError(f"there is no state folder for {url!r}", "give the whole path: file:///path")
    return folder / name
