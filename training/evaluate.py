"""Measures the embedding alone on the public tool-search sets: R@1, R@5, nDCG@10.

A quick look for whoever trains. What counts is the measure of the whole search: `make bench-search`.
"""

import json
import math
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from toolyard.meaning.embedding import TextEmbedding

SETS = ("livemcpbench", "rapidapi-stable", "metatool", "seal-tools", "ha-intents")
DEPTH = 100


@dataclass
class Task:
    name: str
    texts: list[str]
    queries: list[str]
    groups: list[list[set[int]]]


def evaluate(semantic: TextEmbedding, folder: Path) -> None:
    for name in SETS:
        for task in load(folder, name):
            scores = semantic.encode(task.queries) @ semantic.encode(task.texts).T
            print(f"{task.name:18}", *score(np.argsort(-scores, axis=1, kind="stable")[:, :DEPTH], task))


def tool_text(tool: dict[str, Any]) -> str:
    names = " ".join((tool.get("parameters") or {}).get("properties") or {})
    return f"{tool['server']} {tool['name']} {tool['description']} {names}"


def load(folder: Path, name: str) -> list[Task]:
    """One task a language, since a set may hold the same queries in two."""
    tools = [json.loads(line) for line in (folder / name / "tools.jsonl").open()]
    place = {tool["id"]: i for i, tool in enumerate(tools)}
    split: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in (folder / name / "queries.jsonl").open():
        query = json.loads(line)
        split[query["lang"]].append(query)
    texts = [tool_text(tool) for tool in tools]
    return [
        Task(
            f"{name} {language}",
            texts,
            [query["query"] for query in queries],
            [[{place[tool] for tool in group if tool in place} for group in _groups(q)] for q in queries],
        )
        for language, queries in split.items()
    ]


def _groups(query: dict[str, Any]) -> list[list[str]]:
    if query.get("groups"):
        return query["groups"]
    if query["kind"] == "single":
        return [query["relevant"]]
    return [[tool] for tool in query["relevant"]]


def score(ranked: Any, task: Task) -> tuple[float, ...]:
    each = [_measures(row, groups) for row, groups in zip(ranked, task.groups, strict=True)]
    return tuple(round(100 * float(x), 1) for x in np.mean(each, axis=0))


def _measures(ranked: np.ndarray, groups: list[set[int]]) -> tuple[float, float, float]:
    ranks = {int(tool): rank for rank, tool in enumerate(ranked)}
    at = [min((ranks.get(tool, DEPTH) for tool in group), default=DEPTH) for group in groups]
    gain = sum(1 / math.log2(rank + 2) for rank in at if rank < 10)
    best = sum(1 / math.log2(i + 2) for i in range(min(10, len(groups))))
    return sum(r < 1 for r in at) / len(at), sum(r < 5 for r in at) / len(at), gain / best
