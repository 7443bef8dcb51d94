"""The headers that mirror a request's body: reading, encoding, and comparing the two.

A header is only ever compared with the body; nothing is decided by a header alone, since a legacy
client may send any value it likes.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from .errors import HeaderMismatch

PARAM_PREFIX = "mcp-param-"
MAX_HEADERS = 100
MAX_VALUE_BYTES = 16 * 1024

# Which member of `params` the Mcp-Name header mirrors.
NAMED_BY = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}

_SENTINEL = re.compile(r"=\?base64\?(.*)\?=", re.DOTALL)
_PLAIN = re.compile(r"[\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_MAX_SAFE_INTEGER = 2**53 - 1

# Standard headers that a request may carry once at most.
_SINGLE = {
    b"host": "host",
    b"origin": "origin",
    b"content-type": "content_type",
    b"content-length": "content_length",
    b"accept": "accept",
    b"mcp-protocol-version": "version",
    b"mcp-method": "method",
    b"mcp-name": "name",
    b"mcp-session-id": "session",
    b"last-event-id": "last_event_id",
}


class Head(Struct, gc=False):
    """The headers we read. An absent one is None; `doubled` names one that came twice."""

    host: str | None = None
    origin: str | None = None
    content_type: str | None = None
    content_length: str | None = None
    accept: str | None = None
    version: str | None = None
    method: str | None = None
    name: str | None = None
    session: str | None = None
    last_event_id: str | None = None
    params: dict[str, str] | None = None
    doubled: str | None = None
    oversized: bool = False


def read_head(headers: Iterable[tuple[bytes, bytes]]) -> Head:
    """One pass over raw ASGI headers. Values are trimmed: some servers keep trailing white space."""
    head = Head()
    count = 0
    for name, value in headers:
        count += 1
        if len(value) > MAX_VALUE_BYTES:
            head.oversized = True
        field = _SINGLE.get(name)
        if field is not None:
            if getattr(head, field) is not None and field != "accept":
                head.doubled = name.decode("latin-1")
            setattr(head, field, value.decode("latin-1").strip(" \t"))
        elif name.startswith(b"mcp-param-"):
            if head.params is None:
                head.params = {}
            key = name.decode("latin-1")
            if key in head.params:
                head.doubled = key
            head.params[key] = value.decode("latin-1").strip(" \t")
    if count > MAX_HEADERS:
        head.oversized = True
    return head


def encode_value(value: str | int | bool) -> str:
    """A value as a header can carry it: as it is, or in the base64 form when it would not survive."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    if _PLAIN.fullmatch(text) and not _SENTINEL.fullmatch(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def decode_value(text: str) -> str:
    """The reverse; raises HeaderMismatch for characters or base64 that cannot be right."""
    match = _SENTINEL.fullmatch(text)
    if match is not None:
        try:
            return base64.b64decode(match[1], validate=True).decode()
        except (binascii.Error, ValueError):
            raise HeaderMismatch(f"{text[:80]!r} is not base64 of UTF-8 text") from None
    if text and not _PLAIN.fullmatch(text):
        raise HeaderMismatch(f"{text[:80]!r} has characters a header cannot carry; encode it as =?base64?…?=")
    return text


def check_request(head: Head, method: str, name: str | None) -> None:
    """Mcp-Method and, where the method has one, Mcp-Name must say what the body says."""
    if head.doubled is not None:
        raise HeaderMismatch(f"header {head.doubled!r} came more than once")
    if head.method is None:
        raise HeaderMismatch("the Mcp-Method header is missing")
    if head.method != method:
        raise HeaderMismatch(f"Mcp-Method is {head.method[:80]!r}, the body says {method[:80]!r}")
    if method not in NAMED_BY:
        return
    if head.name is None:
        raise HeaderMismatch(f"the Mcp-Name header is missing; {method!r} requires it")
    if decode_value(head.name) != name:
        raise HeaderMismatch(f"Mcp-Name is {head.name[:80]!r}, the body says {(name or '')[:80]!r}")


class ParamHeader(Struct, frozen=True):
    """One `x-mcp-header` annotation: the header it makes and where its value stands in the arguments."""

    header: str
    path: tuple[str, ...]


def param_headers(schema: Mapping[str, Any]) -> list[ParamHeader]:
    """The annotations of an input schema; ValueError when one is where or what it may not be."""
    found = list(_annotated(schema, ()))
    names = [item.header for item in found]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"x-mcp-header {name.removeprefix(PARAM_PREFIX)!r} is used more than once")
    if _count_annotations(schema) != len(found):
        raise ValueError("x-mcp-header may only stand on properties reachable by 'properties' alone")
    return found


def _annotated(schema: Mapping[str, Any], path: tuple[str, ...]) -> Iterable[ParamHeader]:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return
    for key, prop in properties.items():
        if not isinstance(prop, Mapping):
            continue
        if "x-mcp-header" in prop:
            name = prop["x-mcp-header"]
            if not isinstance(name, str) or not _TOKEN.fullmatch(name):
                raise ValueError(f"x-mcp-header {name!r} on {key!r} is not a header name")
            if prop.get("type") not in ("string", "integer", "boolean"):
                raise ValueError(f"x-mcp-header on {key!r} needs type string, integer or boolean")
            yield ParamHeader(PARAM_PREFIX + name.lower(), (*path, key))
        yield from _annotated(prop, (*path, key))


def _count_annotations(node: Any) -> int:
    if isinstance(node, Mapping):
        own = 1 if isinstance(node.get("x-mcp-header"), str) else 0
        return own + sum(_count_annotations(value) for value in node.values())
    if isinstance(node, list):
        return sum(_count_annotations(item) for item in node)
    return 0


def check_params(wanted: list[ParamHeader], arguments: Mapping[str, Any], sent: Mapping[str, str]) -> None:
    """Every annotated argument that has a value must come in its header too, and agree with it."""
    for item in wanted:
        value: Any = arguments
        for key in item.path:
            value = value.get(key) if isinstance(value, Mapping) else None
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
        try:
            return float(text) == value and abs(value) <= _MAX_SAFE_INTEGER
        except ValueError:
            return False
    return text == value
