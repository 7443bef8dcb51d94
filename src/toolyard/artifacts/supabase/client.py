"""Supabase Storage by its REST API: requests, their errors, and nothing of what they are for.

Most refusals come as HTTP 400 with the status that is meant in the body.
"""

import logging
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from ..remote.bucket import Forbidden
from ..store import Full, StoreError, Unreachable

if TYPE_CHECKING:
    import aiohttp

logger = logging.getLogger("toolyard.artifacts")

LONGEST_REFUSAL = 64 * 1024
NOT_AS_ASKED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What comes of decoding what somebody else sent."""
_STATUS = re.compile("[1-5][0-9]{2}")

T = TypeVar("T")


class _Refusal(msgspec.Struct, rename="camel"):
    message: str = ""
    status_code: str | int = ""


class Refused(StoreError):
    """It answered with an error; `status` is the one that is meant."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status

    def shown(self, bucket: str) -> StoreError:
        """In words fit for users: what the server said stays between it and us."""
        if self.status in (401, 403):
            return Forbidden(f"the bucket {bucket!r} does not allow this to our key")
        if self.status == 413:
            return Full("it is larger than the store takes")
        return Unreachable(f"the store answers with HTTP {self.status}")


class SupabaseClient:
    """Connections are kept alive. Opened with the first request, on the loop that makes it."""

    def __init__(self, url: str, key: str) -> None:
        self.base = f"{url.rstrip('/')}/storage/v1"
        self._headers = {"apikey": key, "Authorization": f"Bearer {key}", "X-Client-Info": "toolyard"}
        self._session: aiohttp.ClientSession | None = None

    @property
    def session(self) -> "aiohttp.ClientSession":
        if self._session is None:
            import aiohttp  # 90 ms of CPU, and only for who uses it

            self._session = aiohttp.ClientSession(
                # Shorter than any server's, so that no upload meets a connection that is just being closed.
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=10),
                cookie_jar=aiohttp.DummyCookieJar(),
                # Whoever asks watches the time.
                timeout=aiohttp.ClientTimeout(total=None),
                headers=self._headers,
            )
        return self._session

    @asynccontextmanager
    async def send(
        self, method: str, path: str, *, data: Any = None, headers: Mapping[str, str] | None = None
    ) -> "AsyncGenerator[aiohttp.ClientResponse]":
        """A reply whose head has come, and is good; Refused when it is not."""
        import aiohttp

        try:
            async with self.session.request(
                method, f"{self.base}/{path}", data=data, headers=headers, allow_redirects=False
            ) as reply:
                if reply.status >= 300:
                    raise await _refusal(reply)
                yield reply
        except TimeoutError:
            raise
        except (aiohttp.ClientError, OSError) as error:
            logger.debug("%s %s: %r", method, path, error)
            raise Unreachable("the store cannot be reached") from None

    async def ask(self, method: str, path: str, form: type[T], body: Any = None) -> T:
        """A whole reply, in the form that it should have."""
        data = None if body is None else msgspec.json.encode(body)
        headers = None if body is None else {"Content-Type": "application/json"}
        async with self.send(method, path, data=data, headers=headers) as reply:
            body = await reply.read()
            try:
                return msgspec.json.decode(body, type=form)
            except NOT_AS_ASKED:
                raise Unreachable("the store answers with something else than was asked for") from None

    async def close(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()


async def _refusal(reply: "aiohttp.ClientResponse") -> Refused:
    raw = await reply.content.read(LONGEST_REFUSAL)
    try:
        told = msgspec.json.decode(raw, type=_Refusal)
    except NOT_AS_ASKED:
        return Refused(reply.status, "")
    meant = str(told.status_code)
    return Refused(int(meant) if _STATUS.fullmatch(meant) else reply.status, told.message)
