"""Sends the lines of the audit on, to a webhook or to syslog, from where the store has them.

Nothing is queued in memory: a cursor in the store says how far each chain was sent, so an outage or a restart
loses nothing and memory stays flat. A process sends its own chain, and takes over chains whose process no
longer does. A line may arrive twice; its chain and number tell. What was recorded before the sink was first
used is not sent.
"""

import asyncio
import hashlib
import logging
import os
import random
import socket
import time
from contextlib import suppress
from datetime import UTC, datetime
from typing import Protocol
from urllib.parse import urlsplit

import aiohttp
import msgspec
from msgspec import Struct

from .chain import read_line
from .store import AuditStore, AuditStoreError

logger = logging.getLogger("toolyard.audit")

BATCH = 500
BATCH_SECONDS = 0.2
"""How long records are collected, so that a busy gateway sends few big batches."""
IDLE_SECONDS = 10.0
ORPHAN_SECONDS = 60.0
"""A chain whose cursor was not saved for so long has lost its process."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Between two attempts. Shorter than ORPHAN_SECONDS, or others would send the chain as well."""
FLUSH_SECONDS = 3.0
TIMEOUT = 10.0
_BEGUN = "begun"


class DeliveryError(Exception):
    def __init__(self, reason: str, *, too_large: bool = False, retry_after: float = 0.0) -> None:
        super().__init__(reason)
        self.too_large = too_large
        self.retry_after = retry_after


class AuditSink(Protocol):
    name: str
    """Names its cursors: the same for the same address."""
    place: str
    """For the log, without secrets."""

    async def send(self, lines: list[bytes]) -> None:
        """Raises DeliveryError if they have to be sent again."""
        ...

    async def close(self) -> None: ...


class AuditDelivery:
    def __init__(self, store: AuditStore, sink: AuditSink, *, orphan_seconds: float = ORPHAN_SECONDS) -> None:
        self._store = store
        self._sink = sink
        self._orphan_seconds = orphan_seconds
        self._more = asyncio.Event()
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._batch = BATCH
        self._is_failing = False
        self._settled: dict[str, int] = {}
        """Chains of others of which nothing is left to send, and where they ended then."""
        self.delivered = 0

    def wake(self) -> None:
        """There are new lines."""
        self._more.set()

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Send what is left, if that does not take long; the next process sends the rest."""
        self._stopping.set()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=FLUSH_SECONDS)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._sink.close()

    async def _run(self) -> None:
        looked = float("-inf")
        interval = min(IDLE_SECONDS, self._orphan_seconds)
        while True:
            is_last = self._stopping.is_set()
            try:
                own = await self._store.own_chain()
                if own:
                    await self._deliver(own)
                if time.monotonic() - looked >= interval and not is_last:
                    looked = time.monotonic()
                    await self._deliver_orphans()
            except AuditStoreError as error:
                logger.warning("cannot read the audit for %s: %s", self._sink.place, error)
                await self._pause(FIRST_PAUSE)
            if is_last:
                return
            await self._wait_for_more(interval)

    async def _wait_for_more(self, seconds: float) -> None:
        waiting = [asyncio.ensure_future(event.wait()) for event in (self._more, self._stopping)]
        try:
            await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiter in waiting:
                waiter.cancel()
        if self._more.is_set():
            self._more.clear()
            await self._pause(BATCH_SECONDS)

    async def _pause(self, seconds: float) -> None:
        """Shorter when this process stops."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    async def _deliver_orphans(self) -> None:
        begun = await self._begun()
        own = await self._store.own_chain()
        for head in await self._store.heads():
            if self._settled.get(head.chain) == head.seq:
                continue
            seq, saved = await self._store.cursor(self._sink.name, head.chain)
            is_orphan = time.time() - saved > self._orphan_seconds
            if head.chain == own or (seq < head.seq and not is_orphan):
                continue
            if seq < head.seq and (saved or await self._started_after(head.chain, begun)):
                logger.info("sending the rest of the audit's chain %s to %s", head.chain, self._sink.place)
                await self._deliver(head.chain)
                continue
            self._settled[head.chain] = head.seq

    async def _begun(self) -> int:
        """When this sink was first used, in microseconds since 1970."""
        begun, saved = await self._store.cursor(self._sink.name, _BEGUN)
        if not saved:
            begun = int(time.time() * 1e6)
            await self._store.save_cursor(self._sink.name, _BEGUN, begun)
        return begun

    async def _started_after(self, chain: str, begun: int) -> bool:
        first = await self._store.read(chain, -1, 1)
        line = read_line(first[0]) if first else None
        return line is not None and line.time.timestamp() * 1e6 >= begun

    async def _deliver(self, chain: str) -> None:
        """Send a chain from its cursor to its end. Returns when nothing is left or this process stops."""
        name = self._sink.name
        seq, saved = await self._store.cursor(name, chain)
        if not saved:
            await self._begun()
            await self._store.save_cursor(name, chain, seq)  # it is ours now
        pause = FIRST_PAUSE
        while lines := await self._store.read(chain, seq, self._batch):
            try:
                await self._sink.send(lines)
            except DeliveryError as error:
                if error.too_large and len(lines) > 1:
                    self._batch = len(lines) // 2
                    continue
                self._fail(error)
                await self._store.save_cursor(name, chain, seq)
                wait = max(error.retry_after, pause * random.uniform(0.8, 1.2))
                if self._stopping.is_set():
                    return
                await self._pause(min(wait, LONGEST_PAUSE))
                pause = min(2 * pause, LONGEST_PAUSE)
                continue
            last = read_line(lines[-1])
            seq = seq + len(lines) if last is None else last.seq
            await self._store.save_cursor(name, chain, seq)
            self.delivered += len(lines)
            pause, self._is_failing = FIRST_PAUSE, False

    def _fail(self, error: DeliveryError) -> None:
        if not self._is_failing:
            logger.warning("cannot send the audit to %s, trying again: %s", self._sink.place, error)
        self._is_failing = True


class WebhookSink:
    """POSTs `{"records": [...]}`. Any answer but 2xx means: again, later."""

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        parts = urlsplit(url)
        self.name = f"webhook-{_short_hash(url)}"
        self.place = f"{parts.scheme}://{parts.hostname or ''}"  # a path may hold a token
        self._url = url
        self._headers = {"User-Agent": "toolyard", **headers, "Content-Type": "application/json"}
        self._session: aiohttp.ClientSession | None = None

    async def send(self, lines: list[bytes]) -> None:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=TIMEOUT),
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=True,
            )
        body = b'{"records":[' + b",".join(line.rstrip(b"\n") for line in lines) + b"]}"
        first, last = read_line(lines[0]), read_line(lines[-1])
        headers = dict(self._headers)
        if first is not None and last is not None:
            headers["Idempotency-Key"] = f"{first.chain}-{first.seq}-{last.seq}"
        try:
            # A redirect would send records and headers to another host.
            async with self._session.post(
                self._url, data=body, headers=headers, allow_redirects=False
            ) as answer:
                if not 200 <= answer.status < 300:
                    raise DeliveryError(
                        f"it answered {answer.status}",
                        too_large=answer.status == 413,
                        retry_after=_seconds(answer.headers.get("Retry-After", "")),
                    )
        except TimeoutError:
            raise DeliveryError(f"no answer within {TIMEOUT:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise DeliveryError(type(error).__name__) from None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


def _seconds(text: str) -> float:
    return float(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0.0


FACILITY = 13
"""Log audit, in RFC 5424."""
SEVERITIES = {"ok": 6, "asked": 6, "cancelled": 5, "tool_error": 5, "error": 4, "refused": 4}
LOST = 3
MAX_DATAGRAM = 60_000


class _Entry(Struct):
    event: str
    time: datetime
    outcome: str = "ok"


class SyslogSink:
    """Datagrams by RFC 5424, to HOST:PORT or to a socket such as /dev/log. Nobody acknowledges them."""

    def __init__(self, address: str) -> None:
        self.name = f"syslog-{_short_hash(address)}"
        self.place = address
        self._socket: socket.socket | None = None
        self._host = socket.gethostname() or "-"

    async def send(self, lines: list[bytes]) -> None:
        loop = asyncio.get_running_loop()
        try:
            if self._socket is None:
                self._socket = await self._connect()
            async with asyncio.timeout(TIMEOUT):
                for line in lines:
                    await loop.sock_sendall(self._socket, syslog_message(line, self._host))
        except (OSError, TimeoutError) as error:
            await self.close()
            raise DeliveryError(getattr(error, "strerror", None) or type(error).__name__) from None

    async def _connect(self) -> socket.socket:
        if self.place.startswith("/"):
            opened = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            opened.setblocking(False)
            opened.connect(self.place)
            return opened
        host, _, port = self.place.rpartition(":")
        found = await asyncio.get_running_loop().getaddrinfo(
            host.strip("[]") or "127.0.0.1", int(port), type=socket.SOCK_DGRAM
        )
        family, kind, protocol, _, address = found[0]
        opened = socket.socket(family, kind, protocol)
        opened.setblocking(False)
        opened.connect(address)
        return opened

    async def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def syslog_message(line: bytes, host: str) -> bytes:
    """The header of RFC 5424, and the line as it is stored."""
    try:
        entry = msgspec.json.decode(line, type=_Entry)
    except (msgspec.DecodeError, UnicodeError, RecursionError):  # damaged; whoever reads it should see it
        entry = _Entry("damaged", datetime.now(UTC), "error")
    severity = LOST if entry.event == "lost" else SEVERITIES.get(entry.outcome, 6)
    stamp = entry.time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    header = f"<{FACILITY * 8 + severity}>1 {stamp} {host[:255]} toolyard {os.getpid()} {entry.event} - "
    return header.encode("ascii", "replace") + line.rstrip(b"\n")[:MAX_DATAGRAM]


def _short_hash(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
