"""Pages over things in the order of their registration.

Everything registered has a serial number that only grows, and a cursor is the last number shown: a
page stays right whatever is added, removed or replaced meanwhile.
"""

import base64
import binascii
from collections.abc import Iterable
from typing import Protocol, TypeVar

from ..wire.errors import InvalidParams


class Numbered(Protocol):
    serial: int


N = TypeVar("N", bound=Numbered)


def page(items: Iterable[N], cursor: str | None, size: int) -> tuple[list[N], str | None]:
    after = _read(cursor) if cursor is not None else 0
    waiting = [item for item in items if item.serial > after]
    shown = waiting[:size]
    return shown, _write(shown[-1].serial) if len(waiting) > size else None


def _write(serial: int) -> str:
    return base64.urlsafe_b64encode(b"after:%d" % serial).decode()


def _read(cursor: str) -> int:
    try:
        mark, _, number = base64.b64decode(cursor, altchars=b"-_", validate=True).partition(b":")
        if mark == b"after" and number.isdigit() and len(number) < 19:
            return int(number)
    except (binascii.Error, ValueError):
        pass
    raise InvalidParams(f"Invalid cursor {cursor[:80]!r}; start again without one")
