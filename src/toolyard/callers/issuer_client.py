"""HTTP to issuers: small documents, within limits of time and size.

Follows no redirect, sends no credential except the one it is given, and never fetches over plain HTTP
what was configured with HTTPS. Knows nothing of what the documents say.
"""

from collections.abc import Mapping
from urllib.parse import urlencode, urlsplit

from msgspec import Struct

from ..rest.http.client import ApiOrigin, BaseUrlError, RestClient, RestRequest
from ..rest.http.connection import RestTransportError
from .errors import IssuerUnavailableError

LOOPBACK = ("localhost", "127.0.0.1", "::1")
MAX_CLIENTS = 32
"""Origins whose connections are kept: metadata could name a new one each time."""


class IssuerReply(Struct, frozen=True):
    status: int
    body: bytes


class IssuerClient:
    def __init__(self, timeout: float = 5.0) -> None:
        self._timeout = timeout
        self._clients: dict[str, RestClient] = {}

    async def get(self, url: str, limit: int, accept: str = "application/json") -> IssuerReply:
        """Raises IssuerUnavailableError if there is no complete reply within the limits."""
        return await self._send(url, "GET", {"Accept": accept}, b"", limit)

    async def post(
        self, url: str, form: Mapping[str, str], headers: Mapping[str, str], limit: int
    ) -> IssuerReply:
        """Raises IssuerUnavailableError if there is no complete reply within the limits."""
        sent = {**headers, "Content-Type": "application/x-www-form-urlencoded"}
        return await self._send(url, "POST", sent, urlencode(form).encode(), limit)

    async def close(self) -> None:
        clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            await client.close()

    async def _send(
        self, url: str, method: str, headers: dict[str, str], body: bytes, limit: int
    ) -> IssuerReply:
        client, target = await self._client(url)
        try:
            request = RestRequest(method, target, headers, body, repeatable=True)
            reply = await client.send(request, self._timeout, limit)
        except (RestTransportError, ValueError) as error:
            raise IssuerUnavailableError(f"{display_url(url)}: {error}") from None
        return IssuerReply(reply.status, reply.body)

    async def _client(self, url: str) -> tuple[RestClient, str]:
        try:
            parts = urlsplit(url)
            origin = ApiOrigin.parse(f"{parts.scheme}://{parts.netloc}")
        except (ValueError, BaseUrlError):
            raise IssuerUnavailableError(f"{display_url(url)}: the address cannot be used") from None
        key = f"{parts.scheme}://{parts.netloc}"
        if key not in self._clients:
            while len(self._clients) >= MAX_CLIENTS:
                await self._clients.pop(next(iter(self._clients))).close()
            self._clients[key] = RestClient(origin)
        query = f"?{parts.query}" if parts.query else ""
        return self._clients[key], f"{parts.path or '/'}{query}"


def is_secure(url: str) -> bool:
    """Whether nobody on the way can change what is read there: HTTPS, or this machine."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK)


def display_url(url: str) -> str:
    """For messages: without query and user."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an invalid address"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"[:200]
