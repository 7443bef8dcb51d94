"""Meaning as vectors: turns a text into one unit vector, English and Portuguese in the same space.

Owns: reading the shipped table of word vectors (`embedding.npz`), cutting text into its pieces, and the
Portuguese to English word list (`lexicon.txt`). Not here: the lexical index, the ranking, and the training,
which lives in `training/` at the root of the repository with the statement of the data it used.

A text's vector is the sum of its words' vectors. How much a word counts is the length of its vector, so
there are no weights beside the table. A word that is not in the table is the sum of its four-letter pieces,
which share a fixed number of rows at the end of the table.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[a-z]+|[0-9]+")
_PIECE = 4
_MOST_PIECES = 12
# Names nobody has seen before come from outside: what is remembered of them stays bounded.
_MOST_REMEMBERED = 50_000
# Rows looked up at once: bounds the memory of a long batch to some tens of MiB.
_BATCH = 16_384


def words(text: str) -> list[str]:
    """The words of a text or a name: no case, no accents, `camelCase` and `snake_case` taken apart."""
    if not text.isascii():
        text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return _WORD.findall(_CAMEL.sub(" ", text).lower())


def pieces(word: str) -> list[str]:
    """The four-letter pieces of a word and its ends; a number has none, because they would mean nothing."""
    if word.isdigit():
        return []
    marked = f"<{word}>"
    return [marked[i : i + _PIECE] for i in range(max(1, len(marked) - _PIECE + 1))][:_MOST_PIECES]


def bucket(piece: str, buckets: int) -> int:
    return zlib.crc32(piece.encode()) % buckets


class Semantic:
    """The shipped embedding. Cheap to keep (the table stays in eight bits), safe to share between threads."""

    def __init__(self, vocabulary: Sequence[str], rows: npt.NDArray[np.int8], scales: Vectors) -> None:
        self._rows = rows
        self._scales = scales.reshape(-1, 1)
        self._buckets = len(rows) - len(vocabulary)
        self._known: dict[str, tuple[int, ...]] = {word: (i,) for i, word in enumerate(vocabulary)}
        self._first_bucket = len(vocabulary)
        self._remembered: dict[str, tuple[int, ...]] = {}
        self.dim: int = int(rows.shape[1])

    @classmethod
    def load(cls) -> Semantic:
        with resources.files("toolyard.search").joinpath("embedding.npz").open("rb") as file:
            table: Any = np.load(file, allow_pickle=False)
            vocabulary = bytes(table["words"]).decode().split("\n")
            return cls(vocabulary, table["rows"], table["scales"].astype(np.float32))

    def encode(self, texts: Sequence[str]) -> Vectors:
        """One unit row per text; a row of zeros where nothing in the text is known."""
        sums = np.zeros((len(texts), self.dim), np.float32)
        ids: list[int] = []
        starts: list[int] = []
        at: list[int] = []
        for i, text in enumerate(texts):
            found = self._ids(text)
            if found:
                at.append(i)
                starts.append(len(ids))
                ids.extend(found)
            if len(ids) >= _BATCH:
                sums[at] = self._summed(ids, starts)
                ids, starts, at = [], [], []
        if ids:
            sums[at] = self._summed(ids, starts)
        lengths = np.sqrt(np.einsum("ij,ij->i", sums, sums))
        sums /= np.where(lengths > 0, lengths, 1).astype(np.float32)[:, None]
        return sums

    def translate(self, words: Sequence[str]) -> list[list[str]]:
        """English renderings of each Portuguese word, likeliest first; none for a word not in the list."""
        lexicon = self._lexicon
        return [lexicon.get(_plain(word), []) for word in words]

    def _summed(self, ids: Sequence[int], starts: Sequence[int]) -> Vectors:
        rows = self._rows[ids].astype(np.float32)
        rows *= self._scales[ids]
        return np.add.reduceat(rows, starts, axis=0)

    def _ids(self, text: str) -> list[int]:
        known = self._known
        found: list[int] = []
        for word in words(text):
            found.extend(known.get(word) or self._unknown(word))
        return found

    def _unknown(self, word: str) -> tuple[int, ...]:
        ids = self._remembered.get(word)
        if ids is None:
            if len(self._remembered) >= _MOST_REMEMBERED:
                self._remembered.clear()
            ids = tuple(self._first_bucket + bucket(piece, self._buckets) for piece in pieces(word))
            if not self._buckets:
                ids = ()
            self._remembered[word] = ids
        return ids

    @cached_property
    def _lexicon(self) -> dict[str, list[str]]:
        text = resources.files("toolyard.search").joinpath("lexicon.txt").read_text("utf-8")
        return dict(_entries(text.splitlines()))


def _entries(lines: Iterable[str]) -> Iterable[tuple[str, list[str]]]:
    for line in lines:
        word, _, renderings = line.partition("\t")
        if renderings:
            yield word, renderings.split(",")


def _plain(word: str) -> str:
    return unicodedata.normalize("NFKD", word).encode("ascii", "ignore").decode().lower()
