"""One JSON API over the pooled client: a request, its reply, and what its refusals mean.

A request is made once. What came back as NotReached was turned away unread and may be made again by
whoever has the time; Lost may have had its effect.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
from msgspec import Struct

from ...wire.text import clean
from ..errors import Garbled, Lost, NotReached, Refused, UpstreamError
from ..http_client import Address, HttpClient, Reply
from ..http_modern import retry_after
from ..spool import Spooled
from .errors import ApiRefused

MAX_REPLY = 64 * 1024 * 1024
MAX_WORDS = 1000
MIN_SECRET = 6
KEY_HEADER = "x-api-key"
_MASK = "***"


class _Words(Struct):
    message: str = ""
    suggested_fix: str = ""


class _Refusal(Struct):
    error: _Words | str = ""
    message: str = ""


def path(*parts: str) -> str:
    """Parts may be anybody's words: each stays one part."""
    return "".join("/" + quote(part, safe="") for part in parts)


class Rest:
    def __init__(
        self,
        server: str,
        client: HttpClient,
        base_url: str,
        headers: Mapping[str, str],
        connect_timeout: float,
        max_reply: int = MAX_REPLY,
    ) -> None:
        self.server = server
        self.base_url = base_url
        self._secrets = [value for value in headers.values() if len(value) >= MIN_SECRET]
        self._open = lambda: Address(
            server, client, base_url, headers, connect_timeout, min(max_reply, MAX_REPLY)
        )
        self._address: Address | None = None

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> bytes:
        return await self._send("GET", f"{path}?{urlencode(query)}" if query else path, None, None)

    async def post(self, path: str, body: Any, headers: Mapping[str, str] | None = None) -> bytes:
        return await self._send("POST", path, msgspec.json.encode(body), headers)

    async def _send(
        self, method: str, path: str, body: bytes | None, more: Mapping[str, str] | None
    ) -> bytes:
        from yarl import URL

        if self._address is None:
            self._address = self._open()
        address = self._address
        url = URL(f"{address.url}".rstrip("/") + path if path else f"{address.url}", encoded=True)
        reply = await address.send(method, {**address.headers, **(more or {})}, body, url)
        if not 200 <= reply.status < 300:
            raise await self._refused(reply)
        return await self._whole(await reply.body())

    async def _whole(self, body: bytes | Spooled) -> bytes:
        if isinstance(body, bytes):
            return body
        try:
            return b"".join([chunk async for chunk in body.chunks()])
        finally:
            body.close()

    async def _refused(self, reply: Reply) -> UpstreamError:
        status = reply.status
        words, hint = self._words(await reply.refusal())
        told = f"it answered HTTP {status}" + (f": {words}" if words else "")
        after = retry_after(reply)
        if status == 429 or (status == 503 and after is not None):
            return NotReached(self.server, told, after)
        if 300 <= status < 400:
            return Refused(self.server, f"{told}; is {self.base_url!r} its address?", status)
        if status < 500:
            return ApiRefused(self.server, status, words or "no reason given", hint)
        return Lost(self.server, told)

    def _words(self, body: bytes) -> tuple[str, str]:
        """What it says of the reason, and what it suggests."""
        try:
            found = msgspec.json.decode(body, type=_Refusal)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return "", ""
        if isinstance(found.error, str):
            return self.without_key(found.error or found.message), ""
        return self.without_key(found.error.message), self.without_key(found.error.suggested_fix)

    def without_key(self, text: str) -> str:
        """Some repeat the key they do not like."""
        for secret in self._secrets:
            text = text.replace(secret, _MASK)
        return clean(text)[:MAX_WORDS]

    def garbled(self, error: Exception) -> Garbled:
        return Garbled(self.server, f"its reply cannot be understood: {self.without_key(str(error))}")
