"""JSON-RPC messages: decoding, with `params` and `result` left as raw bytes, and encoding.

Owns the envelope and its limits. What the parameters of a method mean is in `types`.
"""

from itertools import accumulate
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from .errors import ErrorObject, InvalidParams, InvalidRequest, McpError, ParseError

Id = int | str
T = TypeVar("T")

MAX_NESTING = 128
MAX_ID_BYTES = 256
_MIN_ID, _MAX_ID = -(1 << 63), (1 << 63) - 1

_EMPTY = Raw(b"{}")
encode = msgspec.json.Encoder().encode


class JsonRpcMessage(Struct, gc=False):
    """One JSON-RPC message of any kind; `is_request` and its siblings tell which."""

    jsonrpc: Literal["2.0"]
    id: Id | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Raw = _EMPTY
    result: Raw | UnsetType = UNSET
    error: ErrorObject | UnsetType = UNSET

    @property
    def is_request(self) -> bool:
        return self.method is not UNSET and self.id is not UNSET

    @property
    def is_notification(self) -> bool:
        return self.method is not UNSET and self.id is UNSET


class JsonRpcRequest(Struct, omit_defaults=False):
    id: Id
    method: str
    params: Any
    jsonrpc: str = "2.0"


class JsonRpcNotification(Struct):
    method: str
    params: Any
    """Left out where it says nothing."""
    jsonrpc: str = "2.0"

    def __post_init__(self) -> None:
        if self.params == {} or (isinstance(self.params, Raw) and bytes(self.params) == b"{}"):
            self.params = UNSET


class JsonRpcResponse(Struct, gc=False):
    id: Id
    result: Any
    jsonrpc: str = "2.0"


class JsonRpcErrorResponse(Struct):
    id: Id | None
    error: ErrorObject
    jsonrpc: str = "2.0"


class _JsonRpcErrorWithoutId(Struct):
    error: ErrorObject
    jsonrpc: str = "2.0"


_decode_message = msgspec.json.Decoder(JsonRpcMessage).decode
_decoders: dict[Any, msgspec.json.Decoder[Any]] = {}


def parse(body: bytes) -> JsonRpcMessage:
    """Decode one message, or raise ParseError or InvalidRequest with what is wrong."""
    if not body.isascii() or body.count(b"[") + body.count(b"{") > MAX_NESTING:
        check_text(body)
    return parse_checked(body)


def parse_checked(body: bytes) -> JsonRpcMessage:
    """The same for a body that has passed `check_text`."""
    try:
        message = _decode_message(body)
    except msgspec.ValidationError as error:
        if body.lstrip()[:1] == b"[":
            raise InvalidRequest("Batches are not supported; send one message at a time") from None
        raise InvalidRequest(f"Not a JSON-RPC 2.0 message: {error}") from None
    except msgspec.DecodeError as error:
        raise ParseError(f"Not JSON: {error}") from None
    except RecursionError:
        raise InvalidRequest(f"Nested deeper than {MAX_NESTING} levels") from None
    if message.params is not _EMPTY and memoryview(message.params)[0] != 0x7B:
        raise InvalidRequest("'params' must be an object")
    id, has_result, has_error = message.id, message.result is not UNSET, message.error is not UNSET
    if id is not UNSET and not (type(id) is int and _MIN_ID <= id <= _MAX_ID):
        fault = _id_fault(id)
        if fault is not None and not (id is None and has_error):
            raise InvalidRequest(fault)
    if message.method is not UNSET:
        if has_result or has_error:
            raise InvalidRequest("Both a request and a response")
    elif has_result is has_error or id is UNSET:
        raise InvalidRequest("Neither a request, a notification nor a response")
    return message


def check_text(body: bytes) -> None:
    """Refuse what is not UTF-8, or nested so deeply that decoding it later would hurt."""
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError as error:
            raise ParseError(f"Not UTF-8: invalid byte at position {error.start}") from None
    # Counting brackets is cheap and settles nearly every body.
    if body.count(b"[") + body.count(b"{") > MAX_NESTING and _too_deep(body):
        raise InvalidRequest(f"Nested deeper than {MAX_NESTING} levels")


def _id_fault(id: Id | None) -> str | None:
    if isinstance(id, str):
        return f"'id' is longer than {MAX_ID_BYTES} characters" if len(id) > MAX_ID_BYTES else None
    if isinstance(id, int):
        return None if _MIN_ID <= id <= _MAX_ID else "'id' does not fit in 64 bits"
    return "'id' must be a string or an integer, not null"


_STEPS = bytes.maketrans(b"[{]}", b"\1\1\0\0")
_OTHERS = bytes(set(range(256)) - set(b"[]{}"))


def _too_deep(body: bytes) -> bool:
    """Whether brackets nest deeper than the limit. In C throughout: it runs on the event loop."""
    if b"\\" in body:
        body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    brackets = b"".join(body.split(b'"')[::2]).translate(None, _OTHERS)
    # Pairs that hold nothing are taken away, two levels at a time; few bodies need more than a few turns.
    rest = brackets
    for _ in range(MAX_NESTING // 2):
        fewer = rest.replace(b"{}", b"").replace(b"[]", b"")
        if not fewer:
            return False
        if len(rest) - len(fewer) < len(rest) // 8:
            break
        rest = fewer
    steps = brackets.translate(_STEPS)
    return max(accumulate(map((-1, 1).__getitem__, steps)), default=0) > MAX_NESTING


class _OnlyId(Struct):
    id: Id | None = None


_decode_id = msgspec.json.Decoder(_OnlyId).decode


def recover_id(body: bytes) -> Id | None:
    """The id of a message that did not parse, when it can still be read, so that the error finds its way."""
    try:
        id = _decode_id(body).id
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return id if _id_fault(id) is None else None


def decode_params(params: Raw, kind: type[T]) -> T:
    """Parameters as a typed struct, or InvalidParams naming the field at fault."""
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    try:
        return decoder.decode(params)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidParams(f"Invalid params: {error}") from None


def one_line(body: bytes) -> bytes:
    """An encoded message without line breaks. Ours have none; raw JSON passed through may, between tokens."""
    if b"\n" in body or b"\r" in body:
        return body.replace(b"\r", b" ").replace(b"\n", b" ")
    return body


def encode_error(id: Id | None, error: McpError) -> bytes:
    """An error response; without an id it has none, as the modern schema wants."""
    wire = error.to_wire()
    return encode(_JsonRpcErrorWithoutId(wire) if id is None else JsonRpcErrorResponse(id, wire))
