"""What a search costs a user who has 100,000 memories: by words, by meaning, and by both.

The whole call of the tool in process, CPU time of all threads. Texts are drawn from the embedding's
words, a few of them often and most seldom, as in any language, half of them about one topic; a question has
three to six words of the same kind.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import resources
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench.report import Row
from toolyard import Client
from toolyard.servers.memory import Settings, build
from toolyard.servers.memory.document import read_front_matter
from toolyard.servers.memory.search import Embedding, words_of
from toolyard.servers.memory.store import MemoryDraft, MemoryOwner, open_store

MEMORIES = 100_000
QUESTIONS = 60
MOST_MILLISECONDS = 20.0
WORDS = 40
TOPICS, TOPIC_WORDS = 500, 30
BATCH = 2_000
MODES = {"text": "full text", "meaning": "meaning", "both": "both, fused"}
OWNER = MemoryOwner("local", "")


def rows(progress: Callable[[str], None]) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="toolyard-bench-memory-") as folder:
        return asyncio.run(_rows(Settings(url=f"sqlite:{Path(folder) / 'memory.db'}"), progress))


async def _rows(settings: Settings, progress: Callable[[str], None]) -> list[Row]:
    language = Language()
    await _fill(settings, language, progress)
    questions = [language.text(3 + i % 4) for i in range(QUESTIONS)]
    server = build(settings)
    found: list[Row] = []
    try:
        async with Client(server, timeout=None) as client:
            progress("memory: reading the vectors of 100,000 memories")
            started = time.process_time()
            await client.call_tool("search_memories", {"query": "a first question"})
            group = "memory"
            first = (time.process_time() - started) * 1e3
            found.append(Row(group, "memory: the first search of a process", "ms CPU", first))
            for mode, name in MODES.items():
                progress(f"memory: searching by {name}")
                taken = [await _cost(client, question, mode) for question in questions]
                found.append(_row(group, f"memory: search by {name}", median(taken)))
                slowest = f"memory: search by {name}, the slowest of {QUESTIONS}"
                found.append(Row(group, slowest, "ms CPU", max(taken)))
    finally:
        await server.close()
    return found


def _row(group: str, name: str, value: float) -> Row:
    target = f"< {MOST_MILLISECONDS:g} ms"
    return Row(group, name, "ms CPU", value, target=target, met=value < MOST_MILLISECONDS)


async def _cost(client: Any, question: str, mode: str) -> float:
    started = time.process_time()
    result = await client.call_tool("search_memories", {"query": question, "mode": mode})
    taken = (time.process_time() - started) * 1e3
    assert result.structured["count"] > 0, question
    return taken


async def _fill(settings: Settings, language: Language, progress: Callable[[str], None]) -> None:
    store = open_store(settings)
    embedding = Embedding()
    try:
        for start in range(0, MEMORIES, BATCH):
            progress(f"memory: writing {start:,} of {MEMORIES:,} memories")
            for path, draft in _drafts(embedding, language, start):
                await store.put(OWNER, path, draft)
    finally:
        await store.close()


def _drafts(embedding: Embedding, language: Language, start: int) -> Iterator[tuple[str, MemoryDraft]]:
    texts = [language.text(WORDS) for _ in range(BATCH)]
    vectors = embedding.encode(texts)
    for number, (text, vector) in enumerate(zip(texts, vectors, strict=True), start):
        path = f"/memories/folder-{number % 100}/note-{number}.md"
        digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
        words = words_of(f"{path} {text}")
        yield (
            path,
            MemoryDraft(text, digest, embedding.encode_stored(vector), words, read_front_matter(path, text)),
        )


class Language:
    """Words that are as unevenly frequent as those of a language; the same in every run."""

    def __init__(self) -> None:
        self._random = random.Random(6)
        with resources.files("toolyard.meaning").joinpath("embedding.npz").open("rb") as file:
            table: Any = np.load(file, allow_pickle=False)
            words = bytes(table["words"]).decode().split("\n")
        self._words = [word for word in words if word.isalpha()]
        self._weights = list(accumulate(1 / (rank + 3) for rank in range(len(self._words))))
        self._topics = [self._random.sample(self._words, TOPIC_WORDS) for _ in range(TOPICS)]

    def text(self, count: int) -> str:
        usual = self._random.choices(self._words, cum_weights=self._weights, k=count // 2)
        told = self._random.choices(self._random.choice(self._topics), k=count - len(usual))
        return " ".join([*told, *usual])
