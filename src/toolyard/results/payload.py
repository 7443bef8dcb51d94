"""What a tool's result says, apart from the form it is said in: one JSON value or one text.

A result may say the same twice, as text and as structured content, and may wrap a value in an object that
exists only because structured content has to be one. Other blocks (images, audio, links) are left alone.
"""

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from .json_parts import Buffer, first_byte, is_json, members_of

NOTHING = Raw(b"")
WRAPPERS = ("result",)
"""How SDKs call the one member of an object that they put around a value."""


class Payload(Struct, frozen=True):
    body: Buffer
    """What is stored: JSON, or the text itself."""
    is_json: bool
    others: tuple[Raw, ...] = ()
    """The blocks that are not text, as they came."""
    wrapped: bool = False
    """It is the text or value of a wrapper, and the wrapper is no part of it."""
    meta: Raw = NOTHING
    """The result's `_meta`."""


class _Resource(Struct):
    text: str | None = None
    uri: str = ""


class _Block(Struct):
    type: str = ""
    text: str | None = None
    resource: _Resource | None = None


class _Result(Struct, rename="camel"):
    content: list[Raw] = []
    structured_content: Raw | UnsetType = UNSET
    is_error: bool = False
    result_type: str = "complete"
    meta: Raw = field(default=NOTHING, name="_meta")


_decode_result = msgspec.json.Decoder(_Result).decode
_decode_block = msgspec.json.Decoder(_Block).decode


def payload_of(body: Buffer) -> Payload | None:
    """Of a result's JSON; None when it has nothing to shape: an error, a question, a task, no text at all."""
    try:
        result = _decode_result(body)
        if result.is_error or result.result_type != "complete":
            return None
        texts, others = _sorted(result.content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    structured = result.structured_content
    if structured is not UNSET and first_byte(memoryview(structured)) in (0x5B, 0x7B):
        return _structured(memoryview(structured), others, result.meta)
    if not texts:
        return None
    if len(texts) == 1:
        return of_text(texts[0], others, result.meta)
    return Payload(msgspec.json.encode(texts), True, others, meta=result.meta)


def of_text(text: str, others: tuple[Raw, ...] = (), meta: Raw = NOTHING, wrapped: bool = False) -> Payload:
    body = text.encode("utf-8", "surrogatepass")
    # A number or a quoted word is JSON too, but means no more for it.
    json = first_byte(body) in (0x5B, 0x7B) and is_json(body)
    return Payload(body, json, others, wrapped, meta)


def _structured(body: Buffer, others: tuple[Raw, ...], meta: Raw) -> Payload:
    members = members_of(body)
    if members is not None and len(members) == 1 and (name := next(iter(members))) in WRAPPERS:
        inner = memoryview(members[name])
        if first_byte(inner) == 0x22:
            return of_text(msgspec.json.decode(inner, type=str), others, meta, wrapped=True)
        return Payload(inner, True, others, True, meta)
    return Payload(body, True, others, meta=meta)


def _sorted(content: list[Raw]) -> tuple[list[str], tuple[Raw, ...]]:
    texts: list[str] = []
    others: list[Raw] = []
    for raw in content:
        block = _decode_block(raw)
        if block.type == "text" and block.text is not None:
            texts.append(block.text)
        elif block.resource is not None and block.resource.text is not None:
            texts.append(block.resource.text)
        else:
            others.append(raw)
    return texts, tuple(others)
