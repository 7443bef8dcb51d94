"""ffmpeg in its box: its limits, its ends, and what it cannot reach."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from scripts.bootstrap import find_program
from tests.programs import needs
from toolyard.ffmpeg import FfmpegMissingError, find_ffmpeg
from toolyard.ffmpeg.capabilities import read_capabilities
from toolyard.ffmpeg.process import (
    FfmpegError,
    FfmpegFailedError,
    FfmpegLimitError,
    FfmpegLimits,
    FfmpegRunner,
    FfmpegTimeoutError,
)

pytestmark = needs("ffmpeg")

ENDLESS = ["-progress", "pipe:1", "-re", "-f", "lavfi", "-i", "testsrc=s=64x48", "-f", "null", "-"]
BUSY = ["-f", "lavfi", "-i", "testsrc=s=640x480", "-f", "null", "-"]


def runner(jobs: int = 2, **limits: float) -> FfmpegRunner:
    return FfmpegRunner(find_ffmpeg(), FfmpegLimits(**limits), jobs)  # pyright: ignore[reportArgumentType]


def processes_in(folder: Path) -> list[int]:
    """Processes that work in a folder."""
    found: list[int] = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if Path(os.readlink(entry / "cwd")) == folder:
                found.append(int(entry.name))
        except OSError:
            continue
    return found


@asynccontextmanager
async def endless(ffmpeg: FfmpegRunner, folder: Path) -> AsyncIterator["asyncio.Task[str]"]:
    """A run that would never end, from the moment at which it makes progress."""
    begun = asyncio.Event()

    async def note(_: float) -> None:
        begun.set()

    running = asyncio.create_task(ffmpeg.run(ENDLESS, folder, on_progress=note))
    try:
        await asyncio.wait(
            [running, waiting := asyncio.create_task(begun.wait())], return_when="FIRST_COMPLETED"
        )
        waiting.cancel()
        assert begun.is_set(), running
        yield running
    finally:
        running.cancel()
        await asyncio.wait([running])


def environment_and_files(process: int) -> tuple[bytes, set[str]]:
    home = Path(f"/proc/{process}")
    return (home / "environ").read_bytes(), {os.readlink(entry) for entry in (home / "fd").iterdir()}


def test_a_program_is_found_by_name_on_path_or_in_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    assert find_ffmpeg().ffmpeg == find_program("ffmpeg")
    assert find_ffmpeg().ffprobe == find_program("ffprobe")
    monkeypatch.setenv("PATH", str(tmp_path))
    packaged = find_ffmpeg()
    assert "imageio_ffmpeg" in packaged.ffmpeg
    assert packaged.ffprobe is None
    with pytest.raises(FfmpegMissingError, match="no program '/none/ffmpeg'; install it"):
        find_ffmpeg("/none/ffmpeg")


async def test_what_it_can_do_is_read_from_the_program(tmp_path: Path):
    for named in ("", packaged()):
        ffmpeg = FfmpegRunner(find_ffmpeg(named), FfmpegLimits())
        able = await read_capabilities(ffmpeg, tmp_path)
        assert able.encoders["libx264"].codec == "h264"
        assert able.encoders["aac"].kind == "audio"
        assert {"drawtext", "ass", "xfade", "tile"} <= able.filters
        assert {"mp4", "matroska", "webm", "mp3", "wav"} <= able.muxers
        assert able.colours["red"] == "ff0000"


def packaged() -> str:
    import imageio_ffmpeg

    return imageio_ffmpeg.get_ffmpeg_exe()


async def test_it_reads_and_writes_nothing_but_its_own(tmp_path: Path):
    """In the strongest box that the kernel has; where it has none, the list of demuxers is what there is."""
    folder, outside = tmp_path / "scratch", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    (outside / "secret.txt").write_text("secret")
    ffmpeg = runner()
    log = await ffmpeg.run(["-f", "data", "-i", str(outside / "secret.txt")], folder, may_fail=True)
    if "Permission denied" not in log:
        pytest.skip("this kernel has no Landlock")
    still = ["-f", "lavfi", "-i", "color=red", "-frames:v", "1"]
    for target in (outside / "new.png", Path.home() / "toolyard-test.png", Path("/tmp/toolyard-test.png")):
        with pytest.raises(FfmpegFailedError, match=r"Permission denied|Error opening|Conversion failed"):
            await ffmpeg.run([*still, str(target)], folder)
        assert not target.exists()
    with pytest.raises(FfmpegFailedError):
        await ffmpeg.run([*still, "-f", "mpegts", "tcp://127.0.0.1:9"], folder)
    await ffmpeg.run([*still, "own.png"], folder)
    assert (folder / "own.png").stat().st_size


async def test_it_inherits_no_other_file_and_no_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TOOLYARD_KEY", "secret")
    ffmpeg = runner()
    read, write = os.pipe()
    os.set_inheritable(write, True)
    async with endless(ffmpeg, tmp_path):
        (process,) = processes_in(tmp_path)
        environment, opened = environment_and_files(process)
    assert b"secret" not in environment
    assert f"pipe:[{os.fstat(write).st_ino}]" not in opened
    os.close(read)
    os.close(write)


async def test_a_cancelled_run_leaves_no_process(tmp_path: Path):
    ffmpeg = runner()
    async with endless(ffmpeg, tmp_path) as running:
        assert processes_in(tmp_path)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not processes_in(tmp_path)


async def test_closing_ends_what_runs(tmp_path: Path):
    ffmpeg = runner()
    async with endless(ffmpeg, tmp_path) as running:
        await ffmpeg.close()
        with pytest.raises(FfmpegError):
            await running
        assert not processes_in(tmp_path)


async def test_time_processor_size_and_memory_are_limited(tmp_path: Path):
    with pytest.raises(FfmpegTimeoutError):
        await runner(seconds=0.5).run(ENDLESS, tmp_path)
    with pytest.raises(FfmpegLimitError, match="cpu"):
        await runner(cpu_seconds=1).run(BUSY, tmp_path)
    with pytest.raises(FfmpegLimitError, match="file"):
        await runner(file_bytes=10_000).run([*BUSY[:-3], "-f", "mpegts", "out.ts"], tmp_path)
    wide = ["-f", "lavfi", "-i", "nullsrc=s=8000x8000:d=0.4", "-vf", "reverse", "-f", "null", "-"]
    with pytest.raises(FfmpegLimitError, match="memory"):
        await runner(memory=200 * 2**20).run(wide, tmp_path)
    assert not processes_in(tmp_path)


async def test_no_more_processes_run_than_allowed_and_all_get_their_turn(tmp_path: Path):
    ffmpeg = runner(jobs=1)
    short = ["-f", "lavfi", "-i", "testsrc=s=64x48:d=0.1", "-f", "null", "-"]
    most = 0
    jobs = [asyncio.create_task(ffmpeg.run(short, tmp_path, caller=str(number))) for number in range(4)]
    while not all(job.done() for job in jobs):
        most = max(most, len(processes_in(tmp_path)))
        await asyncio.sleep(0.005)
    assert most == 1
    assert [job.exception() for job in jobs] == [None] * 4


def test_it_ends_when_its_parent_is_killed(tmp_path: Path):
    writing = [*ENDLESS[:-3], "-f", "mpegts", "out.ts"]
    program = (
        "import asyncio; from pathlib import Path; from toolyard.ffmpeg import find_ffmpeg; "
        "from toolyard.ffmpeg.process import FfmpegLimits, FfmpegRunner; "
        f"asyncio.run(FfmpegRunner(find_ffmpeg(), FfmpegLimits()).run({writing!r}, Path({str(tmp_path)!r})))"
    )
    parent = subprocess.Popen([sys.executable, "-c", program])
    while not (tmp_path / "out.ts").exists():
        assert parent.poll() is None
    (child,) = processes_in(tmp_path)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    while Path(f"/proc/{child}").exists() and "State:\tZ" not in Path(f"/proc/{child}/status").read_text():
        pass
    assert not [one for one in processes_in(tmp_path) if one != child]
