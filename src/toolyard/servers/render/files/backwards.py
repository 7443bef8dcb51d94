"""A file in pieces from its end, without reading all of it."""

from collections.abc import Iterator
from typing import BinaryIO

BLOCK = 256 * 1024
LONGEST_PIECE = 1024 * 1024
"""Of a longer one the beginning is kept."""


class Budget:
    """How many bytes may still be read; whoever wants more than that goes without."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.left = size

    @property
    def is_spent(self) -> bool:
        return self.left <= 0


def backwards(handle: BinaryIO, size: int, separator: bytes, budget: Budget) -> Iterator[bytes]:
    """What is between separators, the last one first."""
    position, rest = size, b""
    while position > 0 and not budget.is_spent:
        step = min(BLOCK, position)
        position -= step
        budget.left -= step
        handle.seek(position)
        pieces = (handle.read(step) + rest).split(separator)
        rest = pieces[0][:LONGEST_PIECE]
        yield from reversed(pieces[1:])
    if position == 0 and rest:
        yield rest
