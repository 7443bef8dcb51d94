"""What a tool's result says, apart from the form it is said in.

A result may say the same twice, as text and as structured content, and may wrap a value in an object that
exists only because structured content has to be one. What is said is JSON or text; pictures and sounds are
neither, and are left alone.
"""

from collections.abc import Sequence

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from .json_parts import LIST, OBJECT, STRING, Buffer, first_byte, is_json, items_of, members_of
from .literals import BrokenText, text_of
from .twins import say_the_same

NOTHING = Raw(b"")
NO_BLOCKS = Raw(b"[]")
MOST_BLOCKS = 100_000
MEDIA = ("image", "audio")
LONGEST_AS_SENT = 64 * 1024
WRAPPERS = ("result",)
"""How SDKs call the one member of an object that they put around a value."""


class Said(Struct, frozen=True):
    """One JSON value, or one text, in UTF-8."""

    body: Buffer
    is_json: bool


class Payload(Struct, frozen=True):
    texts: tuple[Said, ...] = ()
    """Those that the structured part does not say as well."""
    values: tuple[Said, ...] = ()
    """The same, those of resources with where they are from."""
    structured: Said | None = None
    links: tuple[Raw, ...] = ()
    """Blocks that point to something, and those of kinds that we do not know."""
    media: tuple[Raw, ...] = ()
    meta: Raw = NOTHING
    """The result's `_meta`."""
    kind: str = "complete"
    """Its `resultType`."""
    is_error: bool = False
    uri: str = ""
    """Where the text is from, when all that is said is one resource."""
    as_sent: "AsSent | None" = None
    """Of one whose texts and structured part say different things."""


class AsSent(Struct, frozen=True):
    """What a result says in each of its two forms, as it came; empty where that is long."""

    texts: tuple[Raw, ...]
    """Blocks."""
    structured: Raw


class _Contents(Struct):
    text: Raw = NOTHING
    uri: str = ""


class _Block(Struct):
    type: str = ""
    text: Raw = NOTHING
    resource: Raw = NOTHING


class _Result(Struct, rename="camel"):
    content: Raw = NO_BLOCKS
    structured_content: Raw | UnsetType = UNSET
    is_error: bool = False
    result_type: str = "complete"
    meta: Raw = field(default=NOTHING, name="_meta")


_decode_result = msgspec.json.Decoder(_Result).decode
_decode_block = msgspec.json.Decoder(_Block).decode
_decode_contents = msgspec.json.Decoder(_Contents).decode


class _Sorted:
    """The blocks of a result, each put where it belongs."""

    def __init__(self, content: Sequence[Raw]) -> None:
        self.texts: list[Said] = []
        self.values: list[Said] = []
        self.links: list[Raw] = []
        self.media: list[Raw] = []
        self.said: list[Raw] = []
        self.uri = ""
        for raw in content:
            self._put(raw)

    def _put(self, raw: Raw) -> None:
        block = _decode_block(raw)
        if block.type == "text" and block.text is not NOTHING:
            self._say(raw, of_text(text_of(block.text)))
        elif block.type == "resource" and block.resource is not NOTHING:
            self._put_resource(raw, block.resource)
        else:
            # Raw parts keep all that they were cut from; these outlive it.
            (self.media if block.type in MEDIA else self.links).append(raw.copy())

    def _put_resource(self, raw: Raw, resource: Raw) -> None:
        contents = _decode_contents(resource)
        if contents.text is NOTHING:
            self.media.append(raw.copy())
            return
        self.uri = contents.uri
        self._say(raw, of_text(text_of(contents.text)), Said(bytes(resource), True))

    def _say(self, raw: Raw, text: Said, value: Said | None = None) -> None:
        self.said.append(raw)
        self.texts.append(text)
        self.values.append(value or text)


def payload_of(body: Buffer) -> Payload:
    """Of a result's JSON. One that is not as results are is one text: it was sent, so it says something."""
    try:
        result = _decode_result(body)
        found = _Sorted(_blocks_in(result.content))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, BrokenText):
        whole = (Said(body, False),)
        return Payload(whole, whole)
    structured = result.structured_content
    value = None
    if structured is not UNSET and bytes(memoryview(structured)[:4]) != b"null":
        value, is_said_again = _said(memoryview(structured), [text.body for text in found.texts])
        if is_said_again:
            found.texts, found.values, found.uri = [], [], ""
    return Payload(
        tuple(found.texts),
        tuple(found.values),
        value,
        tuple(found.links),
        tuple(found.media),
        result.meta.copy(),
        result.result_type,
        result.is_error,
        found.uri if len(found.texts) == 1 else "",
        None if value is None or not found.texts else _as_sent(found.said, structured),
    )


def _blocks_in(content: Raw) -> Sequence[Raw]:
    blocks = items_of(memoryview(content))
    if blocks is None or blocks.count > MOST_BLOCKS:
        raise msgspec.DecodeError("no list of blocks")
    return blocks.parts


def _as_sent(texts: Sequence[Raw], structured: Raw | UnsetType) -> AsSent:
    """Copied: they would keep all that they were cut from."""
    assert structured is not UNSET
    are_short = sum(len(memoryview(raw)) for raw in texts) <= LONGEST_AS_SENT
    is_short = len(memoryview(structured)) <= LONGEST_AS_SENT
    return AsSent(
        tuple(raw.copy() for raw in texts) if are_short else (), structured.copy() if is_short else NOTHING
    )


def of_text(text: Buffer) -> Said:
    return Said(text, is_json(text))


def _said(body: memoryview, texts: list[Buffer]) -> tuple[Said, bool]:
    """What a structured part says, and whether the texts only say it again.

    An object of one member may be there only because structured content has to be one.
    """
    members = members_of(body) or {}
    name, inner = next(iter(members.items())) if len(members) == 1 else ("", NOTHING)
    if name and say_the_same(texts, memoryview(inner)):
        return _value(memoryview(inner)), True
    value = _value(memoryview(inner) if name in WRAPPERS else body)
    return value, not texts or say_the_same(texts, body)


def _value(body: memoryview) -> Said:
    first = first_byte(body)
    if first == STRING:
        return of_text(msgspec.json.decode(body, type=str).encode())
    return Said(body, first in (LIST, OBJECT))
