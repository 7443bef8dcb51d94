"""The places of the index: who is in which, and the rows of numbers that belong to each.

A tool that leaves gives its slot to the next that comes, so a catalogue that changes all day does not grow.
"""

from hashlib import blake2b

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from .documents import Document
from .lexical import Floats
from .nearest import ROW, Bits
from .traits import Traits

SIZE_MEMORY = 0.2
"""What a new result's size counts in the running mean of a tool's sizes."""


class Row(Struct):
    """One tool, in its slot."""

    tool: str
    server: str
    digest: bytes
    """Of its document: whether it changed."""
    traits: Traits
    size: float = 0.0
    """Running mean of its results' sizes in bytes; 0 until one was seen."""

    def note_size(self, size: int) -> None:
        self.size = size if self.size == 0 else self.size + SIZE_MEMORY * (size - self.size)


def digest_of(document: Document) -> bytes:
    return blake2b(msgspec.msgpack.encode(document), digest_size=12).digest()


class Slots:
    def __init__(self, rows: list[Row | None], vectors: Floats, bits: Bits) -> None:
        self.rows = rows
        self._vectors = vectors
        self._bits = bits
        self._taken = {row.tool: slot for slot, row in enumerate(rows) if row is not None}
        self._free = [slot for slot, row in enumerate(rows) if row is None]

    @classmethod
    def empty(cls, dim: int) -> "Slots":
        return cls([], np.zeros((0, dim), np.float32), np.zeros((0, ROW), np.uint64))

    def __len__(self) -> int:
        return len(self._taken)

    @property
    def vectors(self) -> Floats:
        return self._vectors[: len(self.rows)]

    @property
    def bits(self) -> Bits:
        return self._bits[: len(self.rows)]

    def row(self, tool: str) -> Row | None:
        slot = self._taken.get(tool)
        return None if slot is None else self.rows[slot]

    def put(self, row: Row, vector: npt.NDArray[np.float32], bits: Bits) -> int:
        slot = self._taken[row.tool] = self._free.pop() if self._free else self._grown()
        self.rows[slot] = row
        self._vectors[slot] = vector
        self._bits[slot] = bits
        return slot

    def remove(self, tool: str) -> int | None:
        slot = self._taken.pop(tool, None)
        if slot is not None:
            self.rows[slot] = None
            self._vectors[slot] = 0.0
            self._bits[slot] = 0
            self._free.append(slot)
        return slot

    def _grown(self) -> int:
        if len(self.rows) == len(self._vectors):
            more = max(64, len(self.rows) // 4)
            self._vectors = np.concatenate(
                (self._vectors, np.zeros((more, self._vectors.shape[1]), np.float32))
            )
            self._bits = np.concatenate((self._bits, np.zeros((more, ROW), np.uint64)))
        self.rows.append(None)
        return len(self.rows) - 1
