"""The events that bring HTTP to a function, and the replies AWS takes back.

Knows Function URLs, API Gateway (payloads 1.0 and 2.0) and load balancers. Knows nothing of MCP.
"""

import binascii
import re
import sys
from typing import Any, Literal, Protocol, cast

from msgspec import Struct

from ..request import Headers

EventKind = Literal["v2", "v1", "alb", "alb-multi"]
LambdaEvent = dict[str, Any]

MEGABYTE = 1024 * 1024
MAX_EVENT_BYTES: dict[EventKind, int] = {
    "v2": 6 * MEGABYTE,
    "v1": 6 * MEGABYTE,
    "alb": MEGABYTE,
    "alb-multi": MEGABYTE,
}
"""What AWS carries in one event or reply, as JSON: a function's limit, or the load balancer's lower one."""
_ROOT_STAGE = "$default"
_DOMAIN = re.compile(r"[A-Za-z0-9.-]{1,253}")


class BadEventError(ValueError):
    """The event is not an HTTP request, or its body cannot be read; the message says why."""


class EventRequest(Struct, frozen=True):
    method: str
    path: str
    headers: Headers
    """Names in lower case."""
    body: bytes
    kind: EventKind
    peer: str = ""
    """The address that AWS says the request came from; a load balancer does not say."""
    query: bytes = b""
    domain: str = ""
    """The host by which AWS routed it here; a load balancer does not say, and passes on any Host."""


def kind_of(event: Any) -> EventKind:
    """In which form the answer has to be, even where the event cannot be read."""
    if not isinstance(event, dict):
        return "v2"
    known = cast(LambdaEvent, event)
    if "elb" in _object(known, "requestContext"):
        return "alb-multi" if "multiValueHeaders" in known else "alb"
    return "v1" if "httpMethod" in known else "v2"


def read_event(event: Any) -> EventRequest:
    """The HTTP request in an event; raises `BadEvent`."""
    if not isinstance(event, dict):
        raise BadEventError(f"An HTTP event is an object, not {type(event).__name__!r}")
    known, kind = cast(LambdaEvent, event), kind_of(cast(Any, event))
    context = _object(known, "requestContext")
    if kind == "v2":
        http = _object(context, "http")
        method, path = http.get("method"), known.get("rawPath", http.get("path"))
        path = _without_stage(path, context.get("stage"))
    else:
        method, path = known.get("httpMethod"), known.get("path")
    if not isinstance(method, str) or not method:
        where = "requestContext.http.method" if kind == "v2" else "httpMethod"
        raise BadEventError(
            f"The event has no {where!r}; HTTP comes by a Function URL, API Gateway or a balancer"
        )
    if not isinstance(path, str):
        raise BadEventError(f"The event has no {'rawPath' if kind == 'v2' else 'path'!r}")
    peer = _object(context, "http").get("sourceIp") or _object(context, "identity").get("sourceIp")
    return EventRequest(
        method.upper(),
        path or "/",
        _headers(known),
        _body(known),
        kind,
        peer if isinstance(peer, str) else "",
        _query(known),
        _domain(context) if kind in ("v1", "v2") else "",
    )


def _domain(context: LambdaEvent) -> str:
    domain = context.get("domainName")
    return domain if isinstance(domain, str) and _DOMAIN.fullmatch(domain) else ""


def _query(event: LambdaEvent) -> bytes:
    raw = event.get("rawQueryString")
    if isinstance(raw, str):
        return raw.encode(errors="replace")
    names = {**_object(event, "queryStringParameters"), **_object(event, "multiValueQueryStringParameters")}
    return "&".join(f"{name}=" for name in names).encode(errors="replace")


def _object(event: LambdaEvent, name: str) -> LambdaEvent:
    value = event.get(name)
    return cast(LambdaEvent, value) if isinstance(value, dict) else {}


def _without_stage(path: Any, stage: Any) -> Any:
    """API Gateway puts a stage that is not the default one in front of the path."""
    if isinstance(path, str) and isinstance(stage, str) and stage and stage != _ROOT_STAGE:
        start = f"/{stage}"
        if path == start or path.startswith(f"{start}/"):
            return path[len(start) :]
    return path


def _headers(event: LambdaEvent) -> Headers:
    """What came several times stays several, where the event tells: a name in two cases, a list of values."""
    found: Headers = []
    many = _object(event, "multiValueHeaders")
    for name, values in many.items():
        for value in cast(list[Any], values) if isinstance(values, list) else [values]:
            found.append(_header(name, value))
    if not many:
        found.extend(_header(name, value) for name, value in _object(event, "headers").items())
    cookies = event.get("cookies")
    if isinstance(cookies, list) and cookies:  # payload 2.0 takes them out of the headers
        pieces = [_header("cookie", value)[1] for value in cast(list[Any], cookies)]
        found = [pair for pair in found if pair[0] != b"cookie"]
        found.append((b"cookie", b"; ".join(pieces)))
    return found


def _header(name: Any, value: Any) -> tuple[bytes, bytes]:
    if not isinstance(name, str) or not isinstance(value, str):
        raise BadEventError(f"The header {str(name)[:80]!r} has no text as its value")
    try:
        return name.lower().encode("latin-1"), value.encode()
    except UnicodeEncodeError:
        raise BadEventError(f"The header {name[:80]!a} has characters that no header has") from None


def _body(event: LambdaEvent) -> bytes:
    body = event.get("body")
    if body is None:
        return b""
    if not isinstance(body, str):
        raise BadEventError(f"The event's 'body' is text, not {type(body).__name__!r}")
    try:
        if event.get("isBase64Encoded"):
            return binascii.a2b_base64(body.encode("ascii"), strict_mode=True)
        return body.encode()
    except UnicodeEncodeError:
        raise BadEventError("The event's 'body' has characters that are no text") from None
    except binascii.Error as error:
        raise BadEventError(f"The event says its 'body' is base64, and it is not: {error}") from None


def to_reply(status: int, headers: Headers, body: bytes, kind: EventKind) -> LambdaEvent:
    """A reply as the sender of such an event takes it. Our bodies are text, so none is encoded."""
    reply: LambdaEvent = {"statusCode": status, "body": body.decode(), "isBase64Encoded": False}
    if kind.startswith("alb"):
        reply["statusDescription"] = f"{status} {_PHRASES.get(status, 'Error')}"
    if kind == "alb-multi":
        many: dict[str, list[str]] = {}
        for name, value in headers:
            many.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))
        reply["multiValueHeaders"] = many
    else:
        reply["headers"] = joined_headers(headers)
    return reply


def joined_headers(headers: Headers) -> dict[str, str]:
    """One text for each name."""
    found: dict[str, str] = {}
    for raw, value in headers:
        name, text = raw.decode("latin-1"), value.decode("latin-1")
        found[name] = f"{found[name]}, {text}" if name in found else text
    return found


_PHRASES = {
    200: "OK",
    202: "Accepted",
    204: "No Content",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    413: "Content Too Large",
    415: "Unsupported Media Type",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
    504: "Gateway Timeout",
}
"""A load balancer wants the words too."""


ENVELOPE = 16 * 1024
"""What a reply needs beside its body: the headers, the names of the fields."""
SMALL = 16 * 1024
"""Up to here a piece is taken for as heavy as it can be: to count costs 20 µs, and a call has 500."""
ASCII_ALONE = sys.version_info < (3, 12)
"""How AWS's own loop writes replies in its older runtimes: `é`, which is two bytes, as six."""
_HEAVIEST = 3 if ASCII_ALONE else 2
_ESCAPED = bytes(range(0x7F, 0x100))


class ResponseWriter(Protocol):
    @property
    def remaining(self) -> int:
        """How many bytes can still be written, as `weight` counts them."""
        ...

    def size_of(self, chunk: bytes) -> int:
        """How much of what remains a piece takes."""
        ...

    async def start(self, status: int, headers: Headers) -> None:
        """Say what kind of answer it is, once, before anything is written."""
        ...

    async def write(self, chunk: bytes) -> None: ...


class BufferedResponse:
    """The answer as one reply. What it weighs is what it takes as text inside that reply's JSON."""

    def __init__(self, kind: EventKind) -> None:
        self._kind: EventKind = kind
        self.status = 0
        self._headers: Headers = []
        self._chunks: list[bytes] = []
        self._remaining = MAX_EVENT_BYTES[kind] - ENVELOPE

    @property
    def remaining(self) -> int:
        return self._remaining

    def size_of(self, chunk: bytes) -> int:
        if len(chunk) <= SMALL:
            return _HEAVIEST * len(chunk)
        size = _in_ascii(chunk) if ASCII_ALONE else len(chunk)
        return size + chunk.count(b'"') + chunk.count(b"\\") + chunk.count(b"\n")

    async def start(self, status: int, headers: Headers) -> None:
        self.status = status
        self._headers = headers

    async def write(self, chunk: bytes) -> None:
        self._remaining -= self.size_of(chunk)
        self._chunks.append(chunk)

    def reply(self) -> dict[str, Any]:
        return to_reply(self.status, self._headers, b"".join(self._chunks), self._kind)


def _in_ascii(chunk: bytes) -> int:
    """What it takes where each of UTF-16's halves that is not ASCII is written as `\\u00e9` is."""
    plain = len(chunk.translate(None, _ESCAPED))
    return plain + 6 * (len(chunk.decode().encode("utf-16-le")) // 2 - plain)
