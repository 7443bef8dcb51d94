"""Opens connections to an HTTP upstream: finds out which era and which transport it speaks."""

import asyncio
from typing import Protocol

from ...config import Http
from ...wire.errors import METHOD_NOT_FOUND, UNSUPPORTED_VERSION, McpError
from ...wire.versions import LATEST_MODERN, Era
from ..connection import SILENT, ClientProfile, UpstreamConnection, UpstreamInfo
from ..errors import (
    CredentialError,
    HttpRpcError,
    InvalidReplyError,
    NotReachedError,
    StaleSessionError,
    UpstreamError,
    UpstreamRefusedError,
    says_expired,
)
from ..handshake import discovery, read_discovery
from .client import EndpointAuth, HttpClient, ModernHttpConnection, UpstreamEndpoint
from .legacy import LegacyHttpConnection, SseConnection

NO_POST = (400, 404, 405, 406, 410, 415)
"""Statuses with which a server of 2024-11-05, which takes no POST at its address, may answer one."""


class _OpenableConnection(UpstreamConnection, Protocol):
    async def open(self, profile: ClientProfile) -> None: ...


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
        auth: EndpointAuth | None = None,
        open_timeout: float | None = None,
        caller_keys: tuple[str, ...] = (),
        known: tuple[str, ...] = (),
    ) -> None:
        """`era` is the last known era of the upstream.

        `open_timeout` is for the whole handshake, if that may take longer than connecting. The last two are
        as an endpoint has them.
        """
        self._server = server
        self._connect_timeout = open_timeout or connect_timeout
        self._era = era
        self._only_sse = where.transport == "sse"
        self._make_address = lambda: UpstreamEndpoint(
            server, client, where.url, where.headers, connect_timeout, max_result, auth, caller_keys, known
        )
        self._address: UpstreamEndpoint | None = None

    async def open(self, profile: ClientProfile, era: Era | None = None) -> UpstreamConnection:
        if self._address is None:
            self._address = self._make_address()
        try:
            async with asyncio.timeout(self._connect_timeout):
                connection = await self._agree(self._address, profile, era)
        except TimeoutError as error:
            self._era = None
            raise NotReachedError(
                self._server, f"it did not answer within {self._connect_timeout:g} s"
            ) from error
        except UpstreamRefusedError:
            self._era = None
            raise
        except CredentialError:
            raise
        except UpstreamError as error:
            self._era = None
            # No call has been sent yet, so any failure may be retried.
            raise NotReachedError(self._server, error.reason) from error
        self._era = connection.about.era
        return connection

    async def denies_modern(self, connection: UpstreamConnection) -> bool:
        return False

    async def _agree(
        self, address: UpstreamEndpoint, profile: ClientProfile, era: Era | None
    ) -> UpstreamConnection:
        if self._only_sse:
            return await _open(SseConnection(address), profile)
        if (era or self._era or "modern") == "modern":
            return await self._modern(address, profile) or await self._legacy(address, profile)
        try:
            return await self._legacy(address, profile)
        except CredentialError:
            raise
        except UpstreamError as error:
            if era is None or _refuses(error):
                raise  # another server may be there now; the next attempt finds out its era
            found = await self._modern(address, profile)
            if found is None:
                raise error from error.__cause__
            return found

    async def _modern(self, address: UpstreamEndpoint, profile: ClientProfile) -> UpstreamConnection | None:
        """Return None if it is not a modern server."""
        about = await self._discover(address, profile)
        return None if about is None else ModernHttpConnection(address, about)

    async def _legacy(self, address: UpstreamEndpoint, profile: ClientProfile) -> UpstreamConnection:
        legacy = LegacyHttpConnection(address)
        try:
            return await _open(legacy, profile)
        except UpstreamError as error:
            if legacy.refused not in NO_POST:
                raise
            try:
                return await _open(SseConnection(address), profile)
            except UpstreamError:
                raise error from error.__cause__

    async def _discover(self, address: UpstreamEndpoint, profile: ClientProfile) -> UpstreamInfo | None:
        """Return None if it is not a modern server."""
        try:
            return await self._discover_once(address, profile)
        except StaleSessionError:  # it refused our revision, and names it among those it speaks
            return await self._discover_once(address, profile)

    async def _discover_once(self, address: UpstreamEndpoint, profile: ClientProfile) -> UpstreamInfo | None:
        probe = ModernHttpConnection(address, UpstreamInfo(LATEST_MODERN))
        try:
            found = await probe.request("server/discover", discovery(profile), SILENT)
            return read_discovery(self._server, found)
        except InvalidReplyError:
            return None
        except StaleSessionError as error:
            if LATEST_MODERN in error.supported:
                raise
            return None
        except UpstreamError:
            if probe.closed:  # it answered as a legacy server does
                return None
            raise
        except McpError:
            return None


def _refuses(error: UpstreamError) -> bool:
    """Whether a server that knows `initialize` does not want this client."""
    said = error.__cause__
    if not isinstance(said, McpError) or isinstance(said, UpstreamError):
        return False
    is_answer = not isinstance(said, HttpRpcError) or said.status < 400
    return is_answer and said.code not in (METHOD_NOT_FOUND, UNSUPPORTED_VERSION)


async def _open(connection: _OpenableConnection, profile: ClientProfile) -> UpstreamConnection:
    try:
        await connection.open(profile)
    except McpError as error:
        await connection.close()
        if isinstance(error, UpstreamError):
            raise
        reason = f"it rejected 'initialize': {error.message[:200]}"
        if isinstance(error, HttpRpcError) and error.status in (401, 410):
            raise UpstreamRefusedError(
                connection.server, reason, error.status, says_expired(error.message)
            ) from error
        raise NotReachedError(connection.server, reason) from error
    except BaseException:
        await connection.close()
        raise
    return connection
