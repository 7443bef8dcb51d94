"""The error of `results.measure.estimate_tokens`, which counts without a tokeniser, by kind of text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import mean

from bench.process import ROOT
from bench.search import sets
from toolyard.results.measure import estimate_tokens

MOST = 400


def lines(data: Path, count: Callable[[str], int]) -> Iterator[tuple[str, ...]]:
    yield "kind", "texts", "tokens", "estimated", "off by, mean"
    for kind, texts in _texts(data).items():
        pairs = [(count(text), estimate_tokens(text)) for text in texts if text]
        off = mean(abs(guess - true) / true for true, guess in pairs if true)
        true, guess = (sum(column) for column in zip(*pairs, strict=True))
        yield kind, f"{len(pairs):,}", f"{true:,}", f"{guess:,}", f"{100 * off:.0f}%"


def _texts(data: Path) -> dict[str, list[str]]:
    tools = sets.tools(data)[:MOST]
    rows = [f'{tool["server"]},{tool["name"]},"{tool["description"]}"' for tool in tools]
    return {
        "JSON schemas": [json.dumps(tool["parameters"], separators=(",", ":")) for tool in tools],
        "JSON, indented": [json.dumps(tool, indent=2) for tool in tools],
        "CSV": ["\n".join(rows[at : at + 20]) for at in range(0, len(rows), 20)],
        "prose": [path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").rglob("*.md"))],
        "code": [path.read_text(encoding="utf-8") for path in sorted((ROOT / "src").rglob("*.py"))][:MOST],
    }
