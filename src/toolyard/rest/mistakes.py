"""What is wrong with a table, told so that it can be put right: the file, the line, the key, what to do."""

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

SHOWN = 20

Keys = tuple[str | int, ...]
"""Where something stands in the file: names of tables and keys, numbers of items."""


class Mistake(Struct, frozen=True):
    keys: Keys
    what: str
    hint: str = ""


class TableError(Exception):
    """A table that cannot be used; `lines` are its mistakes, one each, in the order of the file."""

    def __init__(self, file: Path, lines: Iterable[str], *, more: int = 0) -> None:
        self.file = file
        self.lines = tuple(lines)
        told = [*self.lines, f"… and {more} more"] if more else self.lines
        super().__init__("\n".join(told))


def spelt(keys: Keys) -> str:
    """As a reader of the file would say it: `tools.get_ticket.needs[0]`."""
    text = ""
    for key in keys:
        if isinstance(key, int):
            text += f"[{key}]"
        else:
            text += f".{key}" if text else key
    return text
