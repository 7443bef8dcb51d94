"""The youtube server over HTTP on loopback, the `mcp` client in front of it, and the processes behind it."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp import Client

from tests.serving import serving
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


class Talk:
    def __init__(self, client: Client, workspace: Path) -> None:
        self.client = client
        self.workspace = workspace
        self.progress: list[tuple[float, float | None, str | None]] = []

    async def try_to(self, tool: str, **arguments: Any) -> Said:
        return Said(await self.client.call_tool(tool, arguments, progress_callback=self._hear))

    async def __call__(self, tool: str, **arguments: Any) -> Said:
        said = await self.try_to(tool, **arguments)
        assert not said.failed, said.text
        return said

    async def refusal(self, tool: str, **arguments: Any) -> str:
        said = await self.try_to(tool, **arguments)
        assert said.failed, said.text
        assert said.structured is None
        return said.text

    def files(self) -> list[str]:
        found = [path for path in self.workspace.rglob("*") if path.is_file()]
        return sorted(str(path.relative_to(self.workspace)) for path in found)

    async def _hear(self, progress: float, total: float | None, message: str | None) -> None:
        self.progress.append((progress, total, message))


def made(workspace: Path, **settings: Any) -> Server:
    return load("toolyard.servers.youtube", options={"workspace": str(workspace), **settings})


@asynccontextmanager
async def talking(workspace: Path, era: str = "2026-07-28", **settings: Any) -> AsyncIterator[Talk]:
    server = made(workspace, **settings)
    async with (
        serving(server.asgi()) as edge,
        Client(edge.url, mode="legacy" if era == "legacy" else "auto") as client,
    ):
        await client.list_tools()
        yield Talk(client, workspace)


def processes() -> set[int]:
    """The processes that this one started for yt-dlp, and those that they started."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                rest = (entry / "stat").read_text().rpartition(") ")[2].split()
            except OSError:  # it ended while we looked
                continue
            if rest[0] != "Z":
                parents[int(entry.name)] = int(rest[1])
    found = {pid for pid in parents if _is_download(pid) and parents[pid] == os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def _is_download(pid: int) -> bool:
    try:
        return b"youtube/process.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
