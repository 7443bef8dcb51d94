"""The browser server over HTTP on loopback, the `mcp` client in front of it, and what runs beside them."""

import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp import Client

from tests.serving import serving
from tests.waiting import until
from toolyard.kit import Server
from toolyard.kit.loader import load

ERAS = ["legacy", "2026-07-28"]


class Said:
    """A reply to a call; the client has held its structured content against the listed schema."""

    def __init__(self, result: types.CallToolResult) -> None:
        self.failed = bool(result.is_error)
        self.text = "".join(block.text for block in result.content if isinstance(block, types.TextContent))
        self.images = [block for block in result.content if isinstance(block, types.ImageContent)]
        self.structured: Any = result.structured_content

    def ref(self, line: str) -> str:
        """The reference in the line of the snapshot that has this."""
        for shown in self.structured["snapshot"].splitlines():
            found = re.search(r"\[ref=(\w+)\]", shown)
            if line in shown and found:
                return found[1]
        raise AssertionError(f"no reference beside {line!r} in:\n{self.text}")

    @property
    def notices(self) -> list[str]:
        return [notice["text"] for notice in self.structured["notices"]]

    @property
    def kinds(self) -> list[str]:
        return [notice["kind"] for notice in self.structured["notices"]]


class Talk:
    def __init__(self, client: Client) -> None:
        self.client = client
        self.progress: list[str | None] = []

    async def try_to(self, tool: str, **arguments: Any) -> Said:
        return Said(
            await self.client.call_tool(f"browser_{tool}", arguments, progress_callback=self._on_progress)
        )

    async def __call__(self, tool: str, **arguments: Any) -> Said:
        said = await self.try_to(tool, **arguments)
        assert not said.failed, said.text
        return said

    async def refusal(self, tool: str, **arguments: Any) -> str:
        said = await self.try_to(tool, **arguments)
        assert said.failed, said.text
        assert said.structured is None
        return said.text

    async def _on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.progress.append(message)


def made(folder: Path, **settings: Any) -> Server:
    return load("toolyard.servers.browser", options={"folder": str(folder), "settle": 1.0, **settings})


@asynccontextmanager
async def talking(url: str, era: str = "2026-07-28") -> AsyncIterator[Talk]:
    async with Client(url, mode="auto" if era != "legacy" else "legacy") as client:
        yield Talk(client)


@asynccontextmanager
async def at(server: Server) -> AsyncIterator[Talk]:
    """A talk with a server of its own, which is closed with it."""
    async with serving(server.asgi()) as edge, talking(edge.url) as talk:
        yield talk


def browsers() -> set[int]:
    """The processes of Chromium that this process started, by way of Playwright's."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:  # it ended while we looked
                continue
            name, _, rest = stat.partition(") ")
            if rest[0] != "Z":
                parents[int(entry.name)] = int(rest.split()[1])
                names[int(entry.name)] = name.partition("(")[2]
    return {pid for pid, name in names.items() if "chrom" in name and _is_ours(pid, parents)}


async def until_gone(processes: set[int]) -> None:
    async def gone() -> bool:
        return not browsers() & processes

    await until(gone)


def _is_ours(pid: int, parents: dict[int, int]) -> bool:
    while pid in parents:
        pid = parents[pid]
        if pid == os.getpid():
            return True
    return False
