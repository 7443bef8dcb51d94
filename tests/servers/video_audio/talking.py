"""A server with a folder of small media, calls to it, and what ffprobe finds in the results."""

import json
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from scripts.bootstrap import find_program
from toolyard import Client
from toolyard.client.types import CallResult
from toolyard.kit import Image
from toolyard.servers.video_audio import Settings, build

FFMPEG = find_program("ffmpeg") or "ffmpeg"
FFPROBE = find_program("ffprobe") or "ffprobe"


class Studio:
    """A server and its files, for one test."""

    def __init__(self, client: Client, folder: Path) -> None:
        self.client = client
        self.folder = folder

    async def call(self, tool: str, /, **arguments: Any) -> CallResult:
        return await self.client.call_tool(tool, arguments)

    async def done(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """The structured content of a call that must succeed."""
        result = await self.call(tool, **arguments)
        assert not result.is_error, result.text
        assert result.structured is not None
        return result.structured

    async def refused(self, tool: str, /, **arguments: Any) -> str:
        result = await self.call(tool, **arguments)
        assert result.is_error, result.text
        return result.text

    def streams(self, name: str) -> dict[str, dict[str, Any]]:
        """The first stream of each kind, as ffprobe finds it."""
        return {one["codec_type"]: one for one in reversed(ffprobe(self.folder / name)["streams"])}

    def duration(self, name: str) -> float:
        return float(ffprobe(self.folder / name)["format"]["duration"])

    def pixel(self, name: str, seconds: float, x: int, y: int) -> tuple[int, int, int]:
        return self.frame(name, seconds)(x, y)

    def frame(self, name: str, seconds: float) -> Callable[[int, int], tuple[int, int, int]]:
        path = self.folder / name
        width = int(self.streams(name)["video"]["width"])
        place = ["-ss", f"{seconds}"] if seconds else []
        command = [FFMPEG, "-v", "error", *place, "-i", str(path), "-frames:v", "1"]
        raw = [*command, "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
        data = subprocess.run(raw, capture_output=True, check=True).stdout

        def pixel(x: int, y: int) -> tuple[int, int, int]:
            at = (y * width + x) * 3
            return data[at], data[at + 1], data[at + 2]

        return pixel

    def loudness(self, name: str, start: float, length: float) -> float:
        """The mean volume of a part, in dB."""
        part = [FFMPEG, "-ss", f"{start}", "-t", f"{length}", "-i", str(self.folder / name)]
        done = subprocess.run(
            [*part, "-af", "volumedetect", "-vn", "-f", "null", "-"],
            capture_output=True,
            text=True,
            check=True,
        )
        return float(done.stderr.split("mean_volume: ")[1].split(" dB")[0])


def run(folder: Path, *arguments: str) -> None:
    subprocess.run([FFMPEG, "-v", "error", "-y", *arguments], cwd=folder, check=True)


def ffprobe(path: Path) -> dict[str, Any]:
    command = [FFPROBE, "-v", "error", "-show_streams", "-show_format", "-of", "json", str(path)]
    return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)


def picture_of(result: CallResult) -> bytes:
    return next(block.data for block in result.content if isinstance(block, Image))


@asynccontextmanager
async def studio(folder: Path, **settings: Any) -> AsyncIterator[Studio]:
    """`folder` is the workspace; unfinished files lie beside it."""
    scratch = folder.parent / "scratch"
    server = build(Settings(workspace=str(folder), scratch=str(scratch), **settings))
    async with Client(server, timeout=None) as client:
        yield Studio(client, folder)
    await server.close()
    assert not list(scratch.glob("*")), "a scratch folder was left"
