"""The index on disk, so that a restarted gateway searches at once.

Arrays are written as they lie in memory. A file of another version or another embedding, or one that is
damaged, is `UnusableIndex`: whoever gets that begins with an empty index and puts everything anew.
"""

import os
import sys
import tempfile
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Struct

from .. import __version__
from .lexical import Postings
from .nearest import BYTES
from .slots import Row, Slots
from .traits import TRAITS

FORMAT = 2
CHECK = 16
"""Bytes of the checksum that the file begins with."""


class UnusableIndex(ValueError):
    """A saved index that cannot be used; the message says which and why."""


class _Stored(Struct, frozen=True):
    made_by: tuple[int, str, str, bytes]
    rows: list[Row | None]
    vectors: bytes
    traits: bytes
    bits: bytes
    words: list[str]
    starts: bytes
    slots: bytes
    weights: bytes
    marks: bytes


def write(path: Path, embedding: bytes, slots: Slots, postings: Postings) -> None:
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


def read(path: Path, embedding: bytes, dim: int) -> tuple[Slots, Postings]:
    try:
        content = memoryview(path.read_bytes())
        if blake2b(content[CHECK:], digest_size=CHECK).digest() != bytes(content[:CHECK]):
            raise UnusableIndex(f"the index in {str(path)!r} is damaged")
        stored = msgspec.msgpack.decode(content[CHECK:], type=_Stored)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UnusableIndex(f"the index in {str(path)!r} cannot be read: {error}") from None
    if stored.made_by != _made_by(embedding):
        raise UnusableIndex(f"the index in {str(path)!r} is of another version or another embedding")
    vectors = _array(stored.vectors, np.float32).reshape(-1, dim)
    bits = _array(stored.bits, np.uint8).reshape(-1, BYTES)
    slots = Slots(stored.rows, vectors, _array(stored.traits, TRAITS), bits)
    words = {word: number for number, word in enumerate(stored.words)}
    postings = Postings(
        words,
        _array(stored.starts, np.int64),
        _array(stored.slots, np.int64),
        _array(stored.weights, np.float32),
        _array(stored.marks, np.uint8),
    )
    return slots, postings


def _made_by(embedding: bytes) -> tuple[int, str, str, bytes]:
    return (FORMAT, __version__, sys.byteorder, blake2b(embedding, digest_size=16).digest())


def _array(body: bytes, kind: npt.DTypeLike) -> npt.NDArray[Any]:
    return np.frombuffer(body, kind).copy()
