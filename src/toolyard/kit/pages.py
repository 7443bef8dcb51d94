"""Pages over a mapping, in the order of registration.

A cursor names the last item shown, so a page stays right when items are added or removed meanwhile.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from ..wire.errors import InvalidParams

T = TypeVar("T")


def page(items: Mapping[str, T], cursor: str | None, size: int) -> tuple[list[T], str | None]:
    keys = list(items)
    start = _start(keys, cursor) if cursor is not None else 0
    shown = keys[start : start + size]
    after = start + len(shown)
    following = _encode(after, shown[-1]) if shown and after < len(keys) else None
    return [items[key] for key in shown], following


def _encode(index: int, key: str) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode([index, key])).decode()


def _start(keys: list[str], cursor: str) -> int:
    try:
        index, key = msgspec.json.decode(base64.urlsafe_b64decode(cursor), type=tuple[int, str])
    except (binascii.Error, ValueError, msgspec.DecodeError):
        raise InvalidParams(f"Invalid cursor {cursor[:80]!r}; start again without one") from None
    if key in keys:
        return keys.index(key) + 1
    # The item itself is gone: go on from where it stood.
    return max(0, min(index - 1, len(keys)))
