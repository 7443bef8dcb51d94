"""Pages of lists, made of bytes that the catalogue already has."""

import base64
import binascii
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec import Raw

from ..catalogue.catalogue import Entry
from ..catalogue.items import Item, Kind, shown
from ..wire.call import Call
from ..wire.eras import SERVER_KEY
from ..wire.errors import InvalidParams
from ..wire.messages import decode_params, encode
from ..wire.types import ListParams

if TYPE_CHECKING:
    from .yard import Yard

TTL_MS = 5_000


class Shows(Protocol):
    def entries(self, kind: Kind, call: Call) -> list[Entry]: ...

    def name_of(self, entry: Entry) -> str: ...

    def item_of(self, entry: Entry) -> Item: ...

    def server_info(self) -> Raw: ...


class Pages:
    ttl_ms = TTL_MS

    def __init__(self, yard: "Yard", view: Shows) -> None:
        self._yard = yard
        self._view = view

    def page(self, call: Call, kind: Kind, first: Sequence[bytes] = ()) -> Raw:
        """`first`: what the list begins with that is not in the catalogue, as JSON."""
        entries = self._view.entries(kind, call)
        cursor = decode_params(call.params, ListParams).cursor
        start = 0 if cursor is None else self._after(kind, entries, cursor)
        found = entries[start : start + self._yard.page_size]
        name_of, item_of = self._view.name_of, self._view.item_of
        pieces = [b'{"%s":[' % kind.name.encode()]
        before = first if cursor is None else ()
        pieces.append(b",".join([*before, *(shown(kind, item_of(entry), name_of(entry)) for entry in found)]))
        pieces.append(b"]")
        if found and start + len(found) < len(entries):
            pieces.append(b',"nextCursor":"%s"' % self._cursor(found[-1], start + len(found) - 1))
        if call.caller.era == "modern":
            pieces.append(
                b',"ttlMs":%d,"cacheScope":"private","resultType":"complete","_meta":{"%s":%s}'
                % (TTL_MS, SERVER_KEY.encode(), bytes(self._view.server_info()))
            )
        pieces.append(b"}")
        return Raw(b"".join(pieces))

    def _cursor(self, entry: Entry, position: int) -> bytes:
        number = self._yard.catalogue.shelves[entry.server].number
        return base64.urlsafe_b64encode(encode([number, entry.bare, position]))

    def _after(self, kind: Kind, entries: list[Entry], cursor: str) -> int:
        """Where the next page begins: after the entry that the last one ended with, were it gone or not."""
        try:
            decoded = base64.b64decode(cursor, altchars=b"-_", validate=True)
            number, bare, at = msgspec.json.decode(decoded, type=tuple[int, str, int])
        except (binascii.Error, ValueError, msgspec.DecodeError):
            raise InvalidParams(f"Invalid cursor {cursor[:80]!r}; start again without one") from None
        shelves = self._yard.catalogue.shelves
        following = len(entries)
        for position, entry in enumerate(entries):
            shelf = shelves[entry.server].number
            if shelf == number and entry.bare == bare:
                return position + 1
            if shelf > number and position < following:
                following = position
        # It has gone: about where it was, among those of its server.
        return min(max(at, 0), following)
