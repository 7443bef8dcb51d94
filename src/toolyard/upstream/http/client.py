"""HTTP to an upstream: its endpoint, its responses, and the modern era's requests, each standing alone.

Owns the aiohttp session, reading response bodies and event streams of any size, and what HTTP errors mean.
Whatever a response says leaves here without the secrets that its request was sent with.
`direct` has the other HTTP client, `events` splits a stream into events.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import UNSET, Raw, Struct
from multidict import CIMultiDict, CIMultiDictProxy

from ...config.models import Http
from ...config.secrets import parts_of, secret_values
from ...telemetry.conventions import url_for_spans
from ...telemetry.requests import ExchangeSpan, current
from ...wire.errors import UNSUPPORTED_VERSION, ErrorObject, McpError
from ...wire.headers import NAME_PARAMS, encode_value
from ...wire.messages import (
    Id,
    JsonRpcMessage,
    JsonRpcNotification,
    JsonRpcRequest,
    decode_params,
    encode,
)
from ...wire.secrets import KnownSecrets
from ..connection import ChangeWatcher, LegacySessionState, Params, RawResult, RequestListener, UpstreamInfo
from ..errors import (
    MAX_REASON,
    WANTS_LOGIN,
    ConnectionLostError,
    HttpRpcError,
    InvalidReplyError,
    NotReachedError,
    StaleSessionError,
    UpstreamError,
    UpstreamRefusedError,
    says_expired,
)
from ..messages.envelope import read_message, read_result, result_of
from ..messages.slices import SLICE, next_turn, slices
from ..messages.spool import BOUND, Spool, Spooled, SpoolError
from .events import EventReader, SpooledEvent

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL


ACCEPT = "application/json, text/event-stream"
MAX_REFUSAL = 64 * 1024
MAX_HOPS = 3
EVENTS_PER_TURN = 20
MAX_JOINED = 64
MAX_AUTHORIZED = 4
"""How often a request is sent whose credential the server does not accept."""
MAX_UNFINISHED = 2
"""How often a request is sent again whose connection was closed before it was written."""


class HttpResponse(Protocol):
    """A response whose head has come, in the form that aiohttp gives it."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> "CIMultiDictProxy[str]": ...

    @property
    def content(self) -> "HttpContent": ...

    async def read(self) -> bytes: ...

    def release(self) -> object:
        """Let another request use the connection."""
        ...

    def close(self) -> object: ...


class HttpContent(Protocol):
    def iter_any(self) -> AsyncIterator[bytes]: ...


class HttpExchange(Protocol):
    """Sends one request and returns its response; redirects are not followed."""

    async def __call__(
        self,
        method: str,
        url: "URL",
        /,
        *,
        data: bytes | None,
        headers: Mapping[str, str],
        timeout: Any,  # noqa: ASYNC109 (as aiohttp has it)
    ) -> HttpResponse: ...


class HttpFailures(Struct, frozen=True):
    """What an HTTP client raises."""

    any: tuple[type[BaseException], ...]
    unsent: tuple[type[BaseException], ...]
    """The server was not reached, so that nothing of the request was sent."""
    endless: type[BaseException]
    """The server exceeds a limit; the message names the limit and follows the words 'it sent'."""
    unfinished: Callable[[BaseException], bool]
    """Whether the connection was closed before the request was all written, so that it never arrived."""


class HttpClient(Protocol):
    """One of two: `PooledHttpClient` with aiohttp, and `DirectHttpClient`, which costs less to import."""

    @property
    def exchange(self) -> HttpExchange | None:
        """None before the first request."""
        ...

    def open(self) -> HttpExchange:
        """Called with the first request, in the event loop that makes it."""
        ...

    def failures(self) -> HttpFailures: ...

    def timeout(self, connect_seconds: float) -> Any:
        """The `timeout` of an exchange that has so long to connect, and any time to answer."""
        ...

    async def close(self) -> None: ...


class EndpointAuth(Protocol):
    """Authorizes requests to one upstream in the name of one principal."""

    @property
    def in_use(self) -> str:
        """The key or token that is sent now; empty if there is none."""
        ...

    def ready(self, method: str, url: "URL") -> Mapping[str, str] | None:
        """The headers to add, if nothing has to be waited for."""
        ...

    async def headers(self, method: str, url: "URL") -> Mapping[str, str]:
        """The headers to add. Raises CredentialError if there is no credential."""
        ...

    async def refused(
        self, status: int, headers: Mapping[str, str], sent: Mapping[str, str], url: "URL", attempt: int
    ) -> bool:
        """The upstream answered 401 or 403 to what was `sent`; returns whether to send the request again."""
        ...


class PooledHttpClient:
    """The gateway's: connections are kept alive and shared by all upstreams."""

    def __init__(self) -> None:
        self.exchange: HttpExchange | None = None
        self._session: aiohttp.ClientSession | None = None

    def open(self) -> HttpExchange:
        import aiohttp  # 90 ms of CPU, and not needed where all upstreams are processes

        from .limits import LimitedConnector

        self._session = aiohttp.ClientSession(
            # How many calls an upstream gets at a time is decided per upstream, not here.
            connector=LimitedConnector(limit=0, keepalive_timeout=30),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            skip_auto_headers=("User-Agent", "Accept-Encoding"),
            requote_redirect_url=False,
            # Unpacking would happen on the loop, and a few bytes may become a great many.
            auto_decompress=False,
        )
        # Not `request`, which wraps each response in a context manager that nobody here uses.
        send: Any = self._session._request  # pyright: ignore[reportPrivateUsage]
        self.exchange = exchange = partial(send, allow_redirects=False)
        return exchange

    def failures(self) -> HttpFailures:
        import aiohttp

        from .limits import EndlessReplyError

        def unfinished(error: BaseException) -> bool:
            reset = aiohttp.ClientConnectionResetError
            told = error if isinstance(error, reset) else error.__cause__
            # It is also raised, in other words, for one that was written and then not answered.
            return isinstance(told, reset) and "closing transport" in str(told)

        return HttpFailures(
            (aiohttp.ClientError, asyncio.TimeoutError, OSError),
            (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError),
            EndlessReplyError,
            unfinished,
        )

    def timeout(self, connect_seconds: float) -> "aiohttp.ClientTimeout":
        import aiohttp

        return aiohttp.ClientTimeout(total=None, sock_connect=connect_seconds)

    async def close(self) -> None:
        if self._session is not None:
            session, self._session, self.exchange = self._session, None, None
            await session.close()


class TracedResponse:
    """A response that ends its span when it was read, or is given up. Is its own `HttpContent`."""

    __slots__ = ("_response", "_size", "_span", "headers", "status")

    def __init__(self, response: HttpResponse, span: ExchangeSpan) -> None:
        self._response = response
        self._span = span
        self._size = 0
        self.status = response.status
        self.headers = response.headers

    @property
    def content(self) -> "TracedResponse":
        # Not an attribute: an object that refers to itself waits for the garbage collector.
        return self

    async def read(self) -> bytes:
        try:
            body = await self._response.read()
        except BaseException as error:
            self._span.end(error=error)
            raise
        self._span.end(len(body))
        return body

    async def iter_any(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response.content.iter_any():
                self._size += len(chunk)
                yield chunk
        except Exception as error:
            self._span.end(self._size, error)
            raise
        self._span.end(self._size)

    def release(self) -> object:
        self._span.end(self._size)
        return self._response.release()

    def close(self) -> object:
        self._span.end(self._size)
        return self._response.close()


class UpstreamEndpoint:
    """Where one upstream is, and what every request to it carries."""

    def __init__(
        self,
        server: str,
        client: HttpClient,
        url: str,
        headers: Mapping[str, str],
        connect_timeout: float,
        max_result: int,
        auth: EndpointAuth | None = None,
        caller_keys: tuple[str, ...] = (),
        known: Iterable[str] = (),
    ) -> None:
        """`caller_keys` names the headers with callers' own keys; `known` are secrets that it may have been
        sent by others.
        """
        from yarl import URL

        self._auth = auth
        self._caller_keys = caller_keys
        self.sent = KnownSecrets((*secret_values(Http(url=url, headers=dict(headers))), *known))
        """What every request carries, and the last keys or tokens of `auth`."""
        self._joined: dict[int, tuple[Mapping[str, str], Mapping[str, str], Mapping[str, str]]] = {}
        self.server = server
        self._shown = url_for_spans(url)
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
        self._timeout = client.timeout(connect_timeout)
        self._max_result = max_result
        self._failures = client.failures()

    async def send(
        self,
        method: str,
        headers: Mapping[str, str],
        body: bytes | None,
        url: Any = None,
        sent: KnownSecrets | None = None,
    ) -> "UpstreamResponse":
        """A reply whose head has come. `url` is another than the upstream's own, for its old transport.

        `sent` has what a session was sent before, and gets what this request carries.
        """
        secrets = sent or self.sent
        if self._caller_keys and (keys := self._keys_in(headers)):
            if sent is None:
                secrets = secrets.with_more(keys)
            else:
                sent.add(*keys)
        auth = self._auth
        if auth is None:
            return await self._send(method, headers, body, secrets, url)
        attempt = 0
        while True:
            target = url or self.url
            own = auth.ready(method, target) or await auth.headers(method, target)
            secrets.add(auth.in_use)
            reply = await self._send(method, self._authorized(headers, own), body, secrets, url)
            attempt += 1
            if reply.status not in (401, 403) or attempt >= MAX_AUTHORIZED:
                return reply
            try:
                again = await auth.refused(reply.status, reply.clean_headers(), own, target, attempt)
            except BaseException:
                reply.abandon()
                raise
            if not again:
                return reply
            reply.abandon()

    def _keys_in(self, headers: Mapping[str, str]) -> list[str]:
        values = [headers[name] for name in self._caller_keys if name in headers]
        return [part for value in values for part in parts_of(value)]

    def _authorized(self, headers: Mapping[str, str], own: Mapping[str, str]) -> Mapping[str, str]:
        """Both together. The same objects come with every call of a tool, so the last of each is kept."""
        known = self._joined.get(id(headers))
        if known is not None and known[0] is headers and known[1] is own:
            return known[2]
        sent = CIMultiDict(headers)
        sent.update(own)
        if len(self._joined) >= MAX_JOINED:
            self._joined.clear()
        self._joined[id(headers)] = (headers, own, sent)
        return sent

    async def _send(
        self,
        method: str,
        headers: Mapping[str, str],
        body: bytes | None,
        secrets: KnownSecrets,
        url: Any = None,
        hops: int = 0,
    ) -> "UpstreamResponse":
        failures = self._failures
        span: ExchangeSpan | None = None
        opened = 0
        # Of calls only: a GET is a stream that stays open.
        seen = current.get() if method == "POST" else None
        for left in range(MAX_UNFINISHED, -1, -1):
            try:
                exchange = self._client.exchange or self._client.open()
                if seen is not None and seen.exchanges is not None:
                    opened = seen.connections
                    span = seen.exchanges.exchange(method, self._shown, len(body or b""), seen.resends)
                response = await exchange(
                    method, url or self.url, data=body, headers=headers, timeout=self._timeout
                )
                break
            except failures.unsent as error:
                if span is not None:
                    span.end(error=error)
                why = secrets.clean_text(_why(error))
                raise NotReachedError(self.server, f"cannot be reached ({why})") from error
            except failures.any as error:
                if span is not None:
                    span.end(error=error)
                if not failures.unfinished(error):
                    raise self.failed(error, secrets) from error
                if seen is not None:
                    seen.resends += 1
                if not left:
                    raise NotReachedError(
                        self.server, "it closes connections before a request is sent"
                    ) from None
            except asyncio.CancelledError as error:
                if span is not None:
                    span.end(error=error)
                raise
        else:
            raise AssertionError
        if span is not None and seen is not None:
            span.answered(response.status, seen.connections == opened)
            response = TracedResponse(response, span)
        if response.status in (307, 308) and url is None:
            return await self._redirected(method, headers, body, response, secrets, hops + 1)
        found = response.headers
        if found.get("Content-Encoding", "identity") != "identity":
            response.close()
            raise InvalidReplyError(self.server, "it compressed its answer, which we did not ask for")
        kind = found.get("Content-Type", "")
        is_json, is_stream = kind.startswith("application/json"), kind.startswith("text/event-stream")
        return UpstreamResponse(
            self, response, self._max_result, response.status, found, is_json, is_stream, secrets
        )

    async def _redirected(
        self,
        method: str,
        headers: Mapping[str, str],
        body: bytes | None,
        response: HttpResponse,
        secrets: KnownSecrets,
        hops: int,
    ) -> "UpstreamResponse":
        """Follow within the same origin, as from /mcp to /mcp/; elsewhere it could carry our headers away."""
        from yarl import URL

        response.release()
        try:
            target = self.url.join(URL(response.headers.get("Location", "")))
            target.origin()
        except ValueError:
            raise self._moved(response, "it redirects to what is no address") from None
        if hops > MAX_HOPS:
            raise self._moved(response, "its redirects go round in circles")
        if target.origin() != self.url.origin():
            origin = secrets.clean_text(str(target.origin()))
            elsewhere = f"it redirects to {origin}; configure that address instead"
            raise self._moved(response, elsewhere)
        self.url = target
        return await self._send(method, headers, body, secrets, hops=hops)

    def _moved(self, response: HttpResponse, reason: str) -> UpstreamRefusedError:
        error = UpstreamRefusedError(self.server, reason, response.status)
        error.location = response.headers.get("Location")
        return error

    def failed(self, error: BaseException, secrets: KnownSecrets) -> ConnectionLostError | InvalidReplyError:
        if isinstance(error, self._failures.endless):
            return InvalidReplyError(self.server, f"it sent {secrets.clean_text(str(error))}")
        why = secrets.clean_text(_why(error))
        return ConnectionLostError(self.server, f"the connection broke ({why})")

    @property
    def failures(self) -> tuple[type[BaseException], ...]:
        return self._failures.any

    @property
    def has_auth(self) -> bool:
        return self._auth is not None


class UpstreamResponse(Struct, eq=False):
    """A reply whose head has come. `release` hands its connection back, `abandon` breaks it off."""

    _address: UpstreamEndpoint
    _response: HttpResponse
    _max_result: int
    status: int
    headers: "CIMultiDictProxy[str]"
    is_json: bool
    is_stream: bool
    secrets: KnownSecrets
    """That its request was sent with; no text of it that leaves here has them."""

    def clean_headers(self) -> "CIMultiDictProxy[str]":
        """Without them, for whoever quotes a header."""
        if not self.secrets.values:
            return self.headers
        cleaned = [(name, self.secrets.clean_text(value)) for name, value in self.headers.items()]
        return CIMultiDictProxy(CIMultiDict(cleaned))

    @property
    def is_authorized(self) -> bool:
        """Whether its request carried a credential that was obtained for it."""
        return self._address.has_auth

    async def body(self) -> bytes | Spooled:
        """All of it, in memory when it is small."""
        response = self._response
        length = response.headers.get("Content-Length", "")
        try:
            if length.isdigit() and int(length) <= SLICE:
                body = await response.read()
                return self.secrets.clean(body) if self.secrets.values else body
            spool = Spool(BOUND, self._max_result, self.secrets)
            try:
                async for chunk in response.content.iter_any():
                    for piece in slices(chunk):
                        spool.write(piece)
                        await next_turn()
                return spool.finish()
            except BaseException:
                spool.discard()
                raise
        except SpoolError as error:
            self.abandon()
            raise InvalidReplyError(self._address.server, str(error)) from None
        except self._address.failures as error:
            self.abandon()
            raise self._address.failed(error, self.secrets) from error
        except BaseException:
            self.abandon()
            raise

    async def message(self) -> JsonRpcMessage:
        """The one message that it is."""
        try:
            return read_message(self._address.server, await self.body())
        except InvalidReplyError:
            if self.is_json:
                raise
            kind = self.clean_headers().get("Content-Type", "").split(";")[0].strip()[:80]
            raise InvalidReplyError(self._address.server, f"its answer is {kind or 'of no type'}") from None

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
        return self.secrets.clean(b"".join(pieces))[:MAX_REFUSAL]

    async def events(
        self, alive: Callable[[], None] = lambda: None, *, as_they_are: str = ""
    ) -> AsyncIterator[SpooledEvent]:
        """Events until the stream ends. Lost when it breaks. `alive` is called for what comes, pings too.

        Events named `as_they_are` keep the secrets in them: nobody sees those.
        """
        reader = EventReader(BOUND, self._max_result, self.secrets, as_they_are)
        blocks = 0
        try:
            async for chunk in self._response.content.iter_any():
                for number, piece in enumerate(slices(chunk)):
                    if number:
                        await next_turn()
                    for count, event in enumerate(reader.feed(piece), 1):
                        if count % EVENTS_PER_TURN == 0:
                            await next_turn()
                        yield event
                if reader.blocks != blocks:
                    blocks = reader.blocks
                    alive()
                if reader.is_long:
                    await next_turn()
        except SpoolError as error:
            raise InvalidReplyError(self._address.server, str(error)) from None
        except self._address.failures as error:
            raise self._address.failed(error, self.secrets) from error
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


# Without JSON-RPC in the body, this is how servers of another era answer us.
_OTHER_ERA = (400, 404, 405, 406, 415)


MAX_REMEMBERED = 1024


class ModernHttpConnection:
    shares_tokens = False
    busy = False  # nothing is held between requests, so closing it harms none

    def __init__(self, address: UpstreamEndpoint, about: UpstreamInfo) -> None:
        self.server = address.server
        self.about = about
        self.closed = False
        self.standing = LegacySessionState()
        self._address = address
        self._id = 0
        self._headers: dict[tuple[str, bytes], CIMultiDict[str]] = {}
        """By method and the name in the params, as JSON."""
        self._watchers: dict[ChangeWatcher, None] = {}

    async def request(
        self,
        method: str,
        params: Params,
        listener: RequestListener,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        as_id: Id | None = None,
    ) -> RawResult:
        self._id += 1
        id = self._id if as_id is None else as_id
        name = params.get(NAME_PARAMS.get(method, ""))
        # Tools are called again and again, and their headers are the same each time.
        fixed = self._headers.get((method, b"" if name is None else bytes(name)))
        if fixed is None:
            fixed = self._add_headers(method, name)
        if headers:
            fixed = fixed.copy()
            fixed.update(headers)
        reply = await self._address.send("POST", fixed, encode(JsonRpcRequest(id, method, params)))
        if reply.status != 200:
            raise await self._refused(reply, method)
        if reply.is_stream:
            return await self._follow(reply, id, listener)
        if not reply.is_json:
            return result_of(self.server, await reply.message(), id)
        return read_result(self.server, await reply.body(), id)

    def _add_headers(self, method: str, name: Raw | None) -> "CIMultiDict[str]":
        """In the form that aiohttp would otherwise make of them for every request."""
        version = {"MCP-Protocol-Version": self.about.version, "Mcp-Method": method}
        found = CIMultiDict({**self._address.headers, **version})
        if name is not None:
            found["Mcp-Name"] = encode_value(decode_params(name, str))
        if len(self._headers) >= MAX_REMEMBERED:
            self._headers.clear()
        self._headers[method, b"" if name is None else bytes(name)] = found
        return found

    async def _follow(self, reply: UpstreamResponse, id: Id, listener: RequestListener) -> RawResult:
        """A stream: what is said on the way, then the answer."""
        server = self._address.server
        done = False
        try:
            async for event in reply.events(listener.alive):
                if not event.data:
                    continue
                message = read_message(server, event.data)
                if message.is_notification:
                    for watcher in list(self._watchers):
                        watcher(str(message.method), message.params)
                    await listener.notify(str(message.method), message.params)
                elif message.is_request:
                    raise InvalidReplyError(
                        server, f"it sent a request ({message.method!r}), which its era does not know"
                    )
                elif message.id == id:
                    done = True
                    return result_of(server, message, id)
            raise ConnectionLostError(server, "the stream ended without an answer")
        finally:
            # A connection whose stream was read to its answer can be used again, any other not.
            reply.release() if done else reply.abandon()

    async def _refused(self, reply: UpstreamResponse, method: str) -> McpError:
        """What an HTTP error means: the upstream's own words if there are any."""
        body = await reply.refusal()
        error = rpc_error_in(body, status=reply.status)
        if error is not None:
            if error.code == UNSUPPORTED_VERSION:
                self.closed = True  # it was replaced by one of another revision: negotiate anew
                stale = StaleSessionError(self._address.server, "it does not speak this revision any more")
                stale.supported = _supported(error.data)
                return stale
            return error
        if reply.status in _OTHER_ERA or (method == "server/discover" and reply.status in (500, 501)):
            self.closed = True
            if method != "server/discover":  # it spoke our era before: whoever tries again negotiates anew
                stale = StaleSessionError(
                    self.server, f"it answered HTTP {reply.status}, as one of another era would"
                )
                stale.expired = names_session(body)
                return stale
        return refusal(self._address.server, reply, body)

    async def notify(self, method: str, params: Params) -> None:
        fixed = self._headers.get((method, b"")) or self._add_headers(method, None)
        try:
            reply = await self._address.send("POST", fixed, encode(JsonRpcNotification(method, params)))
        except UpstreamError:
            return  # nobody waits for an answer
        reply.abandon()

    def watch(self, watcher: ChangeWatcher) -> None:
        self._watchers[watcher] = None

    def unwatch(self, watcher: ChangeWatcher) -> None:
        self._watchers.pop(watcher, None)

    def adopt(self, listener: RequestListener | None) -> None:
        """A modern upstream says nothing outside of a request."""

    async def close(self) -> None:
        self.closed = True


def rpc_error_in(body: bytes, id: int | None = None, status: int = 0) -> McpError | None:
    """The JSON-RPC error in the body of an HTTP error, if there is one; with `id`, only the answer to it."""
    try:
        message = read_message("", body)
    except UpstreamError:
        return None
    error = message.error
    if error is UNSET or (id is not None and message.id != id):
        return None
    return HttpRpcError(error.code, error.message, error.data, status)


def refusal(server: str, reply: UpstreamResponse, body: bytes = b"") -> UpstreamError:
    """An HTTP error without JSON-RPC in it."""
    error = _refusal(server, reply, body)
    error.status = reply.status
    error.location = reply.clean_headers().get("Location")
    error.said = _words(body)
    return error


def _refusal(server: str, reply: UpstreamResponse, body: bytes) -> UpstreamError:
    status = reply.status
    expired = names_session(body)
    if expired and 400 <= status < 500:
        return UpstreamRefusedError(
            server, f"it answered HTTP {status}: its session is over", status, expired
        )
    if status in (401, 403):
        return UpstreamRefusedError(server, _wanted(server, status, reply), status)
    if status in (429, 503):
        return NotReachedError(server, f"it answered HTTP {status}", retry_after(reply))
    if 400 <= status < 500 or 300 <= status < 400:
        return UpstreamRefusedError(
            server, f"it answered HTTP {status}; is this the address of an MCP endpoint?", status
        )
    return ConnectionLostError(server, f"it answered HTTP {status}")


def _wanted(server: str, status: int, reply: UpstreamResponse) -> str:
    """What a server that wants another credential wants, as far as it says so."""
    said = reply.headers.get("WWW-Authenticate", "").lower()
    if status == 401 and said.startswith(("bearer", "dpop")) and not reply.is_authorized:
        return f"{WANTS_LOGIN}; run `toolyard login {server}`"
    if reply.is_authorized:
        return f"it answered HTTP {status}: it does not accept the credential that we have for it"
    return f"it answered HTTP {status}: it wants other credentials than 'headers' has"


class _Supported(Struct):
    supported: tuple[str, ...] = ()


def _supported(data: Any) -> tuple[str, ...]:
    """The revisions in the data of a refusal."""
    try:
        return msgspec.convert(data, _Supported).supported
    except msgspec.ValidationError:
        return ()


class _Refusal(Struct):
    error: ErrorObject


def _words(body: bytes) -> str:
    """The message of a JSON-RPC error, even of one that names no request."""
    try:
        return msgspec.json.decode(body, type=_Refusal).error.message[:MAX_REASON]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""


def names_session(body: bytes) -> bool:
    """Whether the body of an HTTP error is about a session that is over."""
    return says_expired(body.decode(errors="replace"))


def retry_after(reply: UpstreamResponse) -> float | None:
    """Seconds to wait, if it says so in seconds."""
    try:
        seconds = float(reply.headers.get("Retry-After", ""))
    except ValueError:
        return None
    return seconds if 0 <= seconds < 100_000 else None
