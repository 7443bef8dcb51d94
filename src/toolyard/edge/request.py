"""Reads one HTTP request, from its headers to its call.

Owns the steps of every HTTP edge, in this order: check Host and Origin, identify the caller
(`identify` or an authenticator, callers' keys), read which replies it accepts, and make the call. Also the
ASGI types, and the time limits of an edge (`Pace`). Does not answer calls: `http` and `aws` do.
"""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Protocol
from urllib.parse import urlsplit

from msgspec import UNSET, Struct
from msgspec.structs import replace

from ..languages import said
from ..telemetry.redaction import call_secrets
from ..wire.call import (
    AUTHORIZATION,
    CALLER_TOKEN,
    ISSUED,
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
from ..wire.secrets import KnownSecrets
from ..wire.versions import LEGACY_VERSIONS, MODERN_VERSIONS

Scope = MutableMapping[str, Any]
Event = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[Event], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

# Replies are one caller's own: no cache may keep them, and no browser may take them for a page.
NO_SNIFF: tuple[bytes, bytes] = (b"x-content-type-options", b"nosniff")
NO_STORE: tuple[bytes, bytes] = (b"cache-control", b"no-store")
JSON_HEADERS: Headers = [(b"content-type", b"application/json"), NO_STORE, NO_SNIFF]
PUBLIC_JSON_HEADERS: Headers = [
    (b"content-type", b"application/json"),
    (b"cache-control", b"max-age=300"),
    NO_SNIFF,
]
"""Of a document that is the same for everybody."""
SSE_HEADERS: Headers = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-store, no-transform"),
    NO_SNIFF,
    (b"x-accel-buffering", b"no"),
]
PAGE_HEADERS: Headers = [
    NO_STORE,
    NO_SNIFF,
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
]
"""Of what a browser may be pointed at. Nothing that we show loads anything, runs or belongs into a frame."""


class ClientDisconnectedError(Exception):
    """The client disconnected before its request was complete."""


class BodyTooLargeError(Exception):
    """The body is over the limit."""


async def send_json(
    send: Send, status: int, body: bytes, headers: Headers, standing: Headers = JSON_HEADERS
) -> None:
    """`standing` are the headers that all replies of a kind have."""
    # The length comes last: our server has the headers before it from an earlier reply.
    head = [*standing, *headers, (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})


async def send_empty(send: Send, status: int, headers: Headers) -> None:
    head = [NO_STORE, NO_SNIFF, *headers, (b"content-length", b"0")]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": b""})


async def read_body(first: Event, receive: Receive, limit: int) -> bytes:
    """Read the whole body; `first` is its first piece."""
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
    """Return when the client has disconnected."""
    while (await receive())["type"] != "http.disconnect":
        pass


class HttpRequest(Struct, gc=False):
    headers: RequestHeaders
    identity: Identity
    receive: Receive
    send: Send
    reply_headers: Headers
    """Headers of every reply: CORS, for a browser."""
    is_admitted: bool = False
    """Its host is allowed, and its caller known."""
    keys: Mapping[str, Secret] | None = None
    """The caller's keys."""
    is_valid: Callable[[], Awaitable[bool]] | None = None
    """For a stream that stays open: whether its caller would be let in again, as the same one."""


class Pace(Struct, frozen=True, kw_only=True):
    watch_after: float = 0.05
    """After this time the connection of a running call is watched: a disconnect cancels the call."""
    stream_after: float = 5.0
    """After this time a running call is answered as a stream, so that the client sees it is alive."""
    ping_every: float = 15.0
    """The interval of keep-alive comments on a silent stream."""
    keep_streams: float = 60.0
    """How long a legacy stream without a connection is kept for its client to resume it."""
    read_body: float = 60.0
    """The time limit for a body that arrives in pieces."""
    close_grace: float = 2.0
    """How long running calls may take to finish when the server closes."""
    ask_timeout: float = 3600.0
    """How long a legacy client may take to answer a question."""


LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")


class HostGuard:
    """Checks Host and Origin. `hosts` and `origins` are allowed in addition to local ones; "*" allows any.

    A host may have a port. An origin on an allowed host is allowed.
    """

    def __init__(self, hosts: list[str] | None, origins: list[str] | None) -> None:
        self._hosts = frozenset(host.lower() for host in [*LOCAL_HOSTS, *(hosts or [])])
        self._origins = frozenset(origin.lower().rstrip("/") for origin in origins or [])
        self._any_host = "*" in self._hosts
        self._last_host = b"\0"  # equal to no host
        self._any_origin = "*" in self._origins

    def refusal(self, headers: RequestHeaders) -> tuple[int, str] | None:
        """The status and message with which this request is refused; None if it is allowed."""
        raw_host = headers.raw.get(b"host")
        if raw_host != self._last_host and not self._any_host:
            host = headers.get(b"host")
            if not self._is_allowed_host(host):
                name = (host or "")[:80]
                return 403, said(
                    f"Host {name!r} is not allowed; add it with --allow-host or to allowed_hosts",
                    f"O host {name!r} não é permitido; inclua-o com --allow-host ou em allowed_hosts",
                )
            self._last_host = raw_host or b"\0"
        if b"origin" in headers.raw:
            origin = headers.get(b"origin") or ""
            if not self._is_allowed_origin(origin):
                name = origin[:80]
                return 403, said(
                    f"Origin {name!r} is not allowed; add it with --allow-origin or to allowed_origins",
                    f"A origem {name!r} não é permitida; inclua-a com --allow-origin ou em allowed_origins",
                )
        # `raw` has one header of each name, so if there are more the pairs are checked one by one.
        values = (
            headers.raw.values()
            if len(headers.raw) == len(headers.pairs)
            else [value for _, value in headers.pairs]
        )
        if len(headers.pairs) > MAX_HEADERS or max(map(len, values), default=0) > MAX_VALUE_BYTES:
            return 431, said(
                f"More than {MAX_HEADERS} headers, or one over {MAX_VALUE_BYTES} bytes",
                f"Mais de {MAX_HEADERS} cabeçalhos, ou um acima de {MAX_VALUE_BYTES} bytes",
            )
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
        """The headers that a browser needs for an allowed origin."""
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
"""Reads the caller's identity from the headers; raises `Refused` to refuse the request."""

WITHOUT_TRAILERS = "toolyard.without_trailers"
"""Our server's ASGI extension. It says that the headers of this scope contain no trailers."""
_LIMITED_HTTP = "toolyard.edge.http.server:LimitedHttp"
_MIXES_TRAILERS = "uvicorn.protocols.http.httptools_impl"


class Refused(Exception):
    """Raised by `identify`: the request is answered with this status and not served."""

    def __init__(self, status: int, message: str, headers: Headers | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers or []


class RequestAuthenticator(Protocol):
    """Finds out who makes a request, from its credentials and where it comes from."""

    async def authenticate(
        self,
        headers: RequestHeaders,
        peer: str,
        *,
        resource: str,
        query: bytes = b"",
        agent: str = "",
        proxy: str = "",
    ) -> Principal:
        """`peer` is the client's address, `proxy` that of the configured proxy that it came through, if there
        is one, `resource` the path of the endpoint.

        With an `agent` only the holder of a grant of this name is let in.
        Raises `Refused` to turn the request away.
        """
        ...

    def recall(self, headers: RequestHeaders, resource: str, query: bytes = b"") -> Identity | None:
        """The same for a credential that was verified a moment ago, without waiting; None to ask."""
        ...


class AuthenticatorSetting(Struct):
    """Who finds out who calls, now. A gateway changes it when its configuration changes."""

    authenticator: RequestAuthenticator | None = None


AGENT_EXTENSION = "toolyard.agent"
"""In the extensions of a scope: the agent that the path of the request named."""
PROXY_EXTENSION = "toolyard.proxy"
"""In the extensions of a scope: the address of the configured proxy that holds the connection."""


async def authenticate_caller(
    authenticator: RequestAuthenticator, headers: RequestHeaders, scope: Scope, receive: Receive, path: str
) -> Identity:
    """Raises `Refused`, also where a trailer of the body may stand among the headers."""
    if b"transfer-encoding" in headers.raw:
        _check_trailers(scope, receive)
    client = scope.get("client")
    extensions: Mapping[str, Any] = scope.get("extensions") or {}
    principal = await authenticator.authenticate(
        headers,
        client[0] if client else "",
        resource=path,
        query=scope.get("query_string", b""),
        agent=extensions.get(AGENT_EXTENSION, ""),
        proxy=extensions.get(PROXY_EXTENSION, ""),
    )
    return Identity(principal)


async def identify_caller(
    identify: Identify, headers: RequestHeaders, scope: Scope, receive: Receive
) -> Identity:
    """Call `identify` with headers that have no duplicates and no trailers among them.

    Raises McpError for a duplicate header, and `Refused` if a trailer could be among the headers.
    """
    if scope.get("http_version") in ("2", "3"):
        headers = _with_one_cookie(headers)
    check_repeated(headers)
    if b"transfer-encoding" in headers.raw:
        _check_trailers(scope, receive)
    found = identify(headers.pairs)
    if not isinstance(found, Principal | Identity):
        found = await found
    known = found if isinstance(found, Identity) else Identity(found)
    if known.principal.kind != "local":
        return known
    # The local user may see and approve everything. That is the operator, and nobody whom a hook names.
    return replace(known, principal=replace(known.principal, kind="application"))


def _with_one_cookie(headers: RequestHeaders) -> RequestHeaders:
    """Join cookie headers: HTTP/2 and HTTP/3 allow a client to split its cookies over several lines."""
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
    """Whether trailers may be among the headers, as with uvicorn's own httptools protocol."""
    cycle: object = getattr(receive, "__self__", None)
    return type(cycle).__module__ == _MIXES_TRAILERS and WITHOUT_TRAILERS not in scope.get("extensions", {})


Admit = Callable[[Secret], Awaitable[None]]
"""Checks whether a key is valid; raises `Refused` if not."""

_BEARER = "bearer "
_PURPOSE = "caller-key"
_CHALLENGE = (b"www-authenticate", b"Bearer")


class CallerKeys(Struct, frozen=True):
    """The headers in which callers send their keys."""

    headers: tuple[str, ...]
    """Lower-case names. In `authorization`, the key comes after `Bearer`."""
    required: bool = True
    """Whether a request without a key is refused; otherwise it is served without one."""
    every: bool = False
    """Whether each header carries a separate key; otherwise only the first header present is used."""
    admit: Admit | None = None
    tokens: bool = False
    """Whether calls get the token of an issuer that their caller came with: a server has it exchanged."""


class CallerKeySetting(Struct):
    """The current `CallerKeys`. A gateway replaces them when its configuration changes."""

    keys: CallerKeys | None = None


class CallerKeyReader:
    """Reads the keys of requests."""

    def __init__(self, setting: CallerKeySetting, sealer: Sealer) -> None:
        self.setting = setting
        self._sealer = sealer

    async def read(
        self, headers: RequestHeaders, identity: Identity
    ) -> tuple[Identity, Mapping[str, Secret] | None]:
        """Return the identity that the keys give, and the keys.

        Raises `Refused` if a key is missing or unusable.
        """
        keys = self.setting.keys
        if keys is None:
            return identity, None
        found_identity, found = await self._read(keys, headers, identity)
        sent = headers.raw.get(AUTHORIZATION.encode()) if keys.tokens else None
        if sent is not None and identity.principal.kind in ISSUED:
            token = sent.strip().partition(b" ")[2].strip().decode("latin-1")
            secret = Secret(token, self._sealer.fingerprint(token, _PURPOSE))
            found = {**(found or {}), CALLER_TOKEN: secret}
        return found_identity, found

    async def _read(
        self, keys: CallerKeys, headers: RequestHeaders, identity: Identity
    ) -> tuple[Identity, Mapping[str, Secret] | None]:
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
                hide_in_log(found)
                forget_keys(found)
                raise
        principal = identity.principal
        if principal.kind not in ("local", "application") or principal.subject:
            return identity, found  # who asks is known already, and such a key is for a server only
        marks = "+".join(dict.fromkeys(secret.fingerprint for secret in found.values()))
        if principal.tenant == Principal().tenant:
            return replace(identity, principal=replace(principal, tenant=f"key:{marks}")), found
        # The key tells users of a tenant apart. It leads out of no rule and no limit for that tenant.
        return replace(identity, principal=replace(principal, subject=f"key:{marks}")), found


def hide_in_log(secrets: Mapping[str, Secret]) -> None:
    """Take the keys out of whatever is logged from now on in the context of their request."""
    call_secrets.set(KnownSecrets([secret.reveal() for secret in secrets.values()]))


def forget_keys(secrets: Mapping[str, Secret]) -> None:
    """Erase the keys when their request is over, for all holders of a reference."""
    for secret in secrets.values():
        secret.forget()


def _key_in(headers: RequestHeaders, name: str) -> str | None:
    """The key in a header; None if there is none. Raises `Refused` if it is invalid."""
    raw = name.encode()
    if raw not in headers.raw:
        return None
    if sum(1 for known, _ in headers.pairs if known == raw) > 1:
        raise Refused(
            400,
            said(
                f"The header {name!r} was sent more than once", f"O cabeçalho {name!r} veio mais de uma vez"
            ),
        )
    value = headers.get(raw) or ""
    if name == AUTHORIZATION:
        if value[: len(_BEARER)].lower() != _BEARER:
            return None  # another scheme, so not a key for us
        value = value[len(_BEARER) :].strip()
    if not value:
        return None
    if not is_usable_key(value):
        message = said(
            f"Invalid key in {name!r}: use printable ASCII without spaces or commas",
            f"Chave inválida em {name!r}: use ASCII imprimível, sem espaços nem vírgulas",
        )
        raise Refused(401, message, [_CHALLENGE])
    return value


def _missing_key(headers: tuple[str, ...]) -> str:
    spoken = _spoken(headers)
    return said(
        f"Missing key: send it in the header {spoken}", f"Falta a chave: envie-a no cabeçalho {spoken}"
    )


def _spoken(headers: tuple[str, ...]) -> str:
    return said(" or ", " ou ").join(
        f"'{name}: Bearer …'" if name == AUTHORIZATION else f"{name!r}" for name in headers
    )


def not_found(path: str, endpoints: str, keys: CallerKeys | None) -> str:
    """The message of a 404. Clients that lack a key look for a login, and show the answer to their users."""
    shown = path[:80]
    message = said(
        f"Not found: {shown!r}. The MCP endpoint is {endpoints}",
        f"Não encontrado: {shown!r}. O endpoint MCP é {endpoints}",
    )
    if keys is None or not keys.required:
        return message
    spoken = _spoken(keys.headers)
    return said(
        f"{message}. There is no login: send a key that is accepted in the header {spoken}",
        f"{message}. Não há login: envie uma chave que seja aceita no cabeçalho {spoken}",
    )


def body_over(limit: int) -> str:
    return said(f"The body is over the limit of {limit} bytes", f"O corpo passa do limite de {limit} bytes")


MAX_LENGTH_DIGITS = 18
"""The most digits of a Content-Length; a longer one exceeds every limit."""
JSON_TYPE, STREAM_TYPE = b"application/json", b"text/event-stream"
MAX_CACHED_ACCEPTS = 64


class AcceptHeader(Struct, frozen=True):
    json: bool
    streams: bool
    prefers_streams: bool


class AcceptHeaders(dict[bytes | None, AcceptHeader]):
    """A cache of parsed Accept headers: a client sends the same one every time."""

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
    """The preference for a media type, by quality and then by position; None if it is not accepted.

    A type that only matches a wildcard comes after named types.
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
    """The status and message with which a POST with these headers is refused, or None."""
    content_type = headers.raw.get(b"content-type")
    if content_type is None or content_type.split(b";")[0].strip().lower() != JSON_TYPE:
        return 415, "Content-Type must be application/json"
    if not accepted.json:
        return 406, "Accept must allow application/json and should allow text/event-stream"
    return None


class RequestReader:
    """Makes calls from modern messages."""

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
        """Make the call of a modern message; None for a legacy message."""
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
    """The modern era defines no client notifications over HTTP, so only the version header is checked."""
    version = headers.version or ""
    if version not in MODERN_VERSIONS:
        raise UnsupportedVersion(version[:80])
    return Call(method, message.params, Caller(version, {}, identity=identity), NO_CHANNEL, secrets=keys)


def check_legacy_version(headers: RequestHeaders) -> None:
    version = headers.version
    if version is not None and version not in LEGACY_VERSIONS:
        raise UnsupportedVersion(version[:80])
