"""One JSON API over the pooled client, and Composio's lists of tools and apps, which need no session.

A request is sent once. The caller may retry after NotReachedError; after ConnectionLostError it may have had
an effect.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec

from ...composio import MAX_DETAIL, NOT_FOUND, VERSIONS, path, read_error
from ...wire.text import clean
from ..errors import (
    ConnectionLostError,
    InvalidReplyError,
    NotReachedError,
    UpstreamError,
    UpstreamRefusedError,
)
from ..http.client import HttpClient, UpstreamEndpoint, UpstreamResponse, retry_after
from ..messages.spool import Spooled
from . import replies
from .api import ComposioRefusedError, Toolkit, ToolRecord

MAX_REPLY = 64 * 1024 * 1024


class JsonApi:
    """Sends requests to one API and reads its errors."""

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
        self._open = lambda: UpstreamEndpoint(
            server, client, base_url, headers, connect_timeout, min(max_reply, MAX_REPLY)
        )
        self._address: UpstreamEndpoint | None = None

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
            refused = await self._refused(reply)
            refused.status = reply.status
            raise refused
        return await self._whole(await reply.body())

    async def _whole(self, body: bytes | Spooled) -> bytes:
        if isinstance(body, bytes):
            return body
        try:
            return b"".join([chunk async for chunk in body.chunks()])
        finally:
            body.close()

    async def _refused(self, reply: UpstreamResponse) -> UpstreamError:
        status = reply.status
        detail, hint = self._read_error(await reply.refusal())
        reason = f"it answered HTTP {status}" + (f": {detail}" if detail else "")
        after = retry_after(reply)
        if status == 429 or (status == 503 and after is not None):
            return NotReachedError(self.server, reason, after)
        if 300 <= status < 400:
            return UpstreamRefusedError(self.server, f"{reason}; is {self.base_url!r} its address?", status)
        if status < 500:
            return ComposioRefusedError(self.server, status, detail or "no reason given", hint)
        return ConnectionLostError(self.server, reason)

    def _read_error(self, body: bytes) -> tuple[str, str]:
        """Return the message of an error and its suggested fix."""
        message, fix = read_error(body)
        return clean(message)[:MAX_DETAIL], clean(fix)[:MAX_DETAIL]

    def invalid_reply(self, error: Exception) -> InvalidReplyError:
        return InvalidReplyError(self.server, f"its reply is invalid: {clean(str(error))[:MAX_DETAIL]}")


T = TypeVar("T")

MAX_PAGES = 20
SLUGS_AT_ONCE = 50


class ListsClient:
    """Reads the lists of tools and apps, from the newest API version that has them."""

    def __init__(self, rest: JsonApi) -> None:
        self._rest = rest

    async def tools(self, slugs: Sequence[str]) -> list[ToolRecord]:
        found: list[ToolRecord] = []
        for start in range(0, len(slugs), SLUGS_AT_ONCE):
            some = ",".join(slugs[start : start + SLUGS_AT_ONCE])
            found += await self._tools({"tool_slugs": some, "limit": str(SLUGS_AT_ONCE)}, SLUGS_AT_ONCE)
        return found

    async def tools_of(self, toolkit: str, limit: int) -> list[ToolRecord]:
        """Return the tools of an app; none if the app is unknown."""
        try:
            return await self._tools({"toolkit_slug": toolkit, "limit": str(min(limit, 1000))}, limit)
        except ComposioRefusedError as error:
            if error.status == 404:
                return []
            raise

    async def _tools(self, query: dict[str, str], limit: int) -> list[ToolRecord]:
        rows = await self._newest(lambda api: self.pages(f"/api/{api}/tools", query, limit))
        return [tool for row in rows if (tool := replies.tool(row)) is not None]

    async def toolkits(self, text: str, category: str, limit: int) -> list[Toolkit]:
        query = {"limit": str(min(limit, 1000)), "search": text, "category": category}
        query = {name: value for name, value in query.items() if value}
        rows = await self._newest(lambda api: self.pages(f"/api/{api}/toolkits", query, limit))
        return [kit for row in rows if (kit := replies.toolkit(row)) is not None]

    async def toolkit(self, slug: str) -> Toolkit | None:
        try:
            return replies.toolkit(
                await self._newest(lambda api: self.read(f"/api/{api}/toolkits{path(slug)}"))
            )
        except ComposioRefusedError as error:
            if error.status in (400, 404):
                return None
            raise

    async def pages(self, path: str, query: dict[str, str], limit: int) -> list[dict[str, Any]]:
        """Read items page by page, up to `limit`."""
        rows: list[dict[str, Any]] = []
        for _ in range(MAX_PAGES):
            some, cursor = replies.page(await self.read(path, query))
            rows += some
            if not cursor or len(rows) >= limit:
                break
            query = {**query, "cursor": cursor}
        return rows[:limit]

    async def read(self, path: str, query: dict[str, str] | None = None) -> dict[str, Any]:
        return self.decode(await self._rest.get(path, query))

    async def post(self, path: str, body: Any, headers: dict[str, str] | None = None) -> dict[str, Any]:
        return self.decode(await self._rest.post(path, body, headers))

    def decode(self, body: bytes) -> dict[str, Any]:
        try:
            return msgspec.json.decode(body, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._rest.invalid_reply(error) from None

    async def _newest(self, work: Callable[[str], Awaitable[T]]) -> T:
        newest, older = VERSIONS
        try:
            return await work(newest)
        except ComposioRefusedError as error:
            if error.status not in NOT_FOUND:
                raise
        return await work(older)


async def gather(works: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Run all at once. If one fails or the caller is cancelled, the others are cancelled."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


_WORDS = re.compile(r"[^\W_]{3,}")


def rank_by_words(items: Iterable[T], text: Callable[[T], str], use_case: str, limit: int) -> list[T]:
    """Return the items that share words with the use case, those with most shared words first."""
    wanted = _words(use_case)
    listed = list(items)
    shared = [len(wanted & _words(text(item))) for item in listed]
    order = sorted(range(len(listed)), key=lambda number: -shared[number])
    return [listed[number] for number in order if shared[number]][:limit]


def _words(text: str) -> set[str]:
    """Return the words of a text, with plurals as singulars."""
    return {word.removesuffix("s") for word in _WORDS.findall(text.lower())}
