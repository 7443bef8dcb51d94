"""The gathered files as texts: what trains what."""

import json
import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from toolyard.meaning.embedding import words

from .sources import BUILD
from .translate import kept


def tool_text(tool: dict[str, Any]) -> str:
    return f"{tool['server']} {tool['name']} {tool['description']} {' '.join(tool['parameters'])}"


def first_sentence(text: str) -> str:
    return re.split(r"(?<=[.!?])\s", text, maxsplit=1)[0][:200]


def _rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (BUILD / f"{name}.jsonl").open()]


@dataclass
class Corpus:
    asks: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    parallel: list[dict[str, str]]
    requests: list[dict[str, str]]
    portuguese: dict[str, str]
    """English sentence or word -> its machine translation."""

    @classmethod
    def read(cls) -> "Corpus":
        return cls(_rows("asks"), _rows("tools"), _rows("parallel"), _rows("requests"), kept("en-pt"))

    @cached_property
    def english_counts(self) -> Counter[str]:
        counts: Counter[str] = Counter()
        for tool in self.tools:
            counts.update(words(tool_text(tool)))
        for ask in self.asks:
            counts.update(words(ask["query"]))
        for request in self.requests:
            counts.update(words(request["query"]))
        for pair in self.parallel:
            counts.update(words(pair["en"]))
        return counts

    @cached_property
    def portuguese_counts(self) -> Counter[str]:
        counts: Counter[str] = Counter()
        for pair in self.parallel:
            counts.update(words(pair["pt"]))
        for text in self.portuguese.values():
            counts.update(words(text))
        return counts

    def bilingual(self) -> list[tuple[str, str]]:
        """(English, Portuguese) of every kind, people's and the machine's."""
        made = [(en, pt) for en, pt in self.portuguese.items() if en.lower() != pt.lower()]
        return [(pair["en"], pair["pt"]) for pair in self.parallel] + made
