"""The places of the index: who is in which, and the numbers that belong to each.

A tool that leaves gives its slot to the next that comes, so a catalogue that changes all day does not grow.
"""

from hashlib import blake2b
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from .documents import Document
from .nearest import BYTES, Bits
from .traits import TRAITS, Traits

Floats = npt.NDArray[np.float32]


class Row(Struct, frozen=True):
    """One tool, in its slot."""

    tool: str
    server: str
    digest: bytes
    """Of its document: whether it changed."""


def digest_of(document: Document) -> bytes:
    return blake2b(msgspec.msgpack.encode(document), digest_size=12).digest()


class Slots:
    def __init__(self, rows: list[Row | None], vectors: Floats, traits: Traits, bits: Bits) -> None:
        self.rows = rows
        self._vectors = vectors
        self._traits = traits
        self._bits = bits
        self._taken = {row.tool: slot for slot, row in enumerate(rows) if row is not None}
        self._free = [slot for slot, row in enumerate(rows) if row is None]

    @classmethod
    def empty(cls, dim: int) -> "Slots":
        return cls([], np.zeros((0, dim), np.float32), np.zeros(0, TRAITS), np.zeros((0, BYTES), np.uint8))

    def __len__(self) -> int:
        return len(self._taken)

    @property
    def vectors(self) -> Floats:
        return self._vectors[: len(self.rows)]

    @property
    def traits(self) -> Traits:
        return self._traits[: len(self.rows)]

    @property
    def bits(self) -> Bits:
        """Of the names."""
        return self._bits[: len(self.rows)]

    def find(self, tool: str) -> int | None:
        return self._taken.get(tool)

    def row(self, tool: str) -> Row | None:
        slot = self._taken.get(tool)
        return None if slot is None else self.rows[slot]

    def put(self, row: Row, vector: Floats, traits: Any, bits: Bits) -> int:
        slot = self._taken[row.tool] = self._free.pop() if self._free else self._grown()
        self.rows[slot] = row
        self._vectors[slot] = vector
        self._traits[slot] = traits
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
            self._vectors = np.pad(self._vectors, ((0, more), (0, 0)))
            self._bits = np.pad(self._bits, ((0, more), (0, 0)))
            self._traits = np.concatenate((self._traits, np.zeros(more, TRAITS)))
        self.rows.append(None)
        return len(self.rows) - 1
