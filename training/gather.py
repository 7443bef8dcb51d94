"""Reads the sources into three files under `build/training`: tools, asks and parallel sentences."""

import json
import random
from collections import Counter
from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

from . import asks, parallel, tools
from .phrasebooks import LANGUAGES
from .sources import BUILD, SKILLS

MOST_OF_A_SKILL = 1000
_SKILLS = {skill.repository for skill in SKILLS}


def gather(pool: Path) -> None:
    BUILD.mkdir(parents=True, exist_ok=True)
    _write("parallel", _fair(parallel.pairs()))
    for language in LANGUAGES:
        _write(f"parallel-{language}", _fair(parallel.pairs(language)))
    _write("asks", asks.asks())
    _write("requests", asks.requests())
    everything = chain(
        ({**t, "source": "mcp-pool"} for t in tools.pool(pool)),
        ({**t, "source": "lists"} for t in tools.listed()),
        ({**t, "source": "apizoo"} for t in tools.zoo()),
        ({**t, "source": "openapi"} for t in tools.operations()),
    )
    _write("tools", everything)


def _fair(pairs: Iterable[dict[str, str]]) -> list[dict[str, str]]:
    """No skill's many near-equal phrases outweigh the rest."""
    shuffled = list(pairs)
    random.Random(4).shuffle(shuffled)
    taken: Counter[str] = Counter()
    kept: list[dict[str, str]] = []
    for pair in shuffled:
        taken[pair["source"]] += 1
        if pair["source"] not in _SKILLS or taken[pair["source"]] <= MOST_OF_A_SKILL:
            kept.append(pair)
    return kept


def _write(name: str, rows: Iterable[dict[str, Any]]) -> None:
    lines = {json.dumps(row, ensure_ascii=False): row for row in rows}
    (BUILD / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    print(name, len(lines), dict(Counter(row["source"] for row in lines.values())))
