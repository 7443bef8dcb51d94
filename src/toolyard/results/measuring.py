"""Whether a result is big: over a limit in bytes, in items or keys, or in lines.

Envelopes are seen through: `{"data": {"items": [...]}}` has as many items as its list.
"""

from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct

from .envelopes import seen_through
from .json_parts import Buffer, items_of, members_of
from .limits import Limits
from .ndjson import json_lines
from .payload import Payload, Said


class Measured(Struct, frozen=True):
    """A big result: what is kept of it, and which blocks stay beside what takes its place."""

    whole: Said
    beside: tuple[Raw, ...]


def measure(payload: Payload, limits: Limits) -> Measured | None:
    """None when it fits."""
    links = Said(msgspec.json.encode(payload.links), True)
    many_links = bool(payload.links) and is_big(links, limits)
    if not many_links and not any(is_big(said, limits) for said in _parts(payload)):
        return None
    beside = payload.media if many_links else (*payload.links, *payload.media)
    return Measured(whole_of(payload, links if many_links else None), beside)


def _parts(payload: Payload) -> Iterator[Said]:
    """What a client may show its model: the structured part, or all texts."""
    if payload.structured is not None:
        yield payload.structured
    if len(payload.texts) == 1:
        yield payload.texts[0]
    elif payload.texts:
        yield _list_of(payload)
        yield Said(b"\n".join(text.body for text in payload.texts if not text.is_json), False)


def whole_of(payload: Payload, links: Said | None = None) -> Said:
    """All that is said, as one: a value or a text where there is only one, else an object of them."""
    said: dict[str, Said] = {}
    if payload.texts:
        said["text"] = payload.texts[0] if len(payload.texts) == 1 else _list_of(payload)
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
    items = items_of(inner)
    return items.count if items is not None else len(members_of(inner) or ())


def lines_in(text: Buffer) -> int:
    """A line break at the end begins no line."""
    body = bytes(text)
    return body.count(b"\n") + (not body.endswith(b"\n") and bool(body))
