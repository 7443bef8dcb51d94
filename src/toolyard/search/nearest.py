"""Names like a given one, for whoever asked for a tool that is not there.

Each name is a row of bits, one for every hashed three-letter piece in it. Comparing a name with ten thousand
takes a fraction of a millisecond, so asking for what does not exist is no way to keep the gateway busy.
"""

import zlib
from difflib import SequenceMatcher

import numpy as np
import numpy.typing as npt

from .terms import words

Bits = npt.NDArray[np.uint64]

ROW = 8
"""Words of 64 bits for each name."""
MAX_NAME = 200
LOOKED_AT = 24
"""How many of the likeliest are compared letter by letter."""
LIKE_ENOUGH = 0.5


def bits_of(name: str) -> Bits:
    plain = f" {_plain(name)} "
    found = 0
    for at in range(len(plain) - 2):
        found |= 1 << zlib.crc32(plain[at : at + 3].encode()) % (64 * ROW)
    return np.frombuffer(found.to_bytes(8 * ROW, "little"), "<u8").astype(np.uint64)


def likeliest(asked: str, bits: Bits) -> list[int]:
    """The rows that share most pieces with a name, the likeliest first."""
    wanted = bits_of(asked)
    shared = _count(bits & wanted)
    alike = shared / np.maximum(1.0, _count(bits) + _count(wanted[None]) - shared)
    return np.argsort(-alike, kind="stable")[: int(np.count_nonzero(shared))].tolist()


def closeness(asked: str, name: str) -> float:
    """Letter by letter, from 0 to 1."""
    return SequenceMatcher(None, _plain(asked), _plain(name), autojunk=False).ratio()


def _count(bits: Bits) -> npt.NDArray[np.float32]:
    return np.bitwise_count(bits).sum(axis=1, dtype=np.float32)


def _plain(name: str) -> str:
    return " ".join(words(name[:MAX_NAME].removeprefix("mcp__")))
