"""One pooled HTTP client for every upstream of the process.

Owns the aiohttp session and reading a reply's body, however big. What is said over it is `http_modern`'s
and `http_legacy`'s business.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

from .errors import Garbled, Lost, NotReached, Refused
from .events import Event, EventReader
from .spool import BOUND, Spool, Spooled, SpoolError
from .turns import SLICE, slices, turn

if TYPE_CHECKING:
    import aiohttp

ACCEPT = "application/json, text/event-stream"
MAX_REFUSAL = 64 * 1024
MAX_HOPS = 3
EVENTS_PER_TURN = 20
MAX_UNFINISHED = 2
"""How often a request is sent again whose connection was closed before it was written."""


class HttpClient:
    """Connections are kept alive and shared. Opened with the first request, on the loop that makes it."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    @property
    def session(self) -> "aiohttp.ClientSession":
        if self._session is None:
            import aiohttp  # 90 ms of CPU, and not needed where all upstreams are processes

            from .http_limits import limited_connector

            self._session = aiohttp.ClientSession(
                # How many calls an upstream gets at a time is decided per upstream, not here.
                connector=limited_connector(limit=0, keepalive_timeout=30),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),
                skip_auto_headers=("User-Agent", "Accept-Encoding"),
                requote_redirect_url=False,
                # Unpacking would happen on the loop, and a few bytes may become a great many.
                auto_decompress=False,
            )
        return self._session

    async def close(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()


class Address:
    """Where one upstream is, and what every request to it carries."""

    def __init__(
        self,
        server: str,
        client: HttpClient,
        url: str,
        headers: Mapping[str, str],
        connect_timeout: float,
        max_result: int,
    ) -> None:
        import aiohttp
        from yarl import URL

        from .http_limits import Endless

        self.server = server
        self.url = URL(url)
        if self.url.user is not None and any(name.lower() == "authorization" for name in headers):
            self.url = self.url.with_user(None)  # there can be one of them only
        self._client = client
        self.headers = {
            "Content-Type": "application/json",
            "Accept": ACCEPT,
            "Accept-Encoding": "identity",
            "User-Agent": "toolyard",
            **headers,
        }
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_timeout)
        self._max_result = max_result
        self._failures = (aiohttp.ClientError, asyncio.TimeoutError, OSError)
        self._endless = Endless
        self._unsent = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
        self._unfinished = aiohttp.ClientConnectionResetError

    async def send(
        self, method: str, headers: Mapping[str, str], body: bytes | None, url: Any = None, hops: int = 0
    ) -> "Reply":
        """A reply whose head has come. `url` is another than the upstream's own, for its old transport."""
        for left in range(MAX_UNFINISHED, -1, -1):
            try:
                response = await self._client.session._request(  # pyright: ignore[reportPrivateUsage]
                    method,
                    url or self.url,
                    data=body,
                    headers=headers,
                    allow_redirects=False,
                    timeout=self._timeout,
                )
                break
            except self._unsent as error:
                raise NotReached(self.server, f"cannot be reached ({_why(error)})") from None
            except self._failures as error:
                if not self._is_unfinished(error):
                    raise self.failed(error) from None
                if not left:
                    raise NotReached(self.server, "it closes connections before a request is sent") from None
        else:
            raise AssertionError
        if response.status in (307, 308) and url is None:
            return await self._redirected(method, headers, body, response, hops + 1)
        if response.headers.get("Content-Encoding", "identity") != "identity":
            response.close()
            raise Garbled(self.server, "it compressed its answer, which we did not ask for")
        return Reply(self, response, self._max_result)

    def _is_unfinished(self, error: BaseException) -> bool:
        """The connection was closed before the request was all written, so that it never arrived."""
        told = error if isinstance(error, self._unfinished) else error.__cause__
        # It is also raised, in other words, for one that was written and then not answered.
        return isinstance(told, self._unfinished) and "closing transport" in str(told)

    async def _redirected(
        self,
        method: str,
        headers: Mapping[str, str],
        body: bytes | None,
        response: "aiohttp.ClientResponse",
        hops: int,
    ) -> "Reply":
        """Follow within the same origin, as from /mcp to /mcp/; elsewhere it could carry our headers away."""
        from yarl import URL

        response.release()
        try:
            target = self.url.join(URL(response.headers.get("Location", "")))
            target.origin()
        except ValueError:
            raise Refused(self.server, "it redirects to what is no address") from None
        if hops > MAX_HOPS:
            raise Refused(self.server, "its redirects go round in circles")
        if target.origin() != self.url.origin():
            raise Refused(self.server, f"it redirects to {target.origin()}; configure that address instead")
        self.url = target
        return await self.send(method, headers, body, hops=hops)

    def failed(self, error: BaseException) -> Lost | Garbled:
        if isinstance(error, self._endless):
            return Garbled(self.server, f"it sent {error}")
        return Lost(self.server, f"the connection broke ({_why(error)})")

    @property
    def failures(self) -> tuple[type[BaseException], ...]:
        return self._failures


class Reply:
    """A reply on its way. `release` hands its connection back, `abandon` breaks it off."""

    def __init__(self, address: Address, response: "aiohttp.ClientResponse", max_result: int) -> None:
        self._address = address
        self._response = response
        self._max_result = max_result
        self.status = response.status
        self.headers = response.headers
        content_type = response.headers.get("Content-Type", "")
        self.is_json = content_type.startswith("application/json")
        self.is_stream = content_type.startswith("text/event-stream")

    async def body(self) -> bytes | Spooled:
        """All of it, in memory when it is small."""
        response = self._response
        length = response.headers.get("Content-Length", "")
        try:
            if length.isdigit() and int(length) <= SLICE:
                return await response.read()
            spool = Spool(BOUND, self._max_result)
            try:
                async for chunk in response.content.iter_any():
                    for piece in slices(chunk):
                        spool.write(piece)
                        await turn()
                return spool.finish()
            except BaseException:
                spool.discard()
                raise
        except SpoolError as error:
            self.abandon()
            raise Garbled(self._address.server, str(error)) from None
        except self._address.failures as error:
            self.abandon()
            raise self._address.failed(error) from None
        except BaseException:
            self.abandon()
            raise

    async def refusal(self) -> bytes:
        """The beginning of an error's body."""
        pieces: list[bytes] = []
        size = 0
        try:
            async for chunk in self._response.content.iter_any():
                pieces.append(chunk)
                size += len(chunk)
                if size > MAX_REFUSAL:
                    break
        except self._address.failures:
            pass
        self.abandon() if size > MAX_REFUSAL else self.release()
        return b"".join(pieces)[:MAX_REFUSAL]

    async def events(self) -> AsyncIterator[Event]:
        """Events until the stream ends. Lost when it breaks."""
        reader = EventReader(BOUND, self._max_result)
        try:
            async for chunk in self._response.content.iter_any():
                for number, piece in enumerate(slices(chunk)):
                    if number:
                        await turn()
                    for count, event in enumerate(reader.feed(piece), 1):
                        if count % EVENTS_PER_TURN == 0:
                            await turn()
                        yield event
                if reader.is_long:
                    await turn()
        except SpoolError as error:
            raise Garbled(self._address.server, str(error)) from None
        except self._address.failures as error:
            raise self._address.failed(error) from None
        finally:
            reader.discard()

    def release(self) -> None:
        self._response.release()

    def abandon(self) -> None:
        self._response.close()


def _why(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    inner = getattr(error, "os_error", None)
    strerror = getattr(inner, "strerror", None) or getattr(error, "strerror", None)
    return str(strerror or error or type(error).__name__)[:200]
