"""Names like a given one, for whoever asked for a tool that is not there.

Each name is a row of bits, one for every hashed three-letter piece in it. Comparing a name with ten thousand
takes a fraction of a millisecond, so asking for what does not exist is no way to keep the gateway busy.
"""

from collections.abc import Sequence
from difflib import SequenceMatcher

import numpy as np
import numpy.typing as npt

from .terms import words

Bits = npt.NDArray[np.uint8]

BYTES = 64
WIDTH = 8 * BYTES
"""Bits for each name."""
MAX_NAME = 200
LOOKED_AT = 24
"""How many of the likeliest are compared letter by letter."""
LIKE_ENOUGH = 0.5


def bits_of(names: Sequence[str]) -> Bits:
    """A row for each name."""
    plain = [f"  {_plain(name)} ".encode("ascii", "replace") for name in names]
    letters = np.frombuffer(b"".join(plain), np.uint8).astype(np.int64)
    pieces = (
        (letters[:-2] * 961 + letters[1:-1] * 31 + letters[2:]) % WIDTH if len(letters) > 2 else letters[:0]
    )
    rows = np.repeat(np.arange(len(names)), [len(name) for name in plain])[: len(pieces)]
    bits = np.zeros((len(names), WIDTH), np.bool_)
    bits[rows, pieces] = True
    return np.packbits(bits, axis=1)


def likeliest(asked: str, bits: Bits) -> list[int]:
    """The rows that share pieces with a name, the likeliest first."""
    wanted = bits_of([asked])
    shared = _count(bits & wanted)
    alike = shared / np.maximum(1.0, _count(bits) + _count(wanted) - shared)
    return np.argsort(-alike, kind="stable")[: int(np.count_nonzero(shared))].tolist()


def closeness(asked: str, name: str) -> float:
    """Letter by letter, from 0 to 1."""
    return SequenceMatcher(None, _plain(asked), _plain(name), autojunk=False).ratio()


def _count(bits: Bits) -> npt.NDArray[np.float32]:
    return np.bitwise_count(bits).sum(axis=1, dtype=np.float32)


def _plain(name: str) -> str:
    return " ".join(words(name[:MAX_NAME].removeprefix("mcp__")))
