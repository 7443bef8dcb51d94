"""What a search over 100,000 stored messages costs: by words and by meaning, through the server's own tools.

The messages are made up of a vocabulary with the shares of a natural language (Zipf), so that there are words
in nearly every message and words in a few. CPU of the whole process: the threads of the database count.
"""

from __future__ import annotations

import asyncio
import random
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import Any

from bench.report import Row
from toolyard import Client
from toolyard.kit import Server
from toolyard.kit.loader import load
from toolyard.servers.sessions.embeddings import Encoder
from toolyard.servers.sessions.model import Conversation, ConversationMessage, ConversationOwner
from toolyard.servers.sessions.stores.store import open_store

SESSIONS, EACH = 2_500, 40
WORDS = 60
ROUNDS = 9
MOST_MS = 20.0
TARGET = f"<= {MOST_MS:g} ms"
TEXT = """
invoice paid bank customer reminder account transfer balance tax receipt
deploy server memory container restart error timeout database migration index
light kitchen timer recipe bread oven garden tomato rain weather forecast
flight hotel ticket train station museum holiday beach island passport
"""
SAID = re.findall(r"\w+", TEXT)
# Where nobody said the word itself, those that begin so are searched: here 500 words, in most messages.
BEGINNING = "text search, the beginning of 500 frequent words"
RARE, RARE_EVERY = "walrus", 500

Progress = Callable[[str], None]


def rows(progress: Progress) -> list[Row]:
    return asyncio.run(_rows(progress))


async def _rows(progress: Progress) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:{Path(folder) / 'sessions.db'}"
        filling = await _fill(url, progress)
        server = load("toolyard.servers.sessions", options={"url": url})
        try:
            searches, first = await _searches(server, progress)
        finally:
            await server.close()
    return [
        Row("sessions", "storing a message, its words and its vector", "ms CPU", filling),
        Row("sessions", "the first semantic search of a process", "ms CPU", first),
        *(
            Row("sessions", name, "ms CPU", value, target=TARGET, met=value <= MOST_MS)
            if name != BEGINNING
            else Row("sessions", name, "ms CPU", value)
            for name, value in searches
        ),
    ]


async def _fill(url: str, progress: Progress) -> float:
    chance = random.Random(7)
    vocabulary = [*SAID, *(f"{chance.choice(SAID)}{at}" for at in range(20_000))]
    shares = list(accumulate(1 / (rank + 10) for rank in range(len(vocabulary))))
    store = open_store(url, Encoder())
    spent = 0.0
    for number in range(SESSIONS):
        if number % 250 == 0:
            progress(f"sessions: {number * EACH:,} messages stored")
        told = _session(number, chance, vocabulary, shares)
        before = time.process_time()
        await store.append(ConversationOwner(), told)
        spent += time.process_time() - before
    await store.close()
    return spent * 1_000 / (SESSIONS * EACH)


def _session(number: int, chance: random.Random, vocabulary: list[str], shares: list[float]) -> Conversation:
    said = [" ".join(chance.choices(vocabulary, cum_weights=shares, k=WORDS)) for _ in range(EACH)]
    said[0] += f" {RARE}" if number % (RARE_EVERY // EACH) == 0 else ""
    roles: Sequence[Any] = ("user", "assistant")
    messages = [
        ConversationMessage(role=roles[at % 2], text=text, id=str(at)) for at, text in enumerate(said)
    ]
    when = f"2026-01-{1 + number % 28:02}T{number % 24:02}:00:00Z"
    return Conversation(session_id=f"s{number}", updated_at=when, created_at=when, messages=tuple(messages))


async def _searches(server: Server, progress: Progress) -> tuple[list[tuple[str, float]], float]:
    """The figures of each, and what the first search by meaning took."""
    first = 0.0
    asked = (
        ("text search, a word of most messages", "search_sessions", {"query": SAID[0]}, 10),
        ("text search, three words", "search_sessions", {"query": "kitchen timer oven"}, 10),
        ("text search, a rare word", "search_sessions", {"query": RARE}, 10),
        ("text search, a word that nobody said", "search_sessions", {"query": "zeppelin"}, 0),
        (BEGINNING, "search_sessions", {"query": SAID[0][:5]}, 10),
        ("semantic search", "semantic_search_sessions", {"query": "the customer has not paid"}, 10),
        ("recent sessions", "list_recent_sessions", {}, 10),
    )
    found: list[tuple[str, float]] = []
    async with Client(server, timeout=None) as client:
        for name, tool, arguments, count in asked:
            progress(f"sessions: {name}")
            figures: list[float] = []
            for _ in range(ROUNDS + 1):
                before = time.process_time()
                answer = await client.call_tool(tool, arguments)
                figures.append((time.process_time() - before) * 1_000)
                assert answer.structured["count"] == count, answer
            # The first one opens the database, or reads the vectors of this owner.
            found.append((name, median(figures[1:])))
            if tool.startswith("semantic"):
                first = figures[0]
    return found, first
