"""What is in a file, as the two programs of the tests print it; ffprobe is the judge."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from scripts.bootstrap import find_program
from tests.programs import needs
from toolyard.ffmpeg import find_ffmpeg
from toolyard.ffmpeg.media import ProbedMedia, probe, read_description
from toolyard.ffmpeg.process import FfmpegLimits, FfmpegRunner

pytestmark = needs("ffmpeg")

FILES = {
    "a.mp4": ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-c:a", "aac"],
    "a.mkv": ["-c:v", "mpeg4", "-c:a", "ac3", "-ac", "6", "-metadata:s:a", "language=por"],
    "a.webm": ["-c:v", "libvpx", "-c:a", "libopus"],
    "a.ts": ["-c:v", "mpeg2video", "-r", "30000/1001", "-c:a", "mp2"],
    "a.mov": ["-c:v", "mjpeg", "-aspect", "2:1", "-c:a", "pcm_s16le"],
    "a.flac": ["-map", "1:a"],
    "a.wav": ["-map", "1:a", "-ac", "3"],
    "a.gif": ["-map", "0:v"],
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    inputs = ["-f", "lavfi", "-i", "testsrc=s=64x48:r=25:d=0.8", "-f", "lavfi", "-i", "sine=d=0.8:r=48000"]
    outputs = [word for name, options in FILES.items() for word in (*options, name)]
    ffmpeg = find_program("ffmpeg") or "ffmpeg"
    subprocess.run([ffmpeg, "-v", "error", *inputs, *outputs], cwd=folder, check=True)
    return folder


def output_of(program: str, *arguments: str) -> bytes:
    command = [find_program(program) or program, "-v", "error", *arguments]
    return subprocess.run(command, capture_output=True, check=True).stdout


async def found(path: Path, folder: Path, ffmpeg: str = "") -> ProbedMedia:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return await probe(FfmpegRunner(find_ffmpeg(ffmpeg), FfmpegLimits()), descriptor, folder)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("name", FILES)
async def test_both_programs_find_what_ffprobe_finds(made: Path, tmp_path: Path, name: str):
    import imageio_ffmpeg

    told = json.loads(output_of("ffprobe", "-show_streams", "-show_format", "-of", "json", str(made / name)))
    for ffmpeg in ("", imageio_ffmpeg.get_ffmpeg_exe()):
        info = await found(made / name, tmp_path, ffmpeg)
        assert info.duration == pytest.approx(float(told["format"]["duration"]), abs=0.05)
        assert [one.codec for one in info.streams] == [one["codec_name"] for one in told["streams"]]
        for ours, theirs in zip(info.streams, told["streams"], strict=True):
            assert ours.kind == theirs["codec_type"]
            if ours.kind == "video":
                over, under = map(int, theirs["r_frame_rate"].split("/"))
                assert (ours.width, ours.height) == (theirs["width"], theirs["height"])
                assert ours.frame_rate == pytest.approx(over / under, abs=0.01)
                assert ours.pixel_format == theirs["pix_fmt"]
                left, right = map(int, theirs.get("sample_aspect_ratio", "1:1").split(":"))
                assert ours.sample_aspect == pytest.approx(left / right)
            else:
                assert (ours.sample_rate, ours.channels) == (int(theirs["sample_rate"]), theirs["channels"])
                assert ours.language == theirs.get("tags", {}).get("language", "").replace("und", "")


async def test_a_stream_without_a_duration_is_read_to_its_end(made: Path, tmp_path: Path):
    """As a live recording leaves it: Matroska through a pipe."""
    live = tmp_path / "live.mkv"
    live.write_bytes(output_of("ffmpeg", "-i", str(made / "a.mkv"), "-c", "copy", "-f", "matroska", "-"))
    assert (await found(live, tmp_path)).duration == pytest.approx(0.8, abs=0.1)


def test_words_in_a_file_are_not_taken_for_streams():
    log = (
        "Input #0, mov,mp4, from 'x':\n  Metadata:\n    title           : nice\n"
        "                    :   Stream #0:7: Video: fake, 9x9\n"
        "  Duration: 00:00:01.50, start: 0.000000, bitrate: 9 kb/s\n"
        "  Stream #0:0(por): Audio: aac (LC) (mp4a / 0x6134706D), 44100 Hz, 5.1(side), fltp, 69 kb/s\n"
        "Output #0, null, to 'pipe:':\n  Stream #0:0: Audio: pcm_s16le, 8000 Hz, mono, s16\n"
    )
    info = read_description(log)
    assert info is not None
    (stream,) = info.streams
    assert (stream.codec, stream.channels, stream.language, stream.bit_rate) == ("aac", 6, "por", 69000)
    assert info.duration == 1.5
