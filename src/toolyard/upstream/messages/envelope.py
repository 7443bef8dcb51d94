"""Reads one JSON-RPC message of an upstream, in memory or on disk, and extracts its result or error.

Reads only the two ends of a message on disk: its result becomes a window over the same file.
"""

import re
import secrets
from typing import Any, cast

import msgspec
from msgspec import UNSET, Struct

from ...wire.errors import McpError
from ...wire.messages import Id, JsonRpcMessage, parse, parse_checked, recover_id
from ..base import Outcome
from ..connection import RawResult
from ..errors import InvalidReplyError
from .slices import TOKENS
from .spool import HEAD, TAIL, CheckedText, Spooled, format_size

_QUOTED = 80
_OBJECT = 0x7B

# Replaces the part on disk while the rest is decoded. It is random, so no upstream can send it. It has the
# form of an error, so that an error that is too long is recognised as such.
_PLACEHOLDER = b'{"code":0,"message":"%s"}' % secrets.token_hex(16).encode()


class BadMessageError(ValueError):
    """A message cannot be used; says why, and how it begins. `id` is its id, if that could be read."""

    def __init__(self, reason: str, beginning: bytes, id: Id | None = None) -> None:
        self.reason = reason
        self.id = id
        more = "…" if len(beginning) > _QUOTED else ""
        super().__init__(f"{reason}; it begins {beginning[:_QUOTED]!r}{more}")


def read_message(server: str, body: bytes | Spooled) -> JsonRpcMessage:
    """Read a message. Its `result` is Raw or a window over the spooled body, which now belongs to it."""
    try:
        if isinstance(body, Spooled):
            return _read_spooled(body)
        message = parse_checked(body) if isinstance(body, CheckedText) else parse(body)
        if message.result is not UNSET and memoryview(message.result)[0] != _OBJECT:
            raise BadMessageError("its result is not an object", body, recover_id(body))
        return message
    except McpError as error:
        raise _invalid(server, _bad_message(cast(bytes, body), error)) from None
    except BadMessageError as error:
        raise _invalid(server, error) from None


def _invalid(server: str, error: BadMessageError) -> InvalidReplyError:
    invalid = InvalidReplyError(server, f"its answer is not JSON-RPC: {error}")
    invalid.id = error.id
    return invalid


def _bad_message(body: bytes, error: McpError) -> BadMessageError:
    """A text that is not valid JSON may still have an id in its usual place."""
    id = recover_id(body)
    return BadMessageError(error.message, body, guess_id(body[:HEAD], body[-TAIL:]) if id is None else id)


def _read_spooled(body: Spooled) -> JsonRpcMessage:
    try:
        return _read_ends(body)
    finally:
        body.close()


def _read_ends(body: Spooled) -> JsonRpcMessage:
    head = body.head
    start, end = max(body.values, key=lambda value: value[1] - value[0], default=(0, 0))
    reason = f"it is {format_size(body.size)} long, and the excess is not in its result"
    if not end or start > HEAD or body.size - end > TAIL:
        raise BadMessageError(reason, head, guess_id(head, body.tail))
    outline = head[:start] + _PLACEHOLDER + body.read(end, body.size)
    try:
        message = parse(outline)
    except McpError as error:
        raise BadMessageError(error.message, head, _bad_message(outline, error).id) from None
    if message.result is UNSET or bytes(message.result) != _PLACEHOLDER:
        raise BadMessageError(reason, head, recover_id(outline))
    if body.read(start, start + 1) != b"{":
        raise BadMessageError("its result is not an object", head, recover_id(outline))
    message.result = cast(Any, body.window(start, end))
    return message


class _Head(Struct, rename="camel"):
    """The members of a result that we read. Any type is accepted: the client checks them."""

    result_type: Any = "complete"
    is_error: Any = False


_decode_head = msgspec.json.Decoder(_Head).decode
_TYPE, _IS_ERROR = b'"resultType"', b'"isError"'
_TYPE_VALUE = re.compile(rb'"resultType"\s*+:\s*+("[^"\\]{0,64}")')


def read_outcome(server: str, body: RawResult, *, modern: bool = True) -> Outcome:
    """A result with its kind, and whether it is a tool's error. Only the head of a spooled result is read.

    Results of legacy servers (`modern=False`) are always complete. An unknown kind is passed on: the client
    decides.
    """
    is_error = False
    if isinstance(body, Spooled):
        size, kind = body.size, _kind_in(body.head) if modern else "complete"
    else:
        text = bytes(body)
        size, kind = len(text), "complete"
        typed = modern and _TYPE in text
        if typed or _IS_ERROR in text:
            try:
                head = _decode_head(text)
                is_error = head.is_error is True
                kind = head.result_type if typed else kind
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                if typed:
                    reason = f"its result is not valid: {error}"
                    raise InvalidReplyError(server, reason) from None
    if kind == "input_required" or kind == "task":
        return Outcome(body, size, kind, is_error)
    if not isinstance(kind, str):
        raise InvalidReplyError(server, "its result is not valid: resultType is not a string")
    return Outcome(body, size, "complete", is_error)


def _kind_in(head: bytes) -> str:
    if _TYPE not in head:
        return "complete"
    depth = 0
    for token in TOKENS.finditer(head):
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
    """The id of a message of which only the two ends are known, so that its call can fail at once."""
    found = _ID_FIRST.match(head) or _ID_LAST.search(tail)
    try:
        return None if found is None else msgspec.json.decode(found[1], type=int | str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def read_result(server: str, body: bytes | Spooled, id: Id) -> RawResult:
    """The result in the reply to one request; McpError if the reply is an error."""
    message = read_message(server, body)
    if message.id == id and message.result is not UNSET and message.method is UNSET:
        return message.result
    return result_of(server, message, id)


def result_of(server: str, message: JsonRpcMessage, id: Id) -> RawResult:
    """The result; raises McpError if it is an error, InvalidReplyError if it answers another request."""
    if message.id != id or message.method is not UNSET:
        raise InvalidReplyError(server, f"its answer does not belong to request {id!r}")
    if message.error is not UNSET:
        raise McpError(message.error.code, message.error.message, message.error.data)
    assert message.result is not UNSET
    return message.result
