"""Reads an upstream's whole lists, within limits, and in slices, so that the event loop is not blocked.

A page too long to decode at once is split while it is read into pieces of whole items. Every pass over the
bytes is in C, except for the rest of the item that a slice begins in.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from hashlib import blake2b
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from ..upstream.base import Forward, Upstream
from ..upstream.messages.slices import (
    REST_OF_STRING,
    SLICE,
    TOKENS,
    NestingCheck,
    NestingError,
    next_turn,
    slices,
)
from ..wire.call import NO_CHANNEL, Call, Caller, StreamedResult
from ..wire.errors import METHOD_NOT_FOUND, McpError
from ..wire.messages import encode
from .items import ItemKind, UnusableItemError, UpstreamItem, read_item

MAX_AROUND_ITEMS = 64 * 1024
"""The most bytes before the items, and after them."""
LONGEST_ITEM = 2**20

_LIST = re.compile(rb"\s*+:\s*+\[")

# Replaces the text before the items, with two more levels around it.
_AROUND = b"[[{["
_DEPTH = len(_AROUND)


class PageSplitError(ValueError):
    """The body is not a page of a list; the message says why."""


class PageSplitter:
    """Splits a page, fed in pieces, into batches of whole items. `member` is the name of the list in it."""

    def __init__(self, member: str) -> None:
        self._key = b'"%s"' % member.encode()
        self._head = b""
        self._tail: bytes | None = None
        self._carry = b""
        self._balance: NestingCheck | None = None

    def feed(self, piece: bytes) -> bytes:
        """Whole items separated by commas; empty if none is complete yet."""
        try:
            if self._tail is not None:
                self._end(piece)
                return b""
            if self._balance is None:
                piece = self._begin(piece)
            return self._cut(piece) if self._balance is not None else b""
        except NestingError as fault:
            raise PageSplitError(str(fault)) from None

    def finish(self) -> bytes:
        """The page without its items."""
        if self._balance is None:
            return self._head
        if self._tail is None:
            raise PageSplitError("it has no end")
        return self._head + self._tail

    def _begin(self, piece: bytes) -> bytes:
        """Look for the list. Returns the part of the piece that belongs to it."""
        self._head += piece
        depth = 0
        for token in TOKENS.finditer(self._head):
            text = token[0]
            if text in (b"{", b"["):
                depth += 1
            elif text in (b"}", b"]"):
                depth -= 1
            elif text == self._key and depth == 1 and (found := _LIST.match(self._head, token.end())):
                self._balance = NestingCheck()
                self._balance.feed(_AROUND)
                rest = self._head[found.end() :]
                self._head = self._head[: found.end()]
                return rest
        if len(self._head) > MAX_AROUND_ITEMS:
            raise PageSplitError(f"its items do not begin within {MAX_AROUND_ITEMS // 1024} KiB")
        return b""

    def _cut(self, piece: bytes) -> bytes:
        balance = self._balance
        assert balance is not None
        in_string, escaped, depth = balance.in_string, balance.escaped, balance.depth
        floor = balance.feed(piece)
        if floor > _DEPTH:
            self._keep(piece)
            return b""
        end = _first(piece, in_string, escaped, depth, _DEPTH - 1) if floor < _DEPTH else None
        at = end if end is not None else _first(piece, in_string, escaped, depth, _DEPTH)
        if at is None:
            self._keep(piece)
            return b""
        # The bracket that ends an item belongs to it; the one that ends the list does not.
        at -= end is not None
        batch = (self._carry + piece[:at]).strip().removeprefix(b",")
        self._carry = b""
        if end is None:
            self._keep(piece[at:])
        else:
            self._end(piece[at:])
        return batch.strip()

    def _keep(self, rest: bytes) -> None:
        self._carry += rest
        if len(self._carry) > LONGEST_ITEM:
            raise PageSplitError(f"an item is over {LONGEST_ITEM // 1024} KiB")

    def _end(self, piece: bytes) -> None:
        self._tail = (self._tail or b"") + piece
        if len(self._tail) > MAX_AROUND_ITEMS:
            raise PageSplitError(f"there are more than {MAX_AROUND_ITEMS // 1024} KiB after its items")


def _first(piece: bytes, in_string: bool, escaped: bool, depth: int, wanted: int) -> int | None:
    """The position after the first bracket that closes down to the depth `wanted`."""
    start = int(escaped)
    if in_string and (rest := REST_OF_STRING.match(piece, start)):
        start = rest.end()
    for token in TOKENS.finditer(piece, start):
        bracket = token[0]
        if bracket in (b"{", b"["):
            depth += 1
        elif bracket in (b"}", b"]"):
            depth -= 1
            if depth == wanted:
                return token.end()
    return None


T = TypeVar("T")

MAX_ITEMS = 20_000
MAX_PAGES = 1000
MAX_BYTES = 64 * 1024 * 1024
ITEMS_PER_TURN = 20
PAGES_AT_ONCE = 10
REST_SECONDS = 0.002
"""The pause between two pages after that: a list may have many, and is not urgent."""
CUT_SLICE = SLICE // 2
"""Splitting a page costs more per byte than passing it on."""

Page = bytes | StreamedResult


class ItemList(Struct, frozen=True):
    items: tuple[UpstreamItem, ...] = ()
    digest: bytes = b""
    """The digest of the pages as they came: a list with the same one need not be read again."""
    ttl: float | None = None
    """The seconds that the upstream says it is valid for."""
    notes: tuple[str, ...] = ()
    """The items left out, and why."""


class UnreadableListError(Exception):
    """The list is endless, too big, or not valid."""


class _Outline(Struct, rename="camel"):
    """A page without its items."""

    next_cursor: str | None = None
    ttl_ms: float | None = None


async def read_list(
    upstream: Upstream, kind: ItemKind, caller: Caller, meta: Raw, known: ItemList
) -> ItemList:
    """The whole list; `known` is the list as it was last read."""
    pages: list[Page] = []
    try:
        digest, ttl = await _fetch(upstream, kind, caller, meta, pages)
        if not pages:
            return ItemList()
        if digest == known.digest:
            return replace(known, ttl=ttl)
        items, notes = await _read(kind, [raw for page in pages async for raw in _raws(page, kind)])
        return ItemList(items, digest, ttl, notes)
    finally:
        for page in pages:
            if isinstance(page, StreamedResult):
                page.close()


async def _fetch(
    upstream: Upstream, kind: ItemKind, caller: Caller, meta: Raw, pages: list[Page]
) -> tuple[bytes, float | None]:
    """Fill `pages`; stays empty if the upstream has no such list. Returns their digest and ttl."""
    cursor: str | None = None
    digest = blake2b(digest_size=16)
    size = 0
    for number in range(MAX_PAGES):
        page = await _page(upstream, kind, caller, meta, cursor)
        if page is None:
            pages.clear()
            return b"", None
        pages.append(page)
        size += len(page) if isinstance(page, bytes) else page.size
        if size > MAX_BYTES:
            raise UnreadableListError(f"its {kind.method} has over {MAX_BYTES >> 20} MiB")
        digest.update(b"\0" if number else b"")
        outline = await _outline(page, kind, digest)
        if outline.next_cursor is None:
            return digest.digest(), None if outline.ttl_ms is None else outline.ttl_ms / 1000
        if outline.next_cursor == cursor:
            raise UnreadableListError(f"its {kind.method} repeats a cursor")
        cursor = outline.next_cursor
        if number >= PAGES_AT_ONCE:
            await asyncio.sleep(REST_SECONDS)
    raise UnreadableListError(f"its {kind.method} has more than {MAX_PAGES} pages")


async def _page(
    upstream: Upstream, kind: ItemKind, caller: Caller, meta: Raw, cursor: str | None
) -> Page | None:
    params = {"_meta": meta} if cursor is None else {"_meta": meta, "cursor": cursor}
    try:
        call = Call(kind.method, Raw(encode(params)), caller, NO_CHANNEL, 1)
        body = (await upstream.send(Forward.of(call))).body
    except McpError as error:
        if error.code == METHOD_NOT_FOUND:
            return None
        raise
    return bytes(body) if isinstance(body, Raw) else body


async def _outline(page: Page, kind: ItemKind, digest: Any) -> _Outline:
    if isinstance(page, bytes) and len(page) <= SLICE:
        digest.update(page)
        return _decode(page, _Outline, kind)
    cutter = PageSplitter(kind.name)
    try:
        async for piece in _pieces(page):
            digest.update(piece)
            cutter.feed(piece)
        return _decode(cutter.finish(), _Outline, kind)
    except PageSplitError as fault:
        raise _unreadable(kind, fault) from None


async def _raws(page: Page, kind: ItemKind) -> AsyncIterator[Raw]:
    """The items of a page, each as its upstream sent it."""
    if isinstance(page, bytes) and len(page) <= SLICE:
        members = _decode(page, dict[str, Raw], kind)
        for raw in _decode(members.get(kind.name, Raw(b"[]")), list[Raw], kind):
            yield raw
        return
    cutter = PageSplitter(kind.name)
    count = 0
    async for piece in _pieces(page):
        if batch := cutter.feed(piece):  # `_outline` has split it before, so this cannot fail
            found = _decode(b"[%s]" % batch, list[Raw], kind)
            count += len(found)
            if count > MAX_ITEMS:
                raise UnreadableListError(f"its {kind.method} has over {MAX_ITEMS} items")
            for raw in found:
                yield raw


async def _pieces(page: Page) -> AsyncIterator[bytes]:
    if isinstance(page, bytes):
        for piece in slices(page, CUT_SLICE):
            yield piece
            await next_turn()
        return
    async for chunk in page.chunks():
        for piece in slices(chunk, CUT_SLICE):
            yield piece
            await next_turn()


async def _read(kind: ItemKind, raws: list[Raw]) -> tuple[tuple[UpstreamItem, ...], tuple[str, ...]]:
    """The items, and a note for each that is left out."""
    if len(raws) > MAX_ITEMS:
        raise UnreadableListError(f"its {kind.method} has over {MAX_ITEMS} items")
    items: dict[str, UpstreamItem] = {}
    notes: list[str] = []
    for number, raw in enumerate(raws):
        if number % ITEMS_PER_TURN == ITEMS_PER_TURN - 1:
            await next_turn()
        try:
            item = read_item(kind, raw)
            items.setdefault(item.own, item)
        except UnusableItemError as error:
            notes.append(f"{kind.name}[{number}] is left out: {error}")
    return tuple(items.values()), tuple(notes[:20])


def _decode(body: bytes | Raw, form: type[T], kind: ItemKind) -> T:
    try:
        return msgspec.json.decode(body, type=form)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unreadable(kind, error) from None


def _unreadable(kind: ItemKind, reason: Exception) -> UnreadableListError:
    return UnreadableListError(f"its {kind.method} is not valid: {reason}")
