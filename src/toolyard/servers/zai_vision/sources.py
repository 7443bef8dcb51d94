"""The bytes of an image or video that a call names: a path in the workspace, an address, or a data URL.

Owns where bytes may come from and how many. Private addresses are refused, checked after DNS and at every
redirect.
"""

import asyncio
import base64
import binascii
import contextlib
import re
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote_to_bytes, urlsplit

from msgspec import Struct

from ...egress import AddressRules, EgressProxy, UnfitAddressError, web_address
from ...workspace import Workspace

if TYPE_CHECKING:
    import aiohttp

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):", re.IGNORECASE)
_DATA = re.compile(r"data:([\w.+-]+/[\w.+-]+)?((?:;[\w.=\"+-]*)*),", re.IGNORECASE)
MAX_ADDRESS = 4096
MAX_REDIRECTS = 5
SPARE_BYTES = 64 * 1024

SourceProblem = Literal[
    "bad_address", "credentials", "scheme", "bad_data", "too_large", "empty", "status", "slow", "unreachable",
    "redirects", "refused", "unknown",
]  # fmt: skip


class SourceError(Exception):
    """An image or video cannot be read; `facts` go into the sentence about `problem`."""

    def __init__(self, problem: SourceProblem, **facts: object) -> None:
        super().__init__(problem)
        self.problem: SourceProblem = problem
        self.facts = facts


class Source(Struct, frozen=True):
    kind: Literal["path", "url", "data"]
    text: str

    @property
    def shown(self) -> str:
        """For results and sentences."""
        return f"{self.text[:40]}…" if self.kind == "data" and len(self.text) > 40 else self.text[:300]


def source_of(given: str) -> Source:
    """Raises SourceError."""
    text = given.strip()
    if text[:5].lower() == "data:":
        return Source("data", text)
    found = _SCHEME.match(text)
    if found is None or text.startswith("/"):
        return Source("path", text)
    scheme = found[1].lower()
    if scheme not in ("http", "https"):
        # A file may have a colon in its name; an address has slashes after it.
        if "://" in text:
            raise SourceError("scheme", scheme=scheme)
        return Source("path", text)
    try:
        address = web_address(text)
        parts = urlsplit(address)
    except (UnfitAddressError, ValueError):
        raise SourceError("bad_address", address=text[:200]) from None
    if len(address) > MAX_ADDRESS:
        raise SourceError("bad_address", address=text[:200])
    if parts.username is not None or parts.password is not None:
        raise SourceError("credentials")
    return Source("url", address)


class SourceReader:
    def __init__(self, rules: AddressRules, max_bytes: int, fetch_seconds: float) -> None:
        self._rules = rules
        self._max_bytes = max_bytes
        self._fetch_seconds = fetch_seconds

    async def read(self, source: Source, workspace: Workspace) -> bytes:
        """Raises SourceError, or WorkspaceError for a path."""
        if source.kind == "path":
            data = await asyncio.to_thread(self._from_workspace, workspace, source.text)
        elif source.kind == "data":
            data = self._from_data(source.text)
        else:
            data = await self._fetched(source.text)
        if not data:
            raise SourceError("empty", source=source.shown)
        return data

    def _from_workspace(self, workspace: Workspace, path: str) -> bytes:
        with workspace.open_read(path) as file:
            data = file.read(self._max_bytes + 1)
        if len(data) > self._max_bytes:
            raise SourceError("too_large", source=path[:200], limit=self._max_bytes)
        return data

    def _from_data(self, text: str) -> bytes:
        found = _DATA.match(text[:300])
        if found is None:
            raise SourceError("bad_data")
        if len(text) > self._max_bytes * 3:
            raise SourceError("too_large", source=text[:40], limit=self._max_bytes)
        try:
            content = text[found.end() :]
            if ";base64" not in found[2].lower():
                return unquote_to_bytes(content)
            return base64.b64decode(re.sub(r"\s+", "", content), validate=True)
        except (binascii.Error, ValueError):
            raise SourceError("bad_data") from None

    async def _fetched(self, address: str) -> bytes:
        import aiohttp  # 90 ms of CPU, and only for addresses

        async with self._proxy() as (proxy, proxy_address):
            try:
                async with (
                    asyncio.timeout(self._fetch_seconds),
                    aiohttp.ClientSession(auto_decompress=False, trust_env=False) as session,
                    session.get(
                        address,
                        proxy=proxy_address,
                        max_redirects=MAX_REDIRECTS,
                        headers={"Accept": "image/*,video/*;q=0.9,*/*;q=0.1", "Accept-Encoding": "identity"},
                    ) as response,
                ):
                    if response.status != 200:
                        raise SourceError("status", source=address[:200], status=response.status)
                    return await self._body(address, response.content)
            except TimeoutError:
                raise SourceError("slow", source=address[:200], seconds=self._fetch_seconds) from None
            except aiohttp.TooManyRedirects:
                raise SourceError("redirects", source=address[:200]) from None
            except (aiohttp.ClientError, OSError, ValueError):
                for failure in proxy.take_failures():
                    problem: SourceProblem = (
                        failure.kind if failure.kind in ("refused", "unknown") else "unreachable"
                    )
                    raise SourceError(
                        problem, source=address[:200], host=failure.host, port=failure.port
                    ) from None
                raise SourceError("unreachable", source=address[:200], host=address[:200], port="") from None

    async def _body(self, address: str, content: "aiohttp.StreamReader") -> bytes:
        found = bytearray()
        async for piece in content.iter_chunked(64 * 1024):
            found += piece
            if len(found) > self._max_bytes:
                raise SourceError("too_large", source=address[:200], limit=self._max_bytes)
        return bytes(found)

    @contextlib.asynccontextmanager
    async def _proxy(self) -> AsyncGenerator[tuple[EgressProxy, str]]:
        proxy = EgressProxy(self._rules, self._max_bytes + SPARE_BYTES)
        try:
            yield proxy, await proxy.open()
        finally:
            await proxy.close()
