"""Reading an upstream's lists to their end, within limits."""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from ..wire.call import NO_CHANNEL, Call, Caller, Streamed
from ..wire.errors import METHOD_NOT_FOUND, McpError
from ..wire.messages import encode
from .items import Item, Kind, Unusable, read_item

MAX_ITEMS = 20_000
MAX_PAGES = 1000
MAX_BYTES = 64 * 1024 * 1024


class Listed(Struct, frozen=True):
    items: tuple[Item, ...] = ()
    ttl: float | None = None
    """Seconds it is good for, by the upstream's word."""
    notes: tuple[str, ...] = ()
    """What was left out, and why."""


class BadList(Exception):
    """A list that cannot be read: no end, out of all proportion, or not a list."""


class _Page(Struct, rename="camel"):
    next_cursor: str | None = None
    ttl_ms: float | None = None


async def read_list(service: Any, kind: Kind, caller: Caller, meta: Raw) -> Listed:
    items: dict[str, Item] = {}
    notes: list[str] = []
    ttl: float | None = None
    cursor: str | None = None
    size = 0
    for _ in range(MAX_PAGES):
        body = await _page(service, kind, caller, meta, cursor)
        if body is None:
            return Listed()
        size += len(body)
        page, raws = _decode(body, kind)
        ttl = None if page.ttl_ms is None else page.ttl_ms / 1000
        for number, raw in enumerate(raws):
            try:
                item = read_item(kind, raw)
                items.setdefault(item.own, item)
            except Unusable as error:
                notes.append(f"{kind.name}[{number}] is left out: {error}")
        if len(items) > MAX_ITEMS or size > MAX_BYTES:
            raise BadList(f"its list of {kind.name} has over {MAX_ITEMS} items or {MAX_BYTES >> 20} MiB")
        if page.next_cursor is None:
            return Listed(tuple(items.values()), ttl, tuple(notes[:20]))
        if page.next_cursor == cursor:
            raise BadList(f"its list of {kind.name} goes round in circles")
        cursor = page.next_cursor
    raise BadList(f"its list of {kind.name} has no end")


async def _page(service: Any, kind: Kind, caller: Caller, meta: Raw, cursor: str | None) -> bytes | None:
    params = {"_meta": meta} if cursor is None else {"_meta": meta, "cursor": cursor}
    try:
        result = await service.handle(Call(kind.method, Raw(encode(params)), caller, NO_CHANNEL, 1))
    except McpError as error:
        if error.code == METHOD_NOT_FOUND:
            return None
        raise
    if isinstance(result, Raw):
        return bytes(result)
    if isinstance(result, Streamed):
        result.close()
        raise BadList(f"a page of its {kind.name} is too big")
    return encode(result)


def _decode(body: bytes, kind: Kind) -> tuple[_Page, list[Raw]]:
    try:
        page = msgspec.json.decode(body, type=_Page)
        members = msgspec.json.decode(body, type=dict[str, Raw])
        return page, msgspec.json.decode(members.get(kind.name, Raw(b"[]")), type=list[Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadList(f"its list of {kind.name} cannot be understood: {error}") from None
