"""From trained tables to the shipped one: averaged, widened, and in eight bits.

- The average of several tables, half of it the one before training: training on a few hundred thousand pairs
  makes a word precise and forgets some of what the word meant elsewhere; the average keeps both.
- English words too rare to be trained, and general ones that the training never met, get the vector that
  wordllama's vector for them would have become, by a linear map fitted on the trained words.
- Portuguese verb forms never met are dropped: the search respells them to a form that was.
"""

import json
import re
from pathlib import Path

import numpy as np

from toolyard.meaning.embedding import Vocabulary

from .corpus import Corpus
from .initial import wordllama
from .sources import BUILD
from .teacher import package

START, TRAINED = "start", ("c3", "c5")
SHARE_OF_START = 0.45
FITTED, UNTRAINED = 8, 3
RIDGE = 0.01
MOST_WORDS = 39_000


def finish(corpus: Corpus, tables: Path, out: Path) -> None:
    words, table = _averaged(tables)
    english = len(json.loads((BUILD / "words.json").read_text())[0])
    counts = np.array([corpus.english_counts[word] for word in words[:english]], np.float32)
    before = wordllama(words[:english]) * _rarity(counts)[:, None]
    trained = counts >= FITTED
    become = _ridge(before[trained], table[:english][trained])
    rare = np.flatnonzero(counts < UNTRAINED)
    table[rare] = before[rare] @ become
    keep = _met(words, english, corpus)
    words, table = [words[i] for i in keep], table[keep]
    more = _general(set(words))[: MOST_WORDS - len(words)]
    table = np.concatenate([table, wordllama(more) @ become])
    save(words + more, table, out)
    print(len(words), "words and", len(more), "more:", out.stat().st_size, "bytes")


def _averaged(tables: Path) -> tuple[list[str], np.ndarray]:
    shares = {START: SHARE_OF_START, **dict.fromkeys(TRAINED, (1 - SHARE_OF_START) / len(TRAINED))}
    total, words = np.zeros(1, np.float32), ""
    for name, share in shares.items():
        stored = np.load(tables / f"{name}.npz")
        total = total + share * stored["rows"] * stored["scales"].astype(np.float32)[:, None]
        words = bytes(stored["words"]).decode()
    return words.split("\n"), total


def _rarity(counts: np.ndarray) -> np.ndarray:
    return 3e-4 / (3e-4 + (counts + 1) / counts.sum())


def _ridge(given: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    penalty = RIDGE * len(given) * np.mean(given**2) * np.eye(given.shape[1])
    return np.linalg.solve(given.T @ given + penalty, given.T @ wanted)


def _met(words: list[str], english: int, corpus: Corpus) -> list[int]:
    counts = corpus.portuguese_counts
    certain = [i for i, word in enumerate(words) if i < english or counts[word]]
    known = Vocabulary([words[i] for i in certain])
    unmet = [i for i in range(english, len(words)) if not counts[words[i]] and not known.ids(words[i])]
    return certain + unmet


def _general(known: set[str]) -> list[str]:
    listed = (package() / "vocab.txt").read_text().split()
    return [word for word in listed if re.fullmatch("[a-z]{3,}", word) and word not in known]


def save(words: list[str], table: np.ndarray, path: Path) -> None:
    """Stored as it is: unpacking compressed rows would take most of the time that loading may take."""
    scales = np.abs(table).max(1) / 127 + 1e-9
    np.savez(
        path,
        words=np.frombuffer("\n".join(words).encode(), np.uint8),
        rows=np.rint(table / scales[:, None]).astype(np.int8),
        scales=scales.astype(np.float32),
    )
