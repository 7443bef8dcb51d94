"""What a tool of video_audio takes on top of ffmpeg, in CPU of this process and of those that it started.

A call is three processes: a glance at the input, the work, and a look at the result. Beside it, in turns, the
same three commands are run by hand; the difference is ours: box, files, answer. A file that is
known saves the first.
"""

from __future__ import annotations

import asyncio
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from bench.report import Row
from toolyard import Client
from toolyard.ffmpeg import find_ffmpeg
from toolyard.ffmpeg.program import FfmpegProgram
from toolyard.servers.video_audio import Settings, build

ROUNDS = 12
MOST_MILLISECONDS = 100.0
WORK = [
    "-filter:v",
    "scale=80:60,setsar=1,crop=trunc(iw/2)*2:trunc(ih/2)*2:0:0",
    "-c:v",
    "libx264",
    "-preset",
    "fast",
]
REST = ["-crf", "20", "-pix_fmt", "yuv420p", "-c:a", "copy", "-movflags", "+faststart"]
SHEET = "fps=4.5,scale=160:120,setsar=1,tile=3x3:padding=4:margin=4,scale=out_range=pc,format=yuv420p"


def rows(progress: Callable[[str], None]) -> list[Row]:
    found: list[Row] = []
    for program in _programs():
        progress(f"video_audio: {program.ffmpeg}")
        with tempfile.TemporaryDirectory(prefix="toolyard-bench-video-") as folder:
            found += asyncio.run(_rows(program, Path(folder)))
    return found


def _programs() -> list[FfmpegProgram]:
    import imageio_ffmpeg

    return [find_ffmpeg(), find_ffmpeg(imageio_ffmpeg.get_ffmpeg_exe())]


async def _rows(program: FfmpegProgram, folder: Path) -> list[Row]:
    work = folder / "work"
    work.mkdir()
    clip = work / "clip.mp4"
    source = ["-f", "lavfi", "-i", "testsrc=s=160x120:r=25:d=2", "-f", "lavfi", "-i", "sine=d=2"]
    _run(program, folder, *source, "-c:v", "libx264", "-pix_fmt", "yuv420p", "-c:a", "aac", str(clip))
    server = build(Settings(workspace=str(work), scratch=str(folder / "scratch"), ffmpeg=program.ffmpeg))
    bare, alone, known, new = list[float](), list[float](), list[float](), list[float]()
    try:
        async with Client(server, timeout=None) as client:
            await client.call_tool("health_check", {})

            async def call(name: str) -> None:
                arguments = {"input_video_path": name, "output_video_path": "o.mp4", "resolution": "80x60"}
                result = await client.call_tool("set_video_resolution", arguments)
                assert not result.is_error, result

            await call("clip.mp4")
            for number in range(ROUNDS):
                fresh = f"clip{number}.mp4"
                shutil.copy(clip, work / fresh)
                main = [str(clip), *WORK, *REST, "-f", "mp4", "bare.mp4"]
                look = ["bare.mp4", "-vf", SHEET, "-frames:v", "1", "-strict", "unofficial", "bare.jpg"]
                glance = await _cost(lambda: _run(program, folder, "-i", str(clip)))
                worked = await _cost(lambda: _run(program, folder, "-i", *main))  # noqa: B023 (called at once)
                looked = await _cost(lambda: _run(program, folder, "-i", *look))  # noqa: B023
                bare.append(worked)
                alone.append(glance + worked + looked)
                known.append(await _cost(lambda: call("clip.mp4")) - worked - looked)
                new.append(await _cost(lambda: call(fresh)) - alone[-1])  # noqa: B023
    finally:
        await server.close()
    name = Path(program.ffmpeg).name[:20]
    target = f"<= {MOST_MILLISECONDS:g} ms"
    label = f"video_audio, {name}: 2 s of 160x120 scaled"
    return [
        Row("video_audio", f"{label}, ffmpeg alone", "ms CPU", median(bare)),
        Row("video_audio", f"{label}, with a glance before and a look after it", "ms CPU", median(alone)),
        *(
            Row(
                "video_audio",
                f"{label}, on top of these: {kind}",
                "ms CPU",
                value,
                target=target,
                met=value <= MOST_MILLISECONDS,
            )
            for kind, value in (("a known file", median(known)), ("a new file", median(new)))
        ),
    ]


async def _cost(work: Callable[[], object]) -> float:
    """Milliseconds of CPU, of this process and its children."""
    before = _cpu()
    done = work()
    if asyncio.iscoroutine(done):
        await done
    return (_cpu() - before) * 1e3


def _cpu() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _run(program: FfmpegProgram, folder: Path, *arguments: str) -> None:
    command = [program.ffmpeg, "-hide_banner", "-nostdin", "-y", *arguments]
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
