"""One HTTP request, from its headers to its call.

Owns what every HTTP edge asks in this order: may it enter (Host and Origin), who calls (`identify`,
callers' keys), which replies it accepts, and which call it is. Also the ASGI types, and how long an edge
waits (`Pace`). Handles no call: that is the work of `http` and `aws`.
"""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from msgspec import UNSET, Struct
from msgspec.structs import replace

from ..wire.call import (
    AUTHORIZATION,
    NO_CHANNEL,
    Call,
    Caller,
    Identity,
    ModernReader,
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


def check_content_length(length: bytes | None, limit: int) -> None:
    """Refuse by its Content-Length a body that would be refused anyway."""
    if length is not None and length.isdigit() and (len(length) > 18 or int(length) > limit):
        raise BodyTooLargeError


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
    head: RequestHeaders
    identity: Identity
    receive: Receive
    send: Send
    headers: Headers
    """What every answer carries: CORS, for a browser."""
    secrets: Mapping[str, Secret] | None = None
    """The keys that came with it."""


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

    def refusal(self, head: RequestHeaders) -> tuple[int, str] | None:
        """Why this request may not enter, as a status and a sentence, or None."""
        raw_host = head.raw.get(b"host")
        if raw_host != self._last_host and not self._any_host:
            host = head.get(b"host")
            if not self._known_host(host):
                what = f"Host {(host or '')[:80]!r} is not allowed"
                return 403, f"{what}; add it with --allow-host or to allowed_hosts"
            self._last_host = raw_host or b"\0"
        if b"origin" in head.raw:
            origin = head.get(b"origin") or ""
            if not self._known_origin(origin):
                what = f"Origin {origin[:80]!r} is not allowed"
                return 403, f"{what}; add it with --allow-origin or to allowed_origins"
        # `raw` keeps one of several headers of a name, so then the pairs are looked at one by one.
        values = head.raw.values() if len(head.raw) == len(head.pairs) else [value for _, value in head.pairs]
        if len(head.pairs) > MAX_HEADERS or max(map(len, values), default=0) > MAX_VALUE_BYTES:
            return 431, f"More than {MAX_HEADERS} headers, or one over {MAX_VALUE_BYTES} bytes"
        return None

    def _known_host(self, host: str | None) -> bool:
        if not host:
            return False
        host = host.lower()
        if host in self._hosts:
            return True
        name, colon, port = host.rpartition(":")
        return bool(colon) and port.isdigit() and name in self._hosts

    def _known_origin(self, origin: str) -> bool:
        origin = origin.lower()
        if self._any_origin or origin in self._origins:
            return True
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        return parts.scheme in ("http", "https") and self._known_host(parts.netloc)

    def cors(self, head: RequestHeaders) -> Headers:
        """For an origin that was let in: what its browser needs to see."""
        return [
            (b"access-control-allow-origin", head.raw[b"origin"]),
            (b"access-control-expose-headers", b"mcp-session-id, mcp-protocol-version"),
            (b"vary", b"origin"),
        ]

    def preflight(self, head: RequestHeaders, requested: bytes) -> Headers:
        return [
            *self.cors(head),
            (b"access-control-allow-methods", b"GET, POST, DELETE"),
            (b"access-control-allow-headers", requested or b"content-type"),
            (b"access-control-max-age", b"600"),
        ]


Identify = Callable[[Headers], Identity | Awaitable[Identity]]
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


async def identify_caller(
    identify: Identify, head: RequestHeaders, scope: Scope, receive: Receive
) -> Identity:
    """Asks `identify`, which may take each header for the only one of its name, and for one of the request.

    Raises McpError for a header that came twice, and `Refused` where a trailer may stand among the headers.
    """
    if scope.get("http_version") in ("2", "3"):
        head = _with_one_cookie(head)
    check_repeated(head)
    if b"transfer-encoding" in head.raw and _mixes_trailers(scope, receive):
        message = "Send a Content-Length: this server cannot tell the trailers of a chunked body from headers"
        raise Refused(411, f"{message}; it runs uvicorn without --http {_LIMITED_HTTP}")
    found = identify(head.pairs)
    return found if isinstance(found, Identity) else await found


def _with_one_cookie(head: RequestHeaders) -> RequestHeaders:
    """HTTP/2 and HTTP/3 allow a client to cut its one cookie header into several lines."""
    pieces = [value for name, value in head.pairs if name == b"cookie"]
    if len(pieces) < 2:
        return head
    others = [pair for pair in head.pairs if pair[0] != b"cookie"]
    return RequestHeaders([*others, (b"cookie", b"; ".join(pieces))])


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


class CallerKeyReader:
    """Reads the keys of requests."""

    def __init__(self, keys: Callable[[], CallerKeys | None], sealer: Sealer) -> None:
        self._keys = keys
        self._sealer = sealer

    async def enter(
        self, head: RequestHeaders, identity: Identity
    ) -> tuple[Identity, Mapping[str, Secret] | None]:
        """Whose request it is by its keys, and the keys; raises `Refused` when one is missing or unusable."""
        keys = self._keys()
        if keys is None:
            return identity, None
        found: dict[str, Secret] = {}
        for name in keys.headers:
            value = _key_in(head, name)
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
        marks = "+".join(dict.fromkeys(secret.fingerprint for secret in found.values()))
        tenant = f"key:{marks}" if identity.tenant == Identity().tenant else f"{identity.tenant}/key:{marks}"
        return replace(identity, tenant=tenant), found


def forget_keys(secrets: Mapping[str, Secret]) -> None:
    """The request is over, and so are its keys, whoever still holds them."""
    for secret in secrets.values():
        secret.forget()


def _key_in(head: RequestHeaders, name: str) -> str | None:
    """A header's key, None when it is not there; what is there and cannot be a key is refused."""
    raw = name.encode()
    if raw not in head.raw:
        return None
    if sum(1 for known, _ in head.pairs if known == raw) > 1:
        raise Refused(400, f"The header {name!r} came more than once")
    value = head.get(raw) or ""
    if name == AUTHORIZATION:
        if value[: len(_BEARER)].lower() != _BEARER:
            return None  # of another scheme, and so not for us
        value = value[len(_BEARER) :].strip()
    if not value:
        return None
    if not is_usable_key(value):
        message = (
            f"The key in {name!r} cannot be used: one of printable ASCII is needed, without blanks or commas"
        )
        raise Refused(401, message, [_CHALLENGE])
    return value


def _missing_key(headers: tuple[str, ...]) -> str:
    ways = [f"'{name}: Bearer …'" if name == AUTHORIZATION else f"{name!r}" for name in headers]
    return f"Your key is missing: send it in the header {' or '.join(ways)}"


JSON_TYPE, STREAM_TYPE = b"application/json", b"text/event-stream"
MAX_CACHED_ACCEPTS = 64


class AcceptHeader(Struct, frozen=True):
    json: bool
    streams: bool
    rather_streams: bool


class AcceptParser:
    """Reads each header once: a client says the same every time."""

    def __init__(self) -> None:
        self._known: dict[bytes | None, AcceptHeader] = {}

    def of(self, header: bytes | None) -> AcceptHeader:
        known = self._known.get(header)
        if known is None:
            known = _read_accept(header)
            if len(self._known) < MAX_CACHED_ACCEPTS:
                self._known[header] = known
        return known


def _read_accept(header: bytes | None) -> AcceptHeader:
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


_JSON_TYPE = b"application/json"


def form_error(head: RequestHeaders, accepted: AcceptHeader) -> tuple[int, str] | None:
    """Why a POST with these headers is not read, as a status and a sentence, or None."""
    content_type = head.raw.get(b"content-type")
    if content_type != _JSON_TYPE and not _is_json(content_type):
        return 415, "Content-Type must be application/json"
    if not accepted.json:
        return 406, "Accept must admit application/json and should admit text/event-stream"
    return None


def _is_json(content_type: bytes | None) -> bool:
    return content_type is not None and content_type.split(b";")[0].strip().lower() == _JSON_TYPE


class RequestReader:
    """Reads calls; remembers what modern clients say of themselves every time."""

    def __init__(self) -> None:
        self._reader = ModernReader()

    def call_of(
        self, head: RequestHeaders, identity: Identity, body: bytes, message: JsonRpcMessage
    ) -> Call | None:
        """A modern message as a call, None for a legacy one."""
        method, id = message.method, message.id
        if len(head.raw) != len(head.pairs):
            check_duplicates(head)
        if isinstance(method, str):
            if id is UNSET and not method.startswith("notifications/"):
                raise InvalidRequest(f"{method[:80]!r} is a request and needs an 'id'")
            if is_modern(body, message.params, head):
                if isinstance(id, int | str):
                    caller, token = self._reader.read(method, message.params, head, identity)
                    return Call(method, message.params, caller, NO_CHANNEL, id, token, None, head.params)
                return _modern_notification(head, identity, message, method)
        check_legacy_version(head)
        return None


def _modern_notification(
    head: RequestHeaders, identity: Identity, message: JsonRpcMessage, method: str
) -> Call:
    """The modern era defines none over HTTP, and no headers for one but the version."""
    version = head.version or ""
    if version not in MODERN_VERSIONS:
        raise UnsupportedVersion(version[:80])
    return Call(method, message.params, Caller(version, {}, identity=identity), NO_CHANNEL)


def check_legacy_version(head: RequestHeaders) -> None:
    version = head.version
    if version is not None and version not in LEGACY_VERSIONS:
        raise UnsupportedVersion(version[:80])
