"""The index's table, in memory and on disk: one slot for each tool, with its vector, traits and name bits.

Slots of removed tools are reused, so a catalogue that changes all day does not grow. Loading a file that is
damaged, or of another version or embedding, raises UnusableIndexError: begin with an empty index then. Name
bits are hashed trigrams; they find similar names among ten thousand in a fraction of a millisecond.
"""

import os
import sys
import tempfile
from collections.abc import Sequence
from difflib import SequenceMatcher
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from .._version import __version__
from .documents import ToolDocument
from .lexical import Floats, Postings
from .ranking import TRAITS, Traits
from .terms import words

Bits = npt.NDArray[np.uint8]

BYTES = 64
WIDTH = 8 * BYTES
"""Bits for each name."""
MAX_NAME = 200
NAMES_COMPARED = 24
"""How many of the most similar names are compared letter by letter."""
LEAST_SIMILARITY = 0.5


def name_bits(names: Sequence[str]) -> Bits:
    """Returns a row of bits for each name."""
    plain = [f"  {_words_of_name(name)} ".encode("ascii", "replace") for name in names]
    letters = np.frombuffer(b"".join(plain), np.uint8).astype(np.int64)
    pieces = (
        (letters[:-2] * 961 + letters[1:-1] * 31 + letters[2:]) % WIDTH if len(letters) > 2 else letters[:0]
    )
    rows = np.repeat(np.arange(len(names)), [len(name) for name in plain])[: len(pieces)]
    bits = np.zeros((len(names), WIDTH), np.bool_)
    bits[rows, pieces] = True
    return np.packbits(bits, axis=1)


def similar_rows(asked: str, bits: Bits) -> list[int]:
    """Returns the rows that share trigrams with a name, most similar first."""
    wanted = name_bits([asked])
    shared = _count(bits & wanted)
    alike = shared / np.maximum(1.0, _count(bits) + _count(wanted) - shared)
    return np.argsort(-alike, kind="stable")[: int(np.count_nonzero(shared))].tolist()


def name_similarity(asked: str, name: str) -> float:
    """Compares names letter by letter; returns 0 to 1."""
    return SequenceMatcher(None, _words_of_name(asked), _words_of_name(name), autojunk=False).ratio()


def _count(bits: Bits) -> npt.NDArray[np.float32]:
    return np.bitwise_count(bits).sum(axis=1, dtype=np.float32)


def _words_of_name(name: str) -> str:
    return " ".join(words(name[:MAX_NAME].removeprefix("mcp__")))


class ToolRow(Struct, frozen=True):
    """One tool, in its slot."""

    tool: str
    server: str
    digest: bytes
    """The digest of its document, to detect changes."""


def digest_of(document: ToolDocument) -> bytes:
    return blake2b(msgspec.msgpack.encode(document), digest_size=12).digest()


class SlotTable:
    def __init__(self, rows: list[ToolRow | None], vectors: Floats, traits: Traits, bits: Bits) -> None:
        self.rows = rows
        self._vectors = vectors
        self._traits = traits
        self._bits = bits
        self._taken = {row.tool: slot for slot, row in enumerate(rows) if row is not None}
        self._free = [slot for slot, row in enumerate(rows) if row is None]

    @classmethod
    def empty(cls, dim: int) -> "SlotTable":
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
        """The bits of the names."""
        return self._bits[: len(self.rows)]

    def find(self, tool: str) -> int | None:
        return self._taken.get(tool)

    def row(self, tool: str) -> ToolRow | None:
        slot = self._taken.get(tool)
        return None if slot is None else self.rows[slot]

    def put(self, row: ToolRow, vector: Floats, traits: Any, bits: Bits) -> int:
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


FORMAT = 4
CHECK = 16
"""Bytes of the checksum that the file begins with."""


class UnusableIndexError(ValueError):
    """A saved index that cannot be used; the message says which and why."""


class _Stored(Struct, frozen=True):
    made_by: tuple[int, str, str, bytes]
    rows: list[ToolRow | None]
    vectors: bytes
    traits: bytes
    bits: bytes
    words: list[str]
    starts: bytes
    slots: bytes
    weights: bytes
    marks: bytes
    sizes: dict[str, float]


def write_index(
    path: Path, embedding: bytes, slots: SlotTable, postings: Postings, sizes: dict[str, float]
) -> None:
    body = msgspec.msgpack.encode(
        _Stored(
            _made_by(embedding),
            slots.rows,
            slots.vectors.tobytes(),
            slots.traits.tobytes(),
            slots.bits.tobytes(),
            list(postings.words),
            postings.starts.tobytes(),
            postings.slots.tobytes(),
            postings.weights.tobytes(),
            postings.marks.tobytes(),
            sizes,
        )
    )
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(blake2b(body, digest_size=CHECK).digest())
            file.write(body)
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise


def read_index(path: Path, embedding: bytes, dim: int) -> tuple[SlotTable, Postings, dict[str, float]]:
    try:
        content = memoryview(path.read_bytes())
        if blake2b(content[CHECK:], digest_size=CHECK).digest() != bytes(content[:CHECK]):
            raise UnusableIndexError(f"the index in {str(path)!r} is damaged")
        stored = msgspec.msgpack.decode(content[CHECK:], type=_Stored)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnusableIndexError(f"the index in {str(path)!r} cannot be read: {error}") from None
    if stored.made_by != _made_by(embedding):
        raise UnusableIndexError(f"the index in {str(path)!r} is of another version or another embedding")
    vectors = _array(stored.vectors, np.float32).reshape(-1, dim)
    bits = _array(stored.bits, np.uint8).reshape(-1, BYTES)
    slots = SlotTable(stored.rows, vectors, _array(stored.traits, TRAITS), bits)
    words = {word: number for number, word in enumerate(stored.words)}
    postings = Postings(
        words,
        _array(stored.starts, np.int64),
        _array(stored.slots, np.int64),
        _array(stored.weights, np.float32),
        _array(stored.marks, np.uint8),
    )
    return slots, postings, stored.sizes


def _made_by(embedding: bytes) -> tuple[int, str, str, bytes]:
    return (FORMAT, __version__, sys.byteorder, blake2b(embedding, digest_size=16).digest())


def _array(body: bytes, kind: npt.DTypeLike) -> npt.NDArray[Any]:
    return np.frombuffer(body, kind).copy()
