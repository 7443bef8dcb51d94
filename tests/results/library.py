"""A reader of stored results over a real store, and the processes that its queries run in."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.results.shelf import TENANT, local_store
from tests.thirdparty.mounting import children_of
from toolyard.config import ResultsConfig
from toolyard.results.query.reader import ReadResultError, ResultReader

JSON, TEXT = "application/json", "text/plain; charset=utf-8"


class Library:
    def __init__(self, folder: Path, **settings: Any) -> None:
        self.store = local_store(folder)
        self.reader = ResultReader(self.store, ResultsConfig(**settings))

    async def keep(self, body: Any, kind: str = JSON, tenant: str = TENANT) -> str:
        writing = await self.store.begin(tenant, "tool", kind)
        await writing.write(body if isinstance(body, bytes) else json.dumps(body).encode())
        return (await writing.finish()).artifact.id

    async def ask(self, id: str, tenant: str = TENANT, **arguments: Any) -> dict[str, Any]:
        found = await self.reader.read(tenant, {"id": id, **arguments})
        assert len(json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()) <= 4000
        return found

    async def pages(self, id: str, **arguments: Any) -> list[Any]:
        """All of it, page by page, as told."""
        found: list[Any] = []
        offset = 0
        while True:
            page = await self.ask(id, offset=offset, **arguments)
            part = next(page[kind] for kind in ("items", "lines", "rows", "members") if kind in page)
            assert page["offset"] == offset
            assert page["shown"] == len(part)
            assert page["left"] == page["total"] - offset - len(part)
            found += part.items() if isinstance(part, dict) else part
            if not page["left"]:
                assert "next_offset" not in page
                return found
            assert page["shown"] > 0
            offset = page["next_offset"]

    async def close(self) -> None:
        await self.reader.close()
        await self.store.close()


async def refused(asking: Any) -> str:
    with pytest.raises(ReadResultError) as raised:
        await asking
    return str(raised.value)


def workers() -> set[int]:
    return {pid for pid in children_of(os.getpid()) if b"query.worker" in _command(pid)}


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
