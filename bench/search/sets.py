"""The public tool-search sets, as they lie in a folder: tools, queries, and which tools serve which query.

Owns reading them. The data belong to others and are no part of this repository; where they are looked for,
and in which form, is in `docs/concepts/search.md`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.process import ROOT

DEFAULT = ROOT.parent / "shared" / "retrieval"
POOL = "mcp-pool"


class NoData(Exception):
    """The folder, or a set in it, is not there."""


@dataclass(frozen=True, slots=True)
class Task:
    """The queries of one set in one language."""

    name: str
    folder: Path
    tools: list[dict[str, Any]]
    queries: list[str]
    needed: list[list[set[int]]]
    """For each query the groups of tools; of each group any member serves."""


def tasks(folder: Path) -> list[Task]:
    if not folder.is_dir():
        raise NoData(f"there are no sets in {str(folder)!r}")
    found = [
        task for each in sorted(folder.iterdir()) if (each / "queries.jsonl").is_file() for task in _of(each)
    ]
    if not found:
        raise NoData(f"no folder in {str(folder)!r} has a tools.jsonl and a queries.jsonl")
    return found


def tools(folder: Path) -> list[dict[str, Any]]:
    """Every tool of every set, those of real servers first."""
    files = sorted(folder.glob("*/tools.jsonl"), key=lambda file: (file.parent.name != POOL, file))
    if not files:
        raise NoData(f"there are no sets in {str(folder)!r}")
    seen: dict[str, dict[str, Any]] = {}
    for file in files:
        for tool in _lines(file):
            seen.setdefault(f"{tool['server']} {tool['name']}", tool)
    return list(seen.values())


def _of(folder: Path) -> list[Task]:
    listed = _lines(folder / "tools.jsonl")
    places = {tool["id"]: at for at, tool in enumerate(listed)}
    queries = _lines(folder / "queries.jsonl")
    languages = dict.fromkeys(query["lang"][:2] for query in queries)
    found: list[Task] = []
    for language in sorted(languages):
        asked = [query for query in queries if query["lang"].startswith(language)]
        needed = [[{places[tool] for tool in group} for group in _groups(query)] for query in asked]
        name = folder.name if len(languages) == 1 else f"{folder.name}, {language}"
        found.append(Task(name, folder, listed, [query["query"] for query in asked], needed))
    return found


def _groups(query: dict[str, Any]) -> list[list[str]]:
    if "groups" in query:
        return query["groups"]
    return [query["relevant"]] if query["kind"] == "single" else [[tool] for tool in query["relevant"]]


def _lines(file: Path) -> list[dict[str, Any]]:
    with file.open(encoding="utf-8") as opened:
        return [json.loads(line) for line in opened]
