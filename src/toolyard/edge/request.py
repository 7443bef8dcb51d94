"""One HTTP request, from its headers to its call.

Owns what every HTTP edge asks in this order: may it enter (Host and Origin), who calls (`identify` or the
authenticator, callers' keys), which replies it accepts, and which call it is. Also the ASGI types, and how
long an edge waits (`Pace`). Handles no call: that is the work of `http` and `aws`.
"""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Protocol
from urllib.parse import urlsplit

from msgspec import UNSET, Struct
from msgspec.structs import replace

from ..wire.call import (
    AUTHORIZATION,
    LATEST_HEADER,
    LEGACY_HEADERS,
    NO_CHANNEL,
    Call,
    Caller,
    Channel,
    Identity,
    ModernReader,
    Principal,
    Secret,
    is_modern,
    is_usable_key,
)
from ..wire.errors import InvalidRequest, UnsupportedVersion
from ..wire.headers import MAX_HEADERS, MAX_VALUE_BYTES, RequestHeaders, check_duplicates, check_repeated
from ..wire.messages import JsonRpcMessage
from ..wire.seal import Sealer
from ..wire.versions import LEGACY_VERSIONS, MODERN_VERSIONS

Scope = MutableMapping[str, Any]
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

JSON_CONTENT: tuple[bytes, bytes] = (b"content-type", b"application/json")
SSE_HEADERS: Headers = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


class ClientDisconnectedError(Exception):
    """The client hung up before its request was complete."""


class BodyTooLargeError(Exception):
    """The body is over the limit."""


async def send_json(send: Send, status: int, body: bytes, headers: Headers) -> None:
    head = [JSON_CONTENT, (b"content-length", b"%d" % len(body)), *headers]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})


async def send_empty(send: Send, status: int, headers: Headers) -> None:
    head = [(b"content-length", b"0"), *headers]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": b""})


async def read_body(first: Event, receive: Receive, limit: int) -> bytes:
    """A whole body, of which `first` is the first piece."""
    chunks: list[bytes] = []
    size = 0
    event = first
    while True:
        if event["type"] == "http.disconnect":
            raise ClientDisconnectedError
        chunk: bytes = event.get("body", b"")
        chunks.append(chunk)
        size += len(chunk)
        if size > limit:
            raise BodyTooLargeError
        if not event.get("more_body", False):
            return b"".join(chunks)
        event = await receive()


async def wait_for_disconnect(receive: Receive) -> None:
    """Returns when the client has hung up."""
    while (await receive())["type"] != "http.disconnect":
        pass


class HttpRequest(Struct, gc=False):
    headers: RequestHeaders
    identity: Identity
    receive: Receive
    send: Send
    reply_headers: Headers
    """Headers of every reply: CORS, for a browser."""
    keys: Mapping[str, Secret] | None = None
    """The caller's keys."""


class Pace(Struct, frozen=True, kw_only=True):
    watch_after: float = 0.05
    """A call still running then has its connection watched, so that hanging up cancels it."""
    stream_after: float = 5.0
    """A watched call without an answer by then goes on as a stream, so that nobody takes it for dead."""
    ping_every: float = 15.0
    """A silent stream shows a sign of life this often."""
    keep_streams: float = 60.0
    """A legacy stream that nobody reads is kept this long for its client to come back."""
    read_body: float = 60.0
    """A body that comes in pieces must be complete by then."""
    close_grace: float = 2.0
    """Calls under way have this long to finish when the server closes."""
    ask_timeout: float = 3600.0
    """A legacy client has this long to answer a question."""


LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")


class HostGuard:
    """`hosts` and `origins` add to the local ones; "*" admits any.

    A host may be given with or without its port. An origin on an allowed host is allowed.
    """

    def __init__(self, hosts: list[str] | None, origins: list[str] | None) -> None:
        self._hosts = frozenset(host.lower() for host in [*LOCAL_HOSTS, *(hosts or [])])
        self._origins = frozenset(origin.lower().rstrip("/") for origin in origins or [])
        self._any_host = "*" in self._hosts
        self._last_host = b"\0"  # no host that was ever let in
        self._any_origin = "*" in self._origins

    def refusal(self, headers: RequestHeaders) -> tuple[int, str] | None:
        """Why this request may not enter, as a status and a sentence, or None."""
        raw_host = headers.raw.get(b"host")
        if raw_host != self._last_host and not self._any_host:
            host = headers.get(b"host")
            if not self._is_allowed_host(host):
                what = f"Host {(host or '')[:80]!r} is not allowed"
                return 403, f"{what}; add it with --allow-host or to allowed_hosts"
            self._last_host = raw_host or b"\0"
        if b"origin" in headers.raw:
            origin = headers.get(b"origin") or ""
            if not self._is_allowed_origin(origin):
                what = f"Origin {origin[:80]!r} is not allowed"
                return 403, f"{what}; add it with --allow-origin or to allowed_origins"
        # `raw` keeps one of several headers of a name, so then the pairs are looked at one by one.
        values = (
            headers.raw.values()
            if len(headers.raw) == len(headers.pairs)
            else [value for _, value in headers.pairs]
        )
        if len(headers.pairs) > MAX_HEADERS or max(map(len, values), default=0) > MAX_VALUE_BYTES:
            return 431, f"More than {MAX_HEADERS} headers, or one over {MAX_VALUE_BYTES} bytes"
        return None

    def _is_allowed_host(self, host: str | None) -> bool:
        if not host:
            return False
        host = host.lower()
        if host in self._hosts:
            return True
        name, colon, port = host.rpartition(":")
        return bool(colon) and port.isdigit() and name in self._hosts

    def _is_allowed_origin(self, origin: str) -> bool:
        origin = origin.lower()
        if self._any_origin or origin in self._origins:
            return True
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        return parts.scheme in ("http", "https") and self._is_allowed_host(parts.netloc)

    def cors(self, headers: RequestHeaders) -> Headers:
        """For an origin that was let in: what its browser needs to see."""
        return [
            (b"access-control-allow-origin", headers.raw[b"origin"]),
            (
                b"access-control-expose-headers",
                b"mcp-session-id, mcp-protocol-version, www-authenticate, retry-after",
            ),
            (b"vary", b"origin"),
        ]

    def preflight(self, headers: RequestHeaders, requested: bytes) -> Headers:
        return [
            *self.cors(headers),
            (b"access-control-allow-methods", b"GET, POST, DELETE"),
            (b"access-control-allow-headers", requested or b"content-type"),
            (b"access-control-max-age", b"600"),
        ]


Identify = Callable[[Headers], Principal | Identity | Awaitable[Principal | Identity]]
"""Reads whose request it is from its headers; raises `Refused` to turn it away."""

WITHOUT_TRAILERS = "toolyard.without_trailers"
"""The name of our server's ASGI extension: all headers of this scope came before the body."""
_LIMITED_HTTP = "toolyard.edge.http.server:LimitedHttp"
_MIXES_TRAILERS = "uvicorn.protocols.http.httptools_impl"


class Refused(Exception):
    """For `identify`: answer with this status instead of serving the request."""

    def __init__(self, status: int, message: str, headers: Headers | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers or []


class RequestAuthenticator(Protocol):
    """Finds out who makes a request, from its credentials and where it comes from."""

    async def authenticate(
        self, headers: RequestHeaders, peer: str, *, resource: str, query: bytes = b""
    ) -> Principal:
        """`peer` is the address at the other end of the connection, `resource` the path of the endpoint.

        Raises `Refused` to turn the request away.
        """
        ...


class AuthenticatorSetting(Struct):
    """Who finds out who calls, now. A gateway changes it when its configuration changes."""

    authenticator: RequestAuthenticator | None = None


async def authenticate_caller(
    authenticator: RequestAuthenticator, headers: RequestHeaders, scope: Scope, receive: Receive, path: str
) -> Identity:
    """Raises `Refused`, also where a trailer of the body may stand among the headers."""
    if b"transfer-encoding" in headers.raw:
        _check_trailers(scope, receive)
    client = scope.get("client")
    principal = await authenticator.authenticate(
        headers, client[0] if client else "", resource=path, query=scope.get("query_string", b"")
    )
    return Identity(principal)


async def identify_caller(
    identify: Identify, headers: RequestHeaders, scope: Scope, receive: Receive
) -> Identity:
    """Asks `identify`, which may take each header for the only one of its name, and for one of the request.

    Raises McpError for a header that came twice, and `Refused` where a trailer may stand among the headers.
    """
    if scope.get("http_version") in ("2", "3"):
        headers = _with_one_cookie(headers)
    check_repeated(headers)
    if b"transfer-encoding" in headers.raw:
        _check_trailers(scope, receive)
    found = identify(headers.pairs)
    if not isinstance(found, Principal | Identity):
        found = await found
    return found if isinstance(found, Identity) else Identity(found)


def _with_one_cookie(headers: RequestHeaders) -> RequestHeaders:
    """HTTP/2 and HTTP/3 allow a client to cut its one cookie header into several lines."""
    pieces = [value for name, value in headers.pairs if name == b"cookie"]
    if len(pieces) < 2:
        return headers
    others = [pair for pair in headers.pairs if pair[0] != b"cookie"]
    return RequestHeaders.of([*others, (b"cookie", b"; ".join(pieces))])


def _check_trailers(scope: Scope, receive: Receive) -> None:
    if _mixes_trailers(scope, receive):
        message = "Send a Content-Length: this server cannot tell the trailers of a chunked body from headers"
        raise Refused(411, f"{message}; it runs uvicorn without --http {_LIMITED_HTTP}")


def _mixes_trailers(scope: Scope, receive: Receive) -> bool:
    """uvicorn with httptools, unless it is ours, appends trailers to the headers."""
    cycle: object = getattr(receive, "__self__", None)
    return type(cycle).__module__ == _MIXES_TRAILERS and WITHOUT_TRAILERS not in scope.get("extensions", {})


Admit = Callable[[Secret], Awaitable[None]]
"""Asks whether whoever has this key may enter at all; raises `Refused` when not."""

_BEARER = "bearer "
_PURPOSE = "caller-key"
_CHALLENGE = (b"www-authenticate", b"Bearer")


class CallerKeys(Struct, frozen=True):
    """Where callers put their keys."""

    headers: tuple[str, ...]
    """Lower-case names. In `authorization`, the key stands behind `Bearer`."""
    required: bool = True
    """Whether a request without any is turned away; else it is served without a key."""
    every: bool = False
    """Whether each of the headers is a key of its own; else the one named first counts."""
    admit: Admit | None = None


class CallerKeySetting(Struct):
    """Where callers put their keys now. A gateway changes it when its configuration changes."""

    keys: CallerKeys | None = None


class CallerKeyReader:
    """Reads the keys of requests."""

    def __init__(self, setting: CallerKeySetting, sealer: Sealer) -> None:
        self.setting = setting
        self._sealer = sealer

    async def read(
        self, headers: RequestHeaders, identity: Identity
    ) -> tuple[Identity, Mapping[str, Secret] | None]:
        """The identity that follows from the keys, and the keys.

        Raises `Refused` if a key is missing or unusable.
        """
        keys = self.setting.keys
        if keys is None:
            return identity, None
        found: dict[str, Secret] = {}
        for name in keys.headers:
            value = _key_in(headers, name)
            if value is not None:
                found[name] = Secret(value, self._sealer.fingerprint(value, _PURPOSE))
                if not keys.every:
                    break
        if not found:
            if keys.required:
                raise Refused(401, _missing_key(keys.headers), [_CHALLENGE])
            return identity, None
        if keys.admit is not None:
            try:
                await keys.admit(next(iter(found.values())))
            except BaseException:
                forget_keys(found)
                raise
        principal = identity.principal
        if principal.kind not in ("local", "application"):
            return identity, found  # who asks is known already, and such a key is for a server only
        marks = "+".join(dict.fromkeys(secret.fingerprint for secret in found.values()))
        is_local = principal.tenant == Principal().tenant
        tenant = f"key:{marks}" if is_local else f"{principal.tenant}/key:{marks}"
        return replace(identity, principal=replace(principal, tenant=tenant)), found


def forget_keys(secrets: Mapping[str, Secret]) -> None:
    """The request is over, and so are its keys, whoever still holds them."""
    for secret in secrets.values():
        secret.forget()


def _key_in(headers: RequestHeaders, name: str) -> str | None:
    """A header's key, None when it is not there; what is there and cannot be a key is refused."""
    raw = name.encode()
    if raw not in headers.raw:
        return None
    if sum(1 for known, _ in headers.pairs if known == raw) > 1:
        raise Refused(400, f"The header {name!r} came more than once")
    value = headers.get(raw) or ""
    if name == AUTHORIZATION:
        if value[: len(_BEARER)].lower() != _BEARER:
            return None  # of another scheme, and so not for us
        value = value[len(_BEARER) :].strip()
    if not value:
        return None
    if not is_usable_key(value):
        message = f"Invalid key in {name!r}: use printable ASCII without spaces or commas"
        raise Refused(401, message, [_CHALLENGE])
    return value


def _missing_key(headers: tuple[str, ...]) -> str:
    ways = [f"'{name}: Bearer …'" if name == AUTHORIZATION else f"{name!r}" for name in headers]
    return f"Missing key: send it in the header {' or '.join(ways)}"


MAX_LENGTH_DIGITS = 18
"""Digits of a Content-Length; a longer one is over every limit."""
JSON_TYPE, STREAM_TYPE = b"application/json", b"text/event-stream"
MAX_CACHED_ACCEPTS = 64


class AcceptHeader(Struct, frozen=True):
    json: bool
    streams: bool
    prefers_streams: bool


class AcceptHeaders(dict[bytes | None, AcceptHeader]):
    """Accept headers by their text. Each is parsed once: a client sends the same one every time."""

    def __missing__(self, header: bytes | None) -> AcceptHeader:
        parsed = _parse_accept(header)
        if len(self) < MAX_CACHED_ACCEPTS:
            self[header] = parsed
        return parsed


def _parse_accept(header: bytes | None) -> AcceptHeader:
    if header is None:
        return AcceptHeader(True, True, False)
    ranges = [_range(part) for part in header.split(b",")]
    json, stream = _weight(ranges, JSON_TYPE), _weight(ranges, STREAM_TYPE)
    return AcceptHeader(json is not None, stream is not None, _is_first(stream, json))


_Range = tuple[bytes, float]
_Weight = tuple[float, int]


def _range(part: bytes) -> _Range:
    name, *parameters = (piece.strip().lower() for piece in part.split(b";"))
    for parameter in parameters:
        if parameter.startswith(b"q="):
            return name, _quality(parameter[2:])
    return name, 1.0


def _quality(text: bytes) -> float:
    try:
        return min(1.0, max(0.0, float(text)))
    except ValueError:
        return 1.0


def _weight(ranges: list[_Range], media_type: bytes) -> _Weight | None:
    """How much it is wanted: by its quality, then by its place; None when it is not taken.

    What is meant by a wildcard has no place of its own, and comes after what is named.
    """
    for wanted in (media_type, media_type.split(b"/")[0] + b"/*", b"*/*"):
        for place, (name, quality) in enumerate(ranges):
            if name == wanted:
                behind = place if name == media_type else len(ranges)
                return (quality, -behind) if quality else None
    return None


def _is_first(one: _Weight | None, other: _Weight | None) -> bool:
    return one is not None and (other is None or one > other)


def form_error(headers: RequestHeaders, accepted: AcceptHeader) -> tuple[int, str] | None:
    """The status and the message with which a POST with these headers is refused, or None."""
    content_type = headers.raw.get(b"content-type")
    if content_type is None or content_type.split(b";")[0].strip().lower() != JSON_TYPE:
        return 415, "Content-Type must be application/json"
    if not accepted.json:
        return 406, "Accept must admit application/json and should admit text/event-stream"
    return None


class RequestReader:
    """Makes calls of modern messages."""

    def __init__(self) -> None:
        self._reader = ModernReader()

    def read(
        self,
        headers: RequestHeaders,
        identity: Identity,
        keys: Mapping[str, Secret] | None,
        body: bytes,
        message: JsonRpcMessage,
        channel: Channel,
    ) -> Call | None:
        """The call of a modern message; None for a legacy one."""
        method, id = message.method, message.id
        if len(headers.raw) != len(headers.pairs):
            check_duplicates(headers)
        if isinstance(method, str):
            if id is UNSET and not method.startswith("notifications/"):
                raise InvalidRequest(f"{method[:80]!r} is a request and needs an 'id'")
            params = message.params
            if headers.raw.get(b"mcp-protocol-version") == LATEST_HEADER or is_modern(body, params, headers):
                if not isinstance(id, int | str):
                    return _modern_notification(headers, identity, keys, message, method)
                caller, token = self._reader.read(method, params, headers, identity)
                return Call(method, params, caller, channel, id, token, None, headers.params, keys)
        if headers.raw.get(b"mcp-protocol-version") not in LEGACY_HEADERS:
            check_legacy_version(headers)
        return None


def _modern_notification(
    headers: RequestHeaders,
    identity: Identity,
    keys: Mapping[str, Secret] | None,
    message: JsonRpcMessage,
    method: str,
) -> Call:
    """The modern era defines none over HTTP, and no headers for one but the version."""
    version = headers.version or ""
    if version not in MODERN_VERSIONS:
        raise UnsupportedVersion(version[:80])
    return Call(method, message.params, Caller(version, {}, identity=identity), NO_CHANNEL, secrets=keys)


def check_legacy_version(headers: RequestHeaders) -> None:
    version = headers.version
    if version is not None and version not in LEGACY_VERSIONS:
        raise UnsupportedVersion(version[:80])
