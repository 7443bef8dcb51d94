"""An upstream at an address: finding out which era, and which transport, it speaks."""

import asyncio
from typing import Any

from ..config import Http
from ..wire.errors import McpError
from ..wire.versions import LATEST_MODERN, Era
from .errors import Garbled, NotReached, Refused, Spoken, UpstreamError
from .expiry import says_expired
from .handshake import DISCOVER, read_discovery
from .http_client import Address, HttpClient
from .http_legacy import LegacyHttp
from .http_modern import ModernHttp
from .http_old import OldSse
from .link import DEAF, About, Link, Profile

NO_POST = (400, 404, 405, 406, 410, 415)
"""How a server of 2024-11-05, which knows no POST at its address, may answer one."""


class HttpConnector:
    activity = ""

    def __init__(
        self,
        server: str,
        where: Http,
        client: HttpClient,
        connect_timeout: float,
        max_result: int,
        era: Era | None = None,
        first: Era = "modern",
    ) -> None:
        """`era` is what it spoke when last seen, `first` what is tried where nothing is known."""
        self._first = first
        self._server = server
        self._connect_timeout = connect_timeout
        self._era = era
        self._only_old = where.transport == "sse"
        self._make_address = lambda: Address(
            server, client, where.url, where.headers, connect_timeout, max_result
        )
        self._address: Address | None = None

    async def open(self, profile: Profile) -> Link:
        if self._address is None:
            self._address = self._make_address()
        try:
            async with asyncio.timeout(self._connect_timeout):
                link = await self._agree(self._address, profile)
        except TimeoutError:
            self._era = None
            raise NotReached(self._server, f"it did not answer within {self._connect_timeout:g} s") from None
        except Refused:
            self._era = None
            raise
        except UpstreamError as error:
            self._era = None
            # Nothing of a caller's was under way yet, so whatever happened, it may be tried again.
            raise NotReached(self._server, error.reason) from None
        self._era = link.about.era
        return link

    async def _agree(self, address: Address, profile: Profile) -> Link:
        if self._only_old:
            return await _opened(OldSse(address), profile)
        if (self._era or self._first) == "modern":
            return await self._modern(address) or await self._legacy(address, profile)
        try:
            return await self._legacy(address, profile)
        except UpstreamError as error:
            if self._era is not None:  # it may be another server now, which whoever tries again finds out
                raise
            found = await self._modern(address)
            if found is None:
                raise error from None
            return found

    async def _modern(self, address: Address) -> Link | None:
        """None when it is not a modern server."""
        about = await self._discover(address)
        return None if about is None else ModernHttp(address, about)

    async def _legacy(self, address: Address, profile: Profile) -> Link:
        legacy = LegacyHttp(address)
        try:
            return await _opened(legacy, profile)
        except UpstreamError as error:
            if legacy.refused not in NO_POST:
                raise
            try:
                return await _opened(OldSse(address), profile)
            except UpstreamError:
                raise error from None

    async def _discover(self, address: Address) -> About | None:
        """None when it is not a modern server, whatever it said instead."""
        asking = ModernHttp(address, About(LATEST_MODERN))
        try:
            return read_discovery(self._server, await asking.request("server/discover", DISCOVER, DEAF))
        except Garbled:
            return None
        except UpstreamError:
            if asking.closed:  # it answered, in another era's way
                return None
            raise
        except McpError:
            return None


async def _opened(link: Any, profile: Profile) -> Link:
    try:
        await link.open(profile)
    except McpError as error:
        await link.close()
        if isinstance(error, UpstreamError):
            raise
        reason = f"it refused to begin: {error.message[:200]}"
        if isinstance(error, Spoken) and error.status in (401, 410):
            raise Refused(link.server, reason, error.status, says_expired(error.message)) from None
        raise NotReached(link.server, reason) from None
    except BaseException:
        await link.close()
        raise
    return link
