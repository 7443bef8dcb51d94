"""Everything that is trained on, as numbers on the device, and the drawing of batches from it."""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from toolyard.meaning.embedding import Vocabulary

from .corpus import Corpus, first_sentence, tool_text

LONGEST = 72
# How often a source of asks is drawn from, whatever its size.
SHARES = {
    "ShishirPatil/gorilla": 4.0,
    "clinc/oos-eval": 2.0,
    "xliuhw/NLU-Evaluation-Data": 3.0,
    "sonos/nlu-benchmark": 0.3,
    "PolyAI-LDN/task-specific-datasets": 0.5,
    "AlibabaResearch/DAMO-ConvAI": 0.5,
    "tangqiaoyu/ToolAlpaca": 0.5,
}


@dataclass
class Texts:
    """Padded word numbers, one row a text."""

    ids: torch.Tensor

    def __getitem__(self, at: torch.Tensor) -> torch.Tensor:
        return self.ids[at]

    def __len__(self) -> int:
        return len(self.ids)


class Reader:
    def __init__(self, vocabulary: Vocabulary, device: str) -> None:
        self._vocabulary, self._device = vocabulary, device
        self.padding = len(vocabulary)

    def texts(self, texts: list[str]) -> Texts:
        found = [self._vocabulary.ids(text)[:LONGEST] for text in texts]
        out = np.full((len(found), max(map(len, found))), self.padding, np.int64)
        for row, ids in zip(out, found, strict=True):
            row[: len(ids)] = ids
        return Texts(torch.from_numpy(out).to(self._device))


@dataclass
class Pairs:
    """Two texts that belong together; rows of one `group` are never each other's wrong answer."""

    left: Texts
    right: Texts
    group: torch.Tensor
    weight: torch.Tensor | None = None
    run: int = 1
    """How many neighbours are drawn together: tools of one server are each other's hard negatives."""

    def draw(self, count: int) -> torch.Tensor:
        if self.weight is not None:
            return torch.multinomial(self.weight, count, replacement=True)
        starts = torch.randint(len(self.left) - self.run + 1, (count // self.run,), device=self.group.device)
        return (starts[:, None] + torch.arange(self.run, device=self.group.device)).flatten()


def asks(corpus: Corpus, reader: Reader) -> Pairs:
    rows: list[tuple[str, str, str]] = []
    for ask in corpus.asks:
        text = tool_text(ask["tool"])
        for query in (ask["query"], corpus.portuguese.get(ask["query"])):
            if query:
                rows.append((query, text, ask["source"]))
    per_tool = Counter((text, source) for _, text, source in rows)
    tools_of = Counter(source for _, source in per_tool)
    weight = [SHARES[source] / tools_of[source] / per_tool[text, source] for _, text, source in rows]
    return _pairs(rows, reader, weight=weight)


def tools(corpus: Corpus, reader: Reader) -> Pairs:
    """A tool in two halves, in several ways; the tools of a server stand side by side."""
    ways: list[list[tuple[str, str, str]]] = [[] for _ in range(5)]
    for tool in sorted(corpus.tools, key=lambda t: (t["source"], t["server"])):
        for way, (left, right) in zip(ways, _halves(tool, corpus), strict=False):
            way.append((left, right, tool_text(tool)))
    # The tools of real MCP servers count for more: they are what the search will see.
    ours = {tool_text(tool) for tool in corpus.tools if tool["source"] == "mcp-pool"}
    rows = [row for way in ways for row in way]
    rows += [row for way in ways for row in way if row[2] in ours] * 2
    return _pairs([(a, b, key) for a, b, key in rows if a.strip() and b.strip()], reader, by=2, run=8)


def _halves(tool: dict[str, Any], corpus: Corpus) -> list[tuple[str, str]]:
    first = first_sentence(tool["description"])
    rest = tool["description"][len(first) :]
    names = " ".join(tool["parameters"])
    head = f"{tool['server']} {tool['name']} {names}"
    found = [(first, f"{head} {rest}"), (tool["name"], tool["description"])]
    if len(rest) > 30:
        found.append((rest, head))
    if first in corpus.portuguese:
        translated = corpus.portuguese[first]
        found += [(translated, tool_text(tool)), (translated, head)]
    return found


def bilingual(corpus: Corpus, reader: Reader) -> Pairs:
    rows = [(pt, en, en.lower()) for en, pt in corpus.bilingual()]
    # A word is one of very many and says less than a sentence.
    weight = [0.3 if len(en.split()) <= 2 else 1.0 for _, en, _ in rows]
    return _pairs(rows, reader, by=2, weight=weight)


def _pairs(
    rows: list[tuple[str, str, str]],
    reader: Reader,
    by: int = 1,
    weight: list[float] | None = None,
    run: int = 1,
) -> Pairs:
    numbers: dict[str, int] = {}
    group = [numbers.setdefault(row[by], len(numbers)) for row in rows]
    left, right = (reader.texts([row[side] for row in rows]) for side in (0, 1))
    device = left.ids.device
    weights = None if weight is None else torch.tensor(weight, device=device)
    return Pairs(left, right, torch.tensor(group, device=device), weights, run)
