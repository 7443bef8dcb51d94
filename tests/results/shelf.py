"""A shaper over a real store, and what it made of a result."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import bpe_openai
from msgspec import Raw

from toolyard.artifacts.local import LocalArtifactStore
from toolyard.artifacts.store import ArtifactStore, ResultLinks
from toolyard.results.limits import Limits, ResultOptions
from toolyard.results.shaper import SECONDS, ResultPolicy, ResultShaper, ShapeRequest
from toolyard.search.feedback import ResultSizes
from toolyard.wire.call import Caller, ClientInfo, Identity, Principal
from toolyard.wire.seal import Sealer

TENANT = "acme"
MODERN, LEGACY = "2026-07-28", "2025-11-25"
NAME = "mcp__up__list_things"
HINT = "read_result(id='{id}') shows more of it"
GENEROUS = 2**40
ANY_SIZE = Limits(shape_always=True)
"""So that results which are short enough to be read here are shaped too, though that saves nothing."""


class Fitted:
    """A result after the shaper: `answer` is what stands in its place, None when it passed."""

    def __init__(self, shelf: "Shelf", before: Any, after: Any) -> None:
        self._shelf = shelf
        self.passed = after is before
        self.result: dict[str, Any] = {} if self.passed else json.loads(bytes(after))
        self.answer: Any = None if self.passed else self._answer()

    def _answer(self) -> Any:
        """Where only the text was replaced, it is there alone."""
        structured = self.result["structuredContent"]
        is_it = isinstance(structured, dict) and structured.get("tool_name") == NAME
        return structured if is_it else json.loads(self.text)

    @property
    def text(self) -> str:
        """What a client without structured content shows."""
        return self.result["content"][0]["text"]

    @property
    def summary(self) -> dict[str, Any]:
        return self.answer["summary"]

    @property
    def preview(self) -> Any:
        return self.answer["preview"]

    @property
    def id(self) -> str:
        return self.answer["storage"]["resource"].removeprefix("toolyard://results/")

    async def whole(self) -> bytes:
        """What was stored."""
        reading = await self._shelf.store.open(TENANT, self.id)
        assert reading is not None
        try:
            return await reading.read(0, reading.artifact.size)
        finally:
            await reading.close()


class Shelf:
    def __init__(self, store: ArtifactStore, folder: Path, seconds: float = SECONDS) -> None:
        self.store = store
        self.folder = folder
        self.noted: list[tuple[str, int, int]] = []
        self.shaper = ResultShaper(store, self, ResultSizes(), seconds)

    def add(self, tenant: str, agent: str, server: str, tool: str, received: int, sent: int) -> None:
        self.noted.append((tool, received, sent))

    async def fit(
        self,
        result: Any,
        limits: Limits | None = ANY_SIZE,
        version: str = MODERN,
        client: str = "unknown",
        **options: Any,
    ) -> Fitted:
        """`result`: JSON as a value or as bytes, or an object as an upstream hands it over."""
        if isinstance(result, dict):
            result = json.dumps(result, ensure_ascii=False).encode()
        if isinstance(result, bytes):
            result = Raw(result)
        caller = Caller(version, {}, ClientInfo(client), Identity(Principal(TENANT)))
        tool = ResultPolicy(NAME, "up", limits)
        # As the pipeline does it: the short way first.
        if not options and isinstance(result, Raw) and self.shaper.passes(caller, tool, bytes(result)):
            return Fitted(self, result, result)
        wanted = ShapeRequest(caller, tool, HINT, ResultOptions(**options))
        return Fitted(self, result, await self.shaper.fit(result, wanted))

    @property
    def files(self) -> list[str]:
        """All that lies in the store."""
        return [path.name for path in self.folder.rglob("*") if path.is_file()]


def seen(result: dict[str, Any], form: str) -> str:
    """What a model reads of a result, by clients that show it the text or the structured content."""
    content: list[dict[str, Any]] = result.get("content") or []
    texts = [block["text"] for block in content if block["type"] == "text"]
    texts += [str(block["resource"].get("text", "")) for block in content if block["type"] == "resource"]
    links = [f"{block['name']} {block['uri']}" for block in content if block["type"] == "resource_link"]
    structured = result.get("structuredContent")
    if structured is not None and (form == "structured" or not texts):
        texts = [json.dumps(structured, ensure_ascii=False, separators=(",", ":"))]
    return "\n".join(texts + links)


def tokens(text: str) -> int:
    """By a real tokeniser; of what is very long, the beginning."""
    return len(bpe_openai.get_encoding("o200k_base").encode(text[:40_000]))


def local_store(folder: Path, **options: Any) -> LocalArtifactStore:
    links = ResultLinks(
        Sealer(b"for the results of the tests, thirty-two", "tests"), "https://yard.example.com"
    )
    settings = {"ttl": 3600.0, "quota": GENEROUS} | options
    return LocalArtifactStore(folder, links=links, **settings)


@asynccontextmanager
async def shelf_in(folder: Path, seconds: float = SECONDS, **options: Any) -> AsyncIterator[Shelf]:
    store = local_store(folder, **options)
    await store.start()
    try:
        yield Shelf(store, folder, seconds)
    finally:
        await store.close()


def text(*words: str, **more: Any) -> dict[str, Any]:
    """A result of so many texts."""
    return {"content": [{"type": "text", "text": one} for one in words], **more}


def structured(value: Any, *words: str) -> dict[str, Any]:
    return {**text(*words), "structuredContent": value}


def records(count: int) -> list[dict[str, Any]]:
    return [{"id": at, "state": ("open", "closed")[at % 2], "title": f"Thing {at}"} for at in range(count)]
