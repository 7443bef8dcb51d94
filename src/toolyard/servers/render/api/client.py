"""One request to Render's API: key, time limits, refusals, and the structs of the replies."""

import asyncio
import email.utils
import logging
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec import Struct

from ..model import LogsError

if TYPE_CHECKING:
    import aiohttp

logger = logging.getLogger("toolyard.servers.render")
T = TypeVar("T")


class LogLabel(Struct):
    name: str
    value: str


class Log(Struct):
    timestamp: datetime
    message: str
    id: str = ""
    labels: list[LogLabel] = []

    def label(self, name: str) -> str:
        return next((label.value for label in self.labels if label.name == name), "")


class LogPage(Struct, rename="camel"):
    logs: list[Log]
    has_more: bool = False
    next_start_time: str | None = None
    """As text, because Render needs digits beyond microseconds back unchanged."""
    next_end_time: str | None = None


class ServiceDetails(Struct, rename="camel"):
    url: str | None = None
    region: str | None = None


class ServiceForm(Struct, rename="camel"):
    id: str
    name: str
    type: str
    owner_id: str
    slug: str | None = None
    suspended: str | None = None
    service_details: ServiceDetails | None = None


class RenderWorkspace(Struct):
    id: str
    name: str = ""


class Datastore(Struct, rename="camel"):
    """A database or a key-value instance."""

    id: str
    name: str
    owner: RenderWorkspace
    status: str | None = None
    suspended: str | None = None
    region: str | None = None


class Commit(Struct):
    id: str | None = None


class Deploy(Struct, rename="camel"):
    id: str
    status: str | None = None
    commit: Commit | None = None
    finished_at: datetime | None = None
    created_at: datetime | None = None


class ServiceItem(Struct):
    service: ServiceForm
    cursor: str = ""


class PostgresItem(Struct):
    postgres: Datastore
    cursor: str = ""


class KeyValueItem(Struct, rename="camel"):
    key_value: Datastore
    cursor: str = ""


class OwnerItem(Struct):
    owner: RenderWorkspace
    cursor: str = ""


class DeployItem(Struct):
    deploy: Deploy
    cursor: str = ""


class Refusal(Struct):
    message: str | None = None


LARGEST_REPLY = 16 * 1024 * 1024
LONGEST_REASON = 300
SHORTEST_KEY = 12
USUAL_WAIT = 1.0
"""Seconds to wait for a rate limit without a duration."""


class CallDeadline:
    """When a call has to be answered."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        return self._end - time.monotonic()


class RenderClient:
    """Keeps connections alive. Connects on the first request, in its event loop."""

    def __init__(self, url: str, key: str, timeout: float) -> None:
        self._base = url.rstrip("/")
        self._key = key
        self._timeout = timeout
        self._session: aiohttp.ClientSession | None = None

    async def get(
        self, path: str, query: Sequence[tuple[str, str]], form: type[T], deadline: CallDeadline, what: str
    ) -> T:
        """Returns the decoded reply; raises LogsError, which names `what`."""
        try:
            return await self._once(path, query, form, deadline, what)
        except LogsError as error:
            wait = error.notice.facts.get("wait") if error.notice.kind == "rate_limited" else None
            if wait is None or wait >= deadline.left:
                raise
            logger.info("rate limit: %s again in %.1f s", path, wait)
        await asyncio.sleep(wait)
        return await self._once(path, query, form, deadline, what)

    async def _once(
        self, path: str, query: Sequence[tuple[str, str]], form: type[T], deadline: CallDeadline, what: str
    ) -> T:
        import aiohttp

        seconds = min(self._timeout, deadline.left)
        try:
            async with (
                asyncio.timeout(seconds),
                self._open_session().get(
                    self._base + path, params=list(query), allow_redirects=False
                ) as reply,
            ):
                raw = await _body(reply)
        except TimeoutError:
            raise LogsError("timeout", what=what, seconds=f"{max(0.0, seconds):g}") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            logger.debug("GET %s: %s", path, type(error).__name__)
            raise LogsError("unreachable", what=what, reason=_why(error)) from None
        if reply.status != 200:
            raise self._refusal(reply.status, reply.headers, raw, what)
        if raw is None:
            raise LogsError("garbled", what=what, reason=f"> {LARGEST_REPLY >> 20} MiB")
        try:
            return msgspec.json.decode(self._without_key(raw), type=form)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise LogsError("garbled", what=what, reason=str(error)[:LONGEST_REASON]) from None

    def _open_session(self) -> "aiohttp.ClientSession":
        if self._session is None:
            import aiohttp  # 90 ms of CPU, only for requests

            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=16, keepalive_timeout=15),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),
                headers={
                    "Authorization": f"Bearer {self._key}",
                    "Accept": "application/json",
                    "User-Agent": "toolyard",
                },
            )
        return self._session

    def _refusal(self, status: int, headers: Mapping[str, str], raw: bytes | None, what: str) -> LogsError:
        if status == 401:
            return LogsError("unauthorized")
        if status == 403:
            return LogsError("forbidden", what=what)
        if status == 404:
            return LogsError("not_found", what=what)
        if status == 429:
            wait = _wait(headers)
            return LogsError("rate_limited", wait=wait, seconds=f"{wait:.0f}")
        if status >= 500:
            return LogsError("failing", what=what, status=status)
        return LogsError("refused", what=what, status=status, reason=self._reason(raw))

    def _reason(self, raw: bytes | None) -> str:
        """Render's message on one line, without our key."""
        try:
            text = msgspec.json.decode(raw or b"", type=Refusal).message or "?"
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            text = "?"
        return " ".join(text.replace(self._key, "…").split())[:LONGEST_REASON]

    def _without_key(self, raw: bytes) -> bytes:
        """Removes the key, which a service may have logged. A very short one could be any part of JSON."""
        return raw.replace(self._key.encode(), "…".encode()) if len(self._key) >= SHORTEST_KEY else raw

    async def close(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()


async def _body(reply: "aiohttp.ClientResponse") -> bytes | None:
    """Returns the body; None if it is too large."""
    pieces: list[bytes] = []
    size = 0
    async for piece in reply.content.iter_any():
        size += len(piece)
        if size > LARGEST_REPLY:
            reply.close()
            return None
        pieces.append(piece)
    return b"".join(pieces)


def _wait(headers: Mapping[str, str]) -> float:
    """Seconds until the rate limit ends, from a number or a date."""
    value = headers.get("Retry-After") or headers.get("Ratelimit-Reset") or ""
    try:
        return max(0.0, min(float(value), 1e6))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return USUAL_WAIT


def _why(error: BaseException) -> str:
    """Does not use `str(error)`, which might show what we sent."""
    inner = getattr(error, "os_error", None)
    reason = getattr(inner, "strerror", None) or getattr(error, "strerror", None)
    return str(reason or type(error).__name__)[:LONGEST_REASON]
