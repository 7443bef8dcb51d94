"""Meaning as vectors: turns a text into one unit vector, English and Portuguese in the same space.

Owns: reading the shipped table of word vectors (`embedding.npz`), and the Portuguese to English word list
(`lexicon.txt`). Not here: cutting text into words (`vocabulary.py`), the lexical index, the ranking, and the
training, which lives in `training/` at the root of the repository with the statement of the data it used.

A text's vector is the sum of its words' vectors. How much a word counts is the length of its vector, so
there are no weights beside the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from importlib import resources
from typing import Any

import numpy as np
import numpy.typing as npt

from .vocabulary import Vocabulary, plain

Vectors = npt.NDArray[np.float32]

# Rows looked up at once: what keeps the working set of a long batch inside the processor's cache.
_BATCH = 4_096


class Semantic:
    """The shipped embedding. Cheap to keep: the table stays in eight bits."""

    def __init__(self, vocabulary: Vocabulary, rows: npt.NDArray[np.int8], scales: Vectors) -> None:
        self._vocabulary = vocabulary
        self._rows = rows
        self._scales = scales.reshape(-1, 1)
        self.dim: int = int(rows.shape[1])

    @classmethod
    def load(cls) -> Semantic:
        with resources.files("toolyard.meaning").joinpath("embedding.npz").open("rb") as file:
            table: Any = np.load(file, allow_pickle=False)
            vocabulary = Vocabulary(bytes(table["words"]).decode().split("\n"))
            return cls(vocabulary, table["rows"], table["scales"].astype(np.float32))

    def encode(self, texts: Sequence[str]) -> Vectors:
        """One unit row per text; a row of zeros where nothing in the text is known."""
        sums = np.zeros((len(texts), self.dim), np.float32)
        ids: list[int] = []
        starts: list[int] = []
        at: list[int] = []
        for i, text in enumerate(texts):
            found = self._vocabulary.ids(text)
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
        return [lexicon.get(plain(word).lower(), []) for word in words]

    def _summed(self, ids: list[int], starts: list[int]) -> Vectors:
        taken = np.array(ids, np.intp)
        rows: Vectors = self._rows[taken] * self._scales[taken]
        ends = [*starts[1:], len(ids)]
        # One sum a text: twice as fast as one `np.add.reduceat` over all.
        return np.stack([rows[start:end].sum(axis=0) for start, end in zip(starts, ends, strict=True)])

    @cached_property
    def _lexicon(self) -> dict[str, list[str]]:
        text = resources.files("toolyard.meaning").joinpath("lexicon.txt").read_text("utf-8")
        return dict(_entries(text.splitlines()))


def _entries(lines: Iterable[str]) -> Iterable[tuple[str, list[str]]]:
    for line in lines:
        word, _, renderings = line.partition("\t")
        if renderings:
            yield word, renderings.split(",")
