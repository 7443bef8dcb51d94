"""Runs in an environment of its own, as a script: ranks with other people's libraries, prints nothing.

`python peer.py JOB`: the job is a JSON file with the texts of tools and queries; the rankings are written
beside it. It imports nothing of ours, because nothing of ours is installed there. Vectors are kept in the
job's `kept` folder: the same texts get the same ones, and a big model takes half an hour for them.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

DEPTH = 100
RECIPROCAL = 60


def bm25(texts: Sequence[str], queries: Sequence[str], stemmed: bool) -> list[list[int]]:
    import bm25s
    import Stemmer

    stemmer = Stemmer.Stemmer("english") if stemmed else None
    stop = "en" if stemmed else []
    index = bm25s.BM25()
    index.index(
        bm25s.tokenize(texts, stopwords=stop, stemmer=stemmer, show_progress=False), show_progress=False
    )
    asked = bm25s.tokenize(queries, stopwords=stop, stemmer=stemmer, show_progress=False)
    found, scores = index.retrieve(asked, k=min(DEPTH, len(texts)), show_progress=False)
    return [
        [int(tool) for tool, score in zip(*row, strict=True) if score > 0]
        for row in zip(found, scores, strict=True)
    ]


def nearest(tools: np.ndarray, queries: np.ndarray) -> list[list[int]]:
    return [np.argsort(-(tools @ query), kind="stable")[:DEPTH].tolist() for query in queries]


def fused(one: Sequence[Sequence[int]], other: Sequence[Sequence[int]]) -> list[list[int]]:
    """By reciprocal rank, both alike."""
    rows: list[list[int]] = []
    for pair in zip(one, other, strict=True):
        scores: dict[int, float] = {}
        for ranking in pair:
            for place, tool in enumerate(ranking):
                scores[tool] = scores.get(tool, 0.0) + 1 / (RECIPROCAL + place + 1)
        rows.append(sorted(scores, key=lambda tool: -scores[tool])[:DEPTH])
    return rows


def wordllama(texts: Sequence[str]) -> np.ndarray:
    import wordllama as package
    from safetensors import safe_open
    from tokenizers import Tokenizer
    from wordllama.inference import WordLlamaInference

    # Its own `load` looks for the tokenizer in another folder than the one it ships, and then downloads it.
    home = Path(package.__file__).parent
    with safe_open(next((home / "weights").glob("*256*")), framework="np") as file:
        table = file.get_tensor("embedding.weight")
    tokenizer = Tokenizer.from_file(str(next((home / "tokenizers").glob("*.json"))))
    return WordLlamaInference(table, tokenizer).embed(list(texts), norm=True)


def minilm(texts: Sequence[str]) -> np.ndarray:
    from minilm import MiniLm

    return MiniLm().embed(texts)


MODELS = {"wordllama": wordllama, "minilm": minilm}


def embedded(texts: Sequence[str], model: str, folder: Path) -> np.ndarray:
    mark = hashlib.blake2b("\0".join([model, *texts]).encode(), digest_size=12).hexdigest()
    path = folder / f"{mark}.npy"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        np.save(path, MODELS[model](texts))
    return np.load(path)


def run(job: dict[str, Any]) -> dict[str, list[list[int]]]:
    queries, described, kept = job["queries"], job["server, name, description"], Path(job["kept"])
    found = {
        "bm25-nd": bm25(job["name, description"], queries, stemmed=False),
        "bm25-sndp": bm25(job["everything"], queries, stemmed=True),
    }
    for model in job["methods"]:
        vectors = (embedded(texts, model, kept) for texts in (described, queries))
        found[model] = nearest(*vectors)
        found[f"bm25-sndp + {model}"] = fused(found["bm25-sndp"], found[model])
    return found


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.with_suffix(".out.json").write_text(json.dumps(run(json.loads(path.read_text("utf-8")))), "utf-8")
