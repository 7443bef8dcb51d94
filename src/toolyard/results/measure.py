"""Measures a payload: which parts are over a limit, and how many tokens they cost a model.

Tokens are estimated. A word of up to ten letters costs one, and so do a run of marks with the line
breaks after it, three digits, an indentation, and the space before a number. Against o200k on JSON,
CSV, prose and code this is within a tenth (`python -m bench.tokens --estimate`).
"""

import re
from collections.abc import Iterator
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from .formats.json_parts import Buffer, items_of, json_lines, object_of, open_envelope
from .limits import Limits
from .payload import Payload, PayloadPart

_PIECES = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[^\W\d_a-zA-Z]+|\d+|[^\w\s]+[\r\n]*|\s*\n\s*| {2,}| (?=\d)")
CHARS_COUNTED = 16_384
LONGEST_WORD = 10
LONGEST_MARKS = 4
LONGEST_LINE = 64
"""Tokenizers have tokens for lines of `=` and the like up to this length."""


def estimate_tokens(text: str) -> int:
    """Counts the beginning of a long text and takes the rest to be like it."""
    counted = text[:CHARS_COUNTED]
    tokens = sum(map(_cost, _PIECES.findall(counted)))
    return tokens if len(text) == len(counted) else round(tokens * len(text) / len(counted))


def estimate_tokens_in(body: Buffer) -> int:
    """`estimate_tokens` of UTF-8; decodes only the beginning."""
    tokens = estimate_tokens(str(bytes(body[:CHARS_COUNTED]), "utf-8", "replace"))
    return tokens if len(body) <= CHARS_COUNTED else round(tokens * len(body) / CHARS_COUNTED)


def _cost(piece: str) -> int:
    first = piece[0]
    if first.isalpha():
        if first < "\x80":
            return -(-len(piece) // LONGEST_WORD)
        # In other alphabets three letters cost a token, in scripts without spaces 1.5.
        return -(-len(piece) // 3) if first < "\u2e80" else -(-len(piece) * 2 // 3)
    if first.isdigit():
        return -(-len(piece) // 3)
    if first.isspace():
        return 1
    if first < " " or first > "~":  # control characters, signs and pictures
        return -(-len(piece) // 2) if first < " " else len(piece)
    is_line = len(piece) > 2 * LONGEST_MARKS and len(set(piece)) <= 2
    return -(-len(piece) // (LONGEST_LINE if is_line else LONGEST_MARKS))


LARGE = 64 * 1024


class _Link(Struct):
    name: str
    uri: str


_decode_link = msgspec.json.Decoder(_Link).decode


class OversizedPart(Struct, frozen=True):
    """A part of a big result that may be replaced and stored."""

    whole: PayloadPart
    tokens: int
    """The cost of the part for a model."""
    form: Literal["all", "text", "structured"] = "all"
    """Which form the part is, if the two forms say different things."""
    other_blocks: tuple[Raw, ...] = ()
    """The blocks that stay as they are."""


def find_oversized(payload: Payload, limits: Limits) -> tuple[OversizedPart, ...]:
    """The parts over a limit: all, or each form on its own where the two say different things."""
    links = PayloadPart(msgspec.json.encode(payload.links), True)
    if payload.links and is_big(links, limits):
        cost = _least_cost(payload) + _cost_of_links(payload)
        return (OversizedPart(join_parts(payload, links), cost, other_blocks=payload.media),)
    others = (*payload.links, *payload.media)
    structured = payload.structured
    texts_are_big = any(is_big(said, limits) for said in _texts(payload))
    is_structured_big = structured is not None and is_big(structured, limits)
    if structured is not None and payload.as_sent is not None and not limits.shape_always:
        found: list[OversizedPart] = []
        if texts_are_big:
            found.append(OversizedPart(_text_of(payload), _cost_of_texts(payload), "text", others))
        if is_structured_big:
            found.append(OversizedPart(structured, _cost_of_value(structured), "structured", others))
        return tuple(found)
    if not texts_are_big and not is_structured_big:
        return ()
    cost = _cost_of_texts(payload) if structured is None else _cost_of_value(structured)
    return (OversizedPart(join_parts(payload), cost, other_blocks=others),)


def _cost_of_texts(payload: Payload) -> int:
    return sum(estimate_tokens_in(text.body) for text in payload.texts)


def _least_cost(payload: Payload) -> int:
    """The cost of the cheaper form, since a model may read that one."""
    if payload.structured is None:
        return _cost_of_texts(payload)
    cost = _cost_of_value(payload.structured)
    return min(cost, _cost_of_texts(payload)) if payload.texts else cost


def _cost_of_links(payload: Payload) -> int:
    """Clients show a model the name and the address of a link, and blocks of other kinds as they are."""
    return sum(_cost_of_link(raw) for raw in payload.links)


def _cost_of_link(raw: Raw) -> int:
    try:
        link = _decode_link(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return estimate_tokens_in(bytes(raw))
    return estimate_tokens(f"{link.name} {link.uri}\n")


def _cost_of_value(said: PayloadPart) -> int:
    """Clients write structured content without white space."""
    if said.is_json and len(said.body) <= LARGE:
        return estimate_tokens_in(msgspec.json.format(said.body, indent=-1))
    return estimate_tokens_in(said.body)


def _texts(payload: Payload) -> Iterator[PayloadPart]:
    if len(payload.texts) == 1:
        yield payload.texts[0]
    elif payload.texts:
        yield _list_of(payload)
        yield PayloadPart(b"\n".join(text.body for text in payload.texts if not text.is_json), False)


def _text_of(payload: Payload) -> PayloadPart:
    """All texts as one part: a list if there are several."""
    return payload.texts[0] if len(payload.texts) == 1 else _list_of(payload)


def join_parts(payload: Payload, links: PayloadPart | None = None) -> PayloadPart:
    """All parts as one: the value or text itself if there is one, else an object of them."""
    said: dict[str, PayloadPart] = {}
    if payload.texts:
        said["text"] = _text_of(payload)
    if payload.structured is not None:
        said["structured"] = payload.structured
    if links is not None:
        said["links"] = links
    if len(said) == 1:
        return next(iter(said.values()))
    return PayloadPart(msgspec.json.encode({name: _value(one) for name, one in said.items()}), True)


def _list_of(payload: Payload) -> PayloadPart:
    return PayloadPart(msgspec.json.encode([_value(one) for one in payload.values]), True)


def _value(said: PayloadPart) -> Raw | str:
    return Raw(bytes(said.body)) if said.is_json else str(said.body, "utf-8", "replace")


def is_big(said: PayloadPart, limits: Limits) -> bool:
    size = len(said.body)
    if size > limits.max_bytes:
        return True
    if said.is_json:
        return size > limits.max_items and _count(said.body) > limits.max_items
    if size <= min(limits.max_lines, limits.max_items):
        return False
    lines = count_lines(said.body)
    if lines > limits.max_lines:
        return True
    records = json_lines(said.body) if lines > limits.max_items else None
    return records is not None and records.count > limits.max_items


def _count(body: Buffer) -> int:
    """The number of items or keys."""
    inner = open_envelope(body).inner
    found = items_of(inner) or object_of(inner)
    return 0 if found is None else found.count


def count_lines(text: Buffer) -> int:
    """A line break at the end does not begin another line."""
    body = bytes(text)
    return body.count(b"\n") + (not body.endswith(b"\n") and bool(body))
