"""Media that ffmpeg makes once: each under two seconds and tiny."""

import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.programs import need
from tests.servers.video_audio.talking import FFMPEG, Studio, studio

SUBTITLES = "1\n00:00:00,200 --> 00:00:01,000\n<b>MMMMMM</b>\n\n2\n00:00:01,200 --> 00:00:01,400\nlater\n"


@pytest.fixture(scope="session")
def media(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("ffmpeg")
    folder = tmp_path_factory.mktemp("media")
    quiet = r"aevalsrc=if(between(t\,0.5\,1.3)\,0\,0.5*sin(2765*t)):d=1.8:s=44100"
    h264 = ["-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p"]
    # gray.mp4 has 160x120 at 25 fps with sound; red and blue are 0.8 s and other sizes, without.
    command = [
        *(FFMPEG, "-v", "error", "-y"),
        *("-f", "lavfi", "-i", "color=0x808080:s=160x120:r=25:d=1.6"),
        *("-f", "lavfi", "-i", "sine=f=440:d=1.6:r=44100"),
        *("-f", "lavfi", "-i", "color=red:s=96x54:r=30:d=0.8"),
        *("-f", "lavfi", "-i", "color=blue:s=160x120:r=25:d=0.8"),
        *("-f", "lavfi", "-i", quiet),
        *("-f", "lavfi", "-i", "testsrc=s=160x120:r=25:d=1.8"),
        *("-f", "lavfi", "-i", "sine=f=880:d=0.8:r=44100"),
        *("-map", "0:v", "-map", "1:a", *h264, "-c:a", "aac", "gray.mp4"),
        *("-map", "2:v", *h264, "red.mp4"),
        *("-map", "3:v", "-map", "6:a", *h264, "-c:a", "aac", "blue.mp4"),
        *("-map", "4:a", "pause.wav"),
        *("-map", "5:v", "-map", "4:a", *h264, "-c:a", "aac", "pause.mp4"),
        *("-map", "1:a", "-c:a", "libmp3lame", "tone.mp3"),
        *("-map", "3:v", "-frames:v", "1", "-vf", "scale=40:30", "logo.png"),
    ]
    subprocess.run(command, cwd=folder, check=True)
    (folder / "words.srt").write_text(SUBTITLES)
    return folder


@pytest.fixture
def workspace(media: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(media, tmp_path / "work"))


@pytest.fixture
async def tools(workspace: Path) -> AsyncIterator[Studio]:
    async with studio(workspace) as found:
        yield found
