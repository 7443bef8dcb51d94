"""Reads one JSON-RPC message of an upstream, in memory or on disk, and takes the result or error out of it.

Of a message on disk only the two ends are read: its result becomes a window over the same file.
"""

import re
import secrets
from typing import Any, cast

import msgspec
from msgspec import UNSET, Raw, Struct

from ...wire.errors import McpError
from ...wire.messages import Id, JsonRpcMessage, parse, parse_checked, recover_id
from ..connection import RawResult
from ..errors import InvalidReplyError
from .spool import HEAD, TAIL, CheckedText, Spooled, format_size

_QUOTED = 80
_OBJECT = 0x7B

# Stands for what lies on disk while the rest is decoded. Nobody can know it beforehand; and it would do for
# an error, so that one too long is told as what it is.
_PLACEHOLDER = b'{"code":0,"message":"%s"}' % secrets.token_hex(16).encode()


class BadMessageError(ValueError):
    """Not a message that can be used; says why and how it begins. `id` is its id, where that can be told."""

    def __init__(self, reason: str, beginning: bytes, id: Id | None = None) -> None:
        self.reason = reason
        self.id = id
        more = "…" if len(beginning) > _QUOTED else ""
        super().__init__(f"{reason}; it begins {beginning[:_QUOTED]!r}{more}")


def read_message(body: bytes | Spooled) -> JsonRpcMessage:
    """The message, its `result` Raw or a window over the spooled body, which this takes over."""
    if isinstance(body, Spooled):
        try:
            return _read_spooled(body)
        finally:
            body.close()
    message = _parse(body, body)
    if message.result is not UNSET and memoryview(message.result)[0] != _OBJECT:
        raise BadMessageError("its result is not an object", body, recover_id(body))
    return message


def _parse(body: bytes, shown: bytes) -> JsonRpcMessage:
    try:
        return parse_checked(body) if isinstance(body, CheckedText) else parse(body)
    except McpError as error:
        id = recover_id(body)
        # A text that is no JSON as a whole may still have an id in its usual place.
        raise BadMessageError(
            error.message, shown, guess_id(body[:HEAD], body[-TAIL:]) if id is None else id
        ) from None


def _read_spooled(body: Spooled) -> JsonRpcMessage:
    head = body.head
    start, end = max(body.values, key=lambda value: value[1] - value[0], default=(0, 0))
    reason = f"it is {format_size(body.size)} long, and not because of its result"
    if not end or start > HEAD or body.size - end > TAIL:
        raise BadMessageError(reason, head, guess_id(head, body.tail))
    outline = head[:start] + _PLACEHOLDER + body.read(end, body.size)
    message = _parse(outline, head)
    if message.result is UNSET or bytes(message.result) != _PLACEHOLDER:
        raise BadMessageError(reason, head, recover_id(outline))
    if body.read(start, start + 1) != b"{":
        raise BadMessageError("its result is not an object", head, recover_id(outline))
    message.result = cast(Any, body.window(start, end))
    return message


class _Kind(Struct):
    type: str = msgspec.field(default="complete", name="resultType")


_decode_kind = msgspec.json.Decoder(_Kind).decode
_TYPE = b'"resultType"'
_TOKENS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
_TYPE_VALUE = re.compile(rb'"resultType"\s*+:\s*+("[^"\\]{0,64}")')


def result_type_of(result: Raw | Spooled) -> str:
    """Its `resultType`. Of a spooled one only the head is looked at."""
    if isinstance(result, Spooled):
        return _peek_head(result.head)
    body = bytes(result)
    if _TYPE not in body:
        return "complete"
    try:
        return _decode_kind(body).type
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadMessageError(f"its result cannot be read: {error}", body) from None


def _peek_head(head: bytes) -> str:
    if _TYPE not in head:
        return "complete"
    depth = 0
    for token in _TOKENS.finditer(head):
        text = token[0]
        if text in (b"{", b"["):
            depth += 1
        elif text in (b"}", b"]"):
            depth -= 1
        elif text == _TYPE and depth == 1 and (found := _TYPE_VALUE.match(head, token.start())):
            return msgspec.json.decode(found[1], type=str)
    return "complete"


# Members before and after a value that was too long to keep.
_STRING = rb'"[^"\\]{0,1000}+"'
_SCALAR = rb"(?:" + _STRING + rb"|[-+.\w]{1,100}+)"
_MEMBER = rb"\s*+" + _STRING + rb"\s*+:\s*+" + _SCALAR + rb"\s*+,"
_ID = rb'"id"\s*+:\s*+(-?\d{1,20}+|"[^"\\]{0,256}+")\s*+'
_ID_FIRST = re.compile(rb"\s*+\{(?:(?!\s*+\"id\")" + _MEMBER + rb"){0,8}\s*+" + _ID)
_ID_LAST = re.compile(
    rb"[\]}\"]\s*+,\s*+" + _ID + rb"(?:,\s*+" + _STRING + rb"\s*+:\s*+" + _SCALAR + rb"\s*+)?\}\s*+\Z"
)


def guess_id(head: bytes, tail: bytes) -> Id | None:
    """The id of a message of which only the two ends are left, so that its call need not wait."""
    found = _ID_FIRST.match(head) or _ID_LAST.search(tail)
    try:
        return None if found is None else msgspec.json.decode(found[1], type=int | str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def decode_message(server: str, body: bytes | Spooled) -> JsonRpcMessage:
    try:
        return read_message(body)
    except BadMessageError as error:
        garbled = InvalidReplyError(server, f"its answer is not JSON-RPC: {error}")
        garbled.id = error.id
        raise garbled from None


def result_of(server: str, message: JsonRpcMessage, id: Id) -> RawResult:
    """The result; raises McpError when it is an error, Garbled when it answers something else."""
    if message.id != id or message.method is not UNSET:
        raise InvalidReplyError(server, f"it answered something else than request {id!r}")
    if message.error is not UNSET:
        raise McpError(message.error.code, message.error.message, message.error.data)
    assert message.result is not UNSET
    return message.result
