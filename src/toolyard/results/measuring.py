"""Whether a result is big: over a limit in bytes, in items or keys, or in lines; and what would be shaped.

Envelopes are seen through: `{"data": {"items": [...]}}` has as many items as its list.
"""

from collections.abc import Iterator
from typing import Literal

import msgspec
from msgspec import Raw, Struct

from .envelopes import seen_through
from .json_parts import Buffer, items_of, object_of
from .limits import Limits
from .ndjson import json_lines
from .payload import Payload, Said
from .tokens import estimated, estimated_in

LARGE = 64 * 1024


class _Link(Struct):
    name: str
    uri: str


_decode_link = msgspec.json.Decoder(_Link).decode


class Measured(Struct, frozen=True):
    """What of a big result may be replaced, and is kept then."""

    whole: Said
    came: int
    """Tokens that it costs a model as it is."""
    place: Literal["all", "text", "structured"] = "all"
    """Which of the two forms it is, where they say different things."""
    beside: tuple[Raw, ...] = ()
    """The blocks that stay as they are."""


def measure(payload: Payload, limits: Limits) -> tuple[Measured, ...]:
    """What is big of it: all, or one form or both where they say different things; nothing when it fits."""
    links = Said(msgspec.json.encode(payload.links), True)
    if payload.links and is_big(links, limits):
        cost = _least_cost(payload) + _cost_of_links(payload)
        return (Measured(whole_of(payload, links), cost, beside=payload.media),)
    beside = (*payload.links, *payload.media)
    structured = payload.structured
    texts_are_big = any(is_big(said, limits) for said in _texts(payload))
    is_structured_big = structured is not None and is_big(structured, limits)
    if structured is not None and payload.as_sent is not None and not limits.always:
        found: list[Measured] = []
        if texts_are_big:
            found.append(Measured(_text_of(payload), _cost_of_texts(payload), "text", beside))
        if is_structured_big:
            found.append(Measured(structured, _cost_of_value(structured), "structured", beside))
        return tuple(found)
    if not texts_are_big and not is_structured_big:
        return ()
    cost = _cost_of_texts(payload) if structured is None else _cost_of_value(structured)
    return (Measured(whole_of(payload), cost, beside=beside),)


def _cost_of_texts(payload: Payload) -> int:
    return sum(estimated_in(text.body) for text in payload.texts)


def _least_cost(payload: Payload) -> int:
    """Of the form that costs less, since a model may read that one."""
    if payload.structured is None:
        return _cost_of_texts(payload)
    cost = _cost_of_value(payload.structured)
    return min(cost, _cost_of_texts(payload)) if payload.texts else cost


def _cost_of_links(payload: Payload) -> int:
    """Clients show a model where a link leads and its name; blocks of other kinds as they are."""
    return sum(_cost_of_link(raw) for raw in payload.links)


def _cost_of_link(raw: Raw) -> int:
    try:
        link = _decode_link(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return estimated_in(bytes(raw))
    return estimated(f"{link.name} {link.uri}\n")


def _cost_of_value(said: Said) -> int:
    """Clients write structured content without white space."""
    if said.is_json and len(said.body) <= LARGE:
        return estimated_in(msgspec.json.format(said.body, indent=-1))
    return estimated_in(said.body)


def _texts(payload: Payload) -> Iterator[Said]:
    if len(payload.texts) == 1:
        yield payload.texts[0]
    elif payload.texts:
        yield _list_of(payload)
        yield Said(b"\n".join(text.body for text in payload.texts if not text.is_json), False)


def _text_of(payload: Payload) -> Said:
    """All texts as one; of several, a list."""
    return payload.texts[0] if len(payload.texts) == 1 else _list_of(payload)


def whole_of(payload: Payload, links: Said | None = None) -> Said:
    """All that is said, as one: a value or a text where there is only one, else an object of them."""
    said: dict[str, Said] = {}
    if payload.texts:
        said["text"] = _text_of(payload)
    if payload.structured is not None:
        said["structured"] = payload.structured
    if links is not None:
        said["links"] = links
    if len(said) == 1:
        return next(iter(said.values()))
    return Said(msgspec.json.encode({name: _value(one) for name, one in said.items()}), True)


def _list_of(payload: Payload) -> Said:
    return Said(msgspec.json.encode([_value(one) for one in payload.values]), True)


def _value(said: Said) -> Raw | str:
    return Raw(bytes(said.body)) if said.is_json else str(said.body, "utf-8", "replace")


def is_big(said: Said, limits: Limits) -> bool:
    size = len(said.body)
    if size > limits.max_bytes:
        return True
    if said.is_json:
        return size > limits.max_items and _count(said.body) > limits.max_items
    if size <= min(limits.max_lines, limits.max_items):
        return False
    lines = lines_in(said.body)
    if lines > limits.max_lines:
        return True
    records = json_lines(said.body) if lines > limits.max_items else None
    return records is not None and records.count > limits.max_items


def _count(body: Buffer) -> int:
    """Of items or keys."""
    inner = seen_through(body).inner
    found = items_of(inner) or object_of(inner)
    return 0 if found is None else found.count


def lines_in(text: Buffer) -> int:
    """A line break at the end begins no line."""
    body = bytes(text)
    return body.count(b"\n") + (not body.endswith(b"\n") and bool(body))
