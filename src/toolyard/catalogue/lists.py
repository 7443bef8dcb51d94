"""Reading an upstream's lists to their end, within limits."""

import asyncio
import time
from hashlib import blake2b
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from ..wire.call import NO_CHANNEL, Call, Caller, Streamed
from ..wire.errors import METHOD_NOT_FOUND, McpError
from ..wire.messages import encode
from .items import Item, Kind, Unusable, read_item

T = TypeVar("T")

MAX_ITEMS = 20_000
MAX_PAGES = 1000
MAX_BYTES = 64 * 1024 * 1024
READ_AT_ONCE = 256 * 1024
"""A longer list is read in a thread: it takes milliseconds that others are waiting in."""


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


class _Page(Struct, rename="camel"):
    next_cursor: str | None = None
    ttl_ms: float | None = None


async def read_list(service: Any, kind: Kind, caller: Caller, meta: Raw, known: Listed) -> Listed:
    """The whole list; `known` is what it was when last read."""
    pages: list[bytes] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        body = await _page(service, kind, caller, meta, cursor)
        if body is None:
            return Listed()
        pages.append(body)
        if sum(map(len, pages)) > MAX_BYTES:
            raise BadList(f"its list of {kind.name} has over {MAX_BYTES >> 20} MiB")
        page = (
            _decode(body, _Page, kind)
            if len(body) <= READ_AT_ONCE
            else await asyncio.to_thread(_decode, body, _Page, kind)
        )
        if page.next_cursor is None:
            ttl = None if page.ttl_ms is None else page.ttl_ms / 1000
            if sum(map(len, pages)) <= READ_AT_ONCE:
                return _read(kind, pages, ttl, known)
            return await asyncio.to_thread(_read, kind, pages, ttl, known)
        if page.next_cursor == cursor:
            raise BadList(f"its list of {kind.name} goes round in circles")
        cursor = page.next_cursor
    raise BadList(f"its list of {kind.name} has no end")


def _read(kind: Kind, pages: list[bytes], ttl: float | None, known: Listed) -> Listed:
    digest = blake2b(b"\0".join(pages), digest_size=16).digest()
    if digest == known.digest:
        return replace(known, ttl=ttl)
    items: dict[str, Item] = {}
    notes: list[str] = []
    for body in pages:
        members = _decode(body, dict[str, Raw], kind)
        raws = _decode(members.get(kind.name, Raw(b"[]")), list[Raw], kind)
        if len(items) + len(raws) > MAX_ITEMS:
            raise BadList(f"its list of {kind.name} has over {MAX_ITEMS} items")
        for number, raw in enumerate(raws):
            if number % 200 == 199:
                time.sleep(0.0005)  # in a thread, which would else take turns of 5 ms from the loop
            try:
                item = read_item(kind, raw)
                items.setdefault(item.own, item)
            except Unusable as error:
                notes.append(f"{kind.name}[{number}] is left out: {error}")
    return Listed(tuple(items.values()), digest, ttl, tuple(notes[:20]))


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
        return await _whole(result, kind)
    return encode(result)


async def _whole(result: Streamed, kind: Kind) -> bytes:
    try:
        if result.size > MAX_BYTES:
            raise BadList(f"its list of {kind.name} has over {MAX_BYTES >> 20} MiB")
        return b"".join([chunk async for chunk in result.chunks()])
    finally:
        result.close()


def _decode(body: bytes | Raw, form: type[T], kind: Kind) -> T:
    try:
        return msgspec.json.decode(body, type=form)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadList(f"its list of {kind.name} cannot be understood: {error}") from None
