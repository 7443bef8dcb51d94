"""Reading an upstream's lists to their end, within limits, and in slices: nobody waits for a long one."""

import asyncio
from collections.abc import AsyncIterator
from hashlib import blake2b
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from ..upstream.turns import SLICE, slices, turn
from ..wire.call import NO_CHANNEL, Call, Caller, Streamed
from ..wire.errors import METHOD_NOT_FOUND, McpError
from ..wire.messages import encode
from .cutting import CannotCut, Cutter
from .items import Item, Kind, Unusable, read_item

T = TypeVar("T")

MAX_ITEMS = 20_000
MAX_PAGES = 1000
MAX_BYTES = 64 * 1024 * 1024
ITEMS_PER_TURN = 20
PAGES_AT_ONCE = 10
REST_SECONDS = 0.002
"""Between two pages after that: a list may have many, but nobody waits for it so urgently."""
CUT_SLICE = SLICE // 2
"""What is cut is looked at more closely than what is passed on."""

Page = bytes | Streamed


class Listed(Struct, frozen=True):
    items: tuple[Item, ...] = ()
    digest: bytes = b""
    """Of the pages as they came: a list that is the same byte for byte need not be read again."""
    ttl: float | None = None
    """Seconds it is good for, by the upstream's word."""
    notes: tuple[str, ...] = ()
    """What was left out, and why."""


class BadList(Exception):
    """A list that cannot be read: no end, out of all proportion, or not a list."""


class _Outline(Struct, rename="camel"):
    """A page but for its items."""

    next_cursor: str | None = None
    ttl_ms: float | None = None


async def read_list(service: Any, kind: Kind, caller: Caller, meta: Raw, known: Listed) -> Listed:
    """The whole list; `known` is what it was when last read."""
    pages: list[Page] = []
    try:
        digest, ttl = await _fetch(service, kind, caller, meta, pages)
        if not pages:
            return Listed()
        if digest == known.digest:
            return replace(known, ttl=ttl)
        items, notes = await _read(kind, [raw for page in pages async for raw in _raws(page, kind)])
        return Listed(items, digest, ttl, notes)
    finally:
        for page in pages:
            if isinstance(page, Streamed):
                page.close()


async def _fetch(
    service: Any, kind: Kind, caller: Caller, meta: Raw, pages: list[Page]
) -> tuple[bytes, float | None]:
    """Fill `pages`: their digest, and how long they are good for. None when there is no such list."""
    cursor: str | None = None
    digest = blake2b(digest_size=16)
    size = 0
    for number in range(MAX_PAGES):
        page = await _page(service, kind, caller, meta, cursor)
        if page is None:
            pages.clear()
            return b"", None
        pages.append(page)
        size += len(page) if isinstance(page, bytes) else page.size
        if size > MAX_BYTES:
            raise BadList(f"its list of {kind.name} has over {MAX_BYTES >> 20} MiB")
        digest.update(b"\0" if number else b"")
        outline = await _outline(page, kind, digest)
        if outline.next_cursor is None:
            return digest.digest(), None if outline.ttl_ms is None else outline.ttl_ms / 1000
        if outline.next_cursor == cursor:
            raise BadList(f"its list of {kind.name} goes round in circles")
        cursor = outline.next_cursor
        if number >= PAGES_AT_ONCE:
            await asyncio.sleep(REST_SECONDS)
    raise BadList(f"its list of {kind.name} has no end")


async def _page(service: Any, kind: Kind, caller: Caller, meta: Raw, cursor: str | None) -> Page | None:
    params = {"_meta": meta} if cursor is None else {"_meta": meta, "cursor": cursor}
    try:
        result = await service.handle(Call(kind.method, Raw(encode(params)), caller, NO_CHANNEL, 1))
    except McpError as error:
        if error.code == METHOD_NOT_FOUND:
            return None
        raise
    if isinstance(result, Raw):
        return bytes(result)
    return result if isinstance(result, Streamed) else encode(result)


async def _outline(page: Page, kind: Kind, digest: Any) -> _Outline:
    if isinstance(page, bytes) and len(page) <= SLICE:
        digest.update(page)
        return _decode(page, _Outline, kind)
    cutter = Cutter(kind.name)
    try:
        async for piece in _pieces(page):
            digest.update(piece)
            cutter.feed(piece)
        return _decode(cutter.finish(), _Outline, kind)
    except CannotCut as fault:
        raise _unreadable(kind, fault) from None


async def _raws(page: Page, kind: Kind) -> AsyncIterator[Raw]:
    """The items of a page, each as it came."""
    if isinstance(page, bytes) and len(page) <= SLICE:
        members = _decode(page, dict[str, Raw], kind)
        for raw in _decode(members.get(kind.name, Raw(b"[]")), list[Raw], kind):
            yield raw
        return
    cutter = Cutter(kind.name)
    count = 0
    async for piece in _pieces(page):
        if batch := cutter.feed(piece):  # what cannot be cut was found out before
            found = _decode(b"[%s]" % batch, list[Raw], kind)
            count += len(found)
            if count > MAX_ITEMS:
                raise BadList(f"its list of {kind.name} has over {MAX_ITEMS} items")
            for raw in found:
                yield raw


async def _pieces(page: Page) -> AsyncIterator[bytes]:
    if isinstance(page, bytes):
        for piece in slices(page, CUT_SLICE):
            yield piece
            await turn()
        return
    async for chunk in page.chunks():
        for piece in slices(chunk, CUT_SLICE):
            yield piece
            await turn()


async def _read(kind: Kind, raws: list[Raw]) -> tuple[tuple[Item, ...], tuple[str, ...]]:
    """The items, and a note for each that is left out."""
    if len(raws) > MAX_ITEMS:
        raise BadList(f"its list of {kind.name} has over {MAX_ITEMS} items")
    items: dict[str, Item] = {}
    notes: list[str] = []
    for number, raw in enumerate(raws):
        if number % ITEMS_PER_TURN == ITEMS_PER_TURN - 1:
            await turn()
        try:
            item = read_item(kind, raw)
            items.setdefault(item.own, item)
        except Unusable as error:
            notes.append(f"{kind.name}[{number}] is left out: {error}")
    return tuple(items.values()), tuple(notes[:20])


def _decode(body: bytes | Raw, form: type[T], kind: Kind) -> T:
    try:
        return msgspec.json.decode(body, type=form)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unreadable(kind, error) from None


def _unreadable(kind: Kind, reason: Exception) -> BadList:
    return BadList(f"its list of {kind.name} cannot be understood: {reason}")
