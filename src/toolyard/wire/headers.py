"""The HTTP headers of a request: lookup, encoding of values, and comparison with the body.

A header is only compared with the body. No decision rests on a header alone, because a legacy client may send
any value.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec
from msgspec import Struct

from .errors import HeaderMismatch

Json = dict[str, Any]

PARAM_PREFIX = "mcp-param-"
MAX_HEADERS = 100
MAX_VALUE_BYTES = 16 * 1024

# The member of `params` that the Mcp-Name header repeats, by method.
NAME_PARAMS = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}
MAY_BE_UNNAMED = ("tasks/get", "tasks/update", "tasks/cancel")
"""Clients of these leave the header out; nothing is routed by it here, and what is sent has to agree."""

_SENTINEL = re.compile(r"=\?base64\?(.*)\?=", re.DOTALL)
_PLAIN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NUMBER = re.compile(r"-?[0-9]{1,17}(?:\.0+)?")
_MAX_SAFE_INTEGER = 2**53 - 1


class RequestHeaders(Struct, frozen=True, gc=False):
    """A request's headers, with lower-case names, as in ASGI."""

    pairs: list[tuple[bytes, bytes]]
    raw: dict[bytes, bytes]
    """The headers by name. Contains the last of several with the same name, but all of Accept, joined."""

    @staticmethod
    def of(pairs: Iterable[tuple[bytes, bytes]]) -> "RequestHeaders":
        pairs = list(pairs)
        raw = dict(pairs)
        # Accept is the only list among the headers we read; HTTP allows several lines of it.
        accepts = [value for name, value in pairs if name == b"accept"]
        if accepts:
            raw[b"accept"] = b",".join(accepts)
        return RequestHeaders(pairs, raw)

    def get(self, name: bytes) -> str | None:
        """A value, stripped, because some servers keep trailing white space."""
        value = self.raw.get(name)
        return None if value is None else value.decode("latin-1").strip(" \t")

    @property
    def version(self) -> str | None:
        return self.get(b"mcp-protocol-version")

    @property
    def duplicate(self) -> str | None:
        """The first duplicate among the headers that may occur only once."""
        seen: set[bytes] = set()
        for name, _ in self.pairs:
            if name in seen and (name in _ONCE or name.startswith(b"mcp-")):
                return name.decode("latin-1")
            seen.add(name)
        return None

    @property
    def duplicate_identity(self) -> str | None:
        """The first duplicate among the headers that may identify the caller.

        Ignores lists, headers to which each proxy may add a line, and the headers of `duplicate`, which are
        refused later, with the message's id.
        """
        if len(self.raw) == len(self.pairs):
            return None
        seen: set[bytes] = set()
        for name, _ in self.pairs:
            if name in seen and name not in _NEVER_IDENTITY and not name.startswith(b"mcp-"):
                return name.decode("latin-1")
            seen.add(name)
        return None

    def params(self) -> dict[str, str]:
        """The Mcp-Param-* headers."""
        return {
            name.decode("latin-1"): value.decode("latin-1").strip(" \t")
            for name, value in self.raw.items()
            if name.startswith(b"mcp-param-")
        }


_OF_MESSAGE = (b"content-type", b"content-length", b"last-event-id")
_ONCE = frozenset({b"host", b"origin", b"authorization", b"x-toolyard-thread", *_OF_MESSAGE})
_NEVER_IDENTITY = frozenset(
    {
        # Lists, for which HTTP allows several lines.
        *b"accept accept-charset accept-encoding accept-language access-control-request-headers".split(),
        *b"baggage cache-control cdn-loop connection content-encoding content-language forwarded".split(),
        *b"if-match if-none-match keep-alive link pragma prefer priority te trailer tracestate".split(),
        *b"upgrade via warning x-forwarded-for".split(),
        # Added by proxies, each of which keeps earlier lines.
        *b"traceparent x-amzn-trace-id x-b3-sampled x-b3-spanid x-b3-traceid x-cloud-trace-context".split(),
        *b"x-correlation-id x-forwarded-port x-forwarded-proto x-forwarded-server x-request-id".split(),
        *_OF_MESSAGE,
    }
)


def encode_value(value: str | int | bool) -> str:
    """Encode a value for a header: unchanged if possible, otherwise in the base64 form."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    if _is_plain(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def decode_value(text: str) -> str:
    """Decode a header's value; raises HeaderMismatch for invalid characters or base64."""
    match = _SENTINEL.fullmatch(text)
    if match is not None:
        try:
            return base64.b64decode(match[1], validate=True).decode()
        except (binascii.Error, ValueError):
            raise HeaderMismatch(f"{text[:80]!r} is not base64 of UTF-8 text") from None
    if text and not _PLAIN.fullmatch(text):
        raise HeaderMismatch(f"{text[:80]!r} has characters invalid in a header; encode it as =?base64?…?=")
    return text


def check_request(headers: RequestHeaders, method: str, name: str | None) -> None:
    """Check that Mcp-Method and, if the method has a name, Mcp-Name match the body."""
    sent = headers.get(b"mcp-method")
    if sent is None:
        raise HeaderMismatch("the Mcp-Method header is missing")
    if sent != method:
        raise HeaderMismatch(f"Mcp-Method is {sent[:80]!r}, the body says {method[:80]!r}")
    if name is None:
        return
    sent = headers.get(b"mcp-name")
    if sent is None and method in MAY_BE_UNNAMED:
        return
    if sent is None:
        raise HeaderMismatch(f"the Mcp-Name header is missing; {method!r} requires it")
    if decode_value(sent) != name:
        raise HeaderMismatch(f"Mcp-Name is {sent[:80]!r}, the body says {name[:80]!r}")


def check_duplicates(headers: RequestHeaders) -> None:
    """Refuse a duplicate of a header that may occur only once: readers could differ in which one they use."""
    duplicate = headers.duplicate
    if duplicate is not None:
        raise HeaderMismatch(f"header {duplicate!r} was sent more than once")


def check_repeated(headers: RequestHeaders) -> None:
    """Refuse a duplicate header that may identify the caller."""
    duplicate = headers.duplicate_identity
    if duplicate is not None:
        raise HeaderMismatch(f"header {duplicate!r} was sent more than once")


def _is_plain(text: str) -> bool:
    return bool(_PLAIN.fullmatch(text)) and not _SENTINEL.fullmatch(text)


class ParamHeader(Struct, frozen=True):
    """One `x-mcp-header` annotation: the header, and the path of its value in the arguments."""

    header: str
    path: tuple[str, ...]


def param_headers(schema: Json) -> list[ParamHeader]:
    """The annotations of an input schema; raises ValueError for an invalid or misplaced one."""
    if b'"x-mcp-header"' not in msgspec.json.encode(schema, enc_hook=repr):  # the common case
        return []
    found = list(_annotated(schema, ()))
    names = [item.header for item in found]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"x-mcp-header {name.removeprefix(PARAM_PREFIX)!r} is used more than once")
    if _count_annotations(schema) != len(found):
        raise ValueError("x-mcp-header is only allowed on properties reachable through 'properties' alone")
    return found


def _annotated(schema: Json, path: tuple[str, ...]) -> Iterable[ParamHeader]:
    properties = schema.get("properties")
    for key, prop in cast(Json, properties if isinstance(properties, dict) else {}).items():
        if not isinstance(prop, dict):
            continue
        prop = cast(Json, prop)
        if "x-mcp-header" in prop:
            name = prop["x-mcp-header"]
            if not isinstance(name, str) or not _TOKEN.fullmatch(name):
                raise ValueError(f"x-mcp-header {name!r} on {key!r} is not a header name")
            if prop.get("type") not in ("string", "integer", "boolean"):
                raise ValueError(f"x-mcp-header on {key!r} needs type string, integer or boolean")
            yield ParamHeader(PARAM_PREFIX + name.lower(), (*path, key))
        yield from _annotated(prop, (*path, key))


def _count_annotations(node: Any) -> int:
    if isinstance(node, dict):
        members = cast(Json, node)
        own = 1 if isinstance(members.get("x-mcp-header"), str) else 0
        return own + sum(_count_annotations(value) for value in members.values())
    if isinstance(node, list):
        return sum(_count_annotations(item) for item in cast(list[Any], node))
    return 0


def check_params(wanted: list[ParamHeader], arguments: Json, sent: Mapping[str, str]) -> None:
    """Check that every annotated argument with a value is also sent in its header, with the same value."""
    for item in wanted:
        value: Any = arguments
        for key in item.path:
            value = cast(Json, value).get(key) if isinstance(value, dict) else None
        header = sent.get(item.header)
        if value is None:
            if header is not None:
                raise HeaderMismatch(f"{item.header!r} was sent, but the body has no {'.'.join(item.path)!r}")
        elif header is None:
            raise HeaderMismatch(f"{item.header!r} is missing; the body has {'.'.join(item.path)!r}")
        elif not _same(decode_value(header), value):
            raise HeaderMismatch(f"{item.header!r} does not match {'.'.join(item.path)!r} in the body")


def _same(text: str, value: Any) -> bool:
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    if isinstance(value, int | float):
        return bool(_NUMBER.fullmatch(text)) and float(text) == value and abs(value) <= _MAX_SAFE_INTEGER
    return text == value
