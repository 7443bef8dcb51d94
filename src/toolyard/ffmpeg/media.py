"""What is in a media file, read by ffmpeg from what it prints about an input.

ffprobe prints the same in a better form, but imageio-ffmpeg has none, and two ways to learn one thing would
have to agree. Only the demuxers of the list below are used: among the others are playlists and scripts, which
name further files.
"""

import math
import os
import re
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from .process import FfmpegRunner, input_url

DEMUXERS = (
    "aac,ac3,aiff,amr,amrnb,amrwb,ape,apng,asf,au,av1,avi,bmp_pipe,caf,dts,dv,eac3,flac,flv,gif,gif_pipe,h264,"
    "hevc,ivf,jpeg_pipe,jpegxl_pipe,m4v,matroska,webm,mov,mp4,m4a,3gp,3g2,mj2,mp3,mpc,mpc8,mpeg,mpegts,mpegvideo,"
    "mxf,nut,obu,ogg,pgm_pipe,png_pipe,ppm_pipe,qoi_pipe,rm,tiff_pipe,tta,vc1,voc,w64,wav,webp_pipe,wv"
)
MAX_PIXELS = 8192 * 8192
"""Of a picture that is decoded."""
_DURATION = re.compile(r"^  Duration: (?:N/A|(\d+):(\d\d):(\d\d(?:\.\d+)?))", re.MULTILINE)
_FORMAT = re.compile(r"^Input #0, (\S+), from ", re.MULTILINE)
_STREAM = re.compile(
    r"^  Stream #0:(\d+)(?:\[0x[0-9a-f]+\])?(?:\((\w+)\))?: "
    r"(Video|Audio|Subtitle|Data|Attachment|Unknown): (.*)$((?:\n {4,}.*)*)",
    re.MULTILINE,
)
_SIZE = re.compile(r"^(\d{1,6})x(\d{1,6})(?: \[SAR (\d+):(\d+) DAR (\d+):(\d+)\])?")
_BIT_RATE = re.compile(r"^(\d+) kb/s")
_ROTATION = re.compile(r"rotation of (-?\d+(?:\.\d+)?) degrees")
_TOO_LARGE = re.compile(r"Picture size \d+x\d+ is invalid")
_LAYOUTS = {"mono": 1, "stereo": 2, "downmix": 2, "quad": 4, "hexagonal": 6, "octagonal": 8}
_TEXTUAL = re.compile(rb"^[\x09\x0a\x0d\x20-\x7e\x80-\xff]*$")

MediaKind = Literal["video", "audio", "subtitle", "data", "attachment", "unknown"]
MediaProblem = Literal["empty", "playlist", "svg", "text", "truncated", "not_media", "refused", "too_large"]


class MediaError(Exception):
    """A file that ffmpeg cannot read, or must not. `detail` is ffmpeg's own word for it."""

    def __init__(self, problem: MediaProblem, detail: str = "") -> None:
        super().__init__(f"{problem}: {detail}" if detail else problem)
        self.problem: MediaProblem = problem
        self.detail = detail


class MediaStream(Struct, frozen=True, kw_only=True):
    index: int
    kind: MediaKind
    codec: str
    """`none` if this ffmpeg does not know it."""
    language: str = ""
    bit_rate: int | None = None
    width: int = 0
    """As it is shown: a rotation is applied, as ffmpeg does when it decodes."""
    height: int = 0
    sample_aspect: float = 1.0
    frame_rate: float | None = None
    pixel_format: str = ""
    sample_rate: int | None = None
    channels: int | None = None
    is_cover: bool = False
    """A still picture that belongs to the file, such as the cover of an album."""


class ProbedMedia(Struct, frozen=True, kw_only=True):
    formats: tuple[str, ...]
    """Names of the demuxer: mov, mp4, m4a, …"""
    duration: float | None
    streams: tuple[MediaStream, ...]

    @property
    def video(self) -> MediaStream | None:
        return next((one for one in self.streams if one.kind == "video" and not one.is_cover), None)

    @property
    def audio(self) -> MediaStream | None:
        return next((one for one in self.streams if one.kind == "audio"), None)

    @property
    def is_picture(self) -> bool:
        return any(name.endswith("_pipe") for name in self.formats)


def input_arguments(url: str) -> list[str]:
    """The input and what it may be. Goes before the output; options for this input go before it."""
    safe = ["-protocol_whitelist", "file", "-format_whitelist", DEMUXERS]
    return [*safe, "-max_pixels", str(MAX_PIXELS), "-i", url]


async def probe(runner: FfmpegRunner, descriptor: int, folder: Path, caller: str = "") -> ProbedMedia:
    """Raises MediaError if the file is no media."""
    size = os.fstat(descriptor).st_size
    if not size:
        raise MediaError("empty")
    source = input_arguments(input_url(descriptor))
    arguments = ["-loglevel", "info", *source]
    log = await runner.run(arguments, folder, inputs=[descriptor], caller=caller, may_fail=True)
    info = read_description(log)
    if info is None or not info.streams:
        raise _explain(log, os.pread(descriptor, 4096, 0))
    video = info.video
    if video is not None and (
        video.width * video.height > MAX_PIXELS or (not video.width and _TOO_LARGE.search(log))
    ):
        raise MediaError("too_large")
    if info.duration is None and not info.is_picture:
        length = await _measured(runner, descriptor, folder, caller)
        info = ProbedMedia(formats=info.formats, duration=length, streams=info.streams)
    return info


async def _measured(runner: FfmpegRunner, descriptor: int, folder: Path, caller: str) -> float | None:
    """The duration of a file that does not say it, such as a stream that was recorded: read to its end."""
    last = 0.0

    async def note(seconds: float) -> None:
        nonlocal last
        last = max(last, seconds)

    arguments = ["-loglevel", "error", "-progress", "pipe:1", *input_arguments(input_url(descriptor))]
    everything = ["-map", "0:v?", "-map", "0:a?", "-c", "copy", "-f", "null", "-"]
    await runner.run(
        [*arguments, *everything], folder, inputs=[descriptor], on_progress=note, caller=caller, may_fail=True
    )
    return last or None


def read_description(log: str) -> ProbedMedia | None:
    """Reads what ffmpeg prints about its first input; None if it could not open it."""
    form = _FORMAT.search(log)
    if form is None:
        return None
    # A second input or the output would follow with streams of their own.
    end = re.search(r"^(?:Input #1|Output #0|Stream mapping)", log[form.end() :], re.MULTILINE)
    text = log[form.start() : form.end() + end.start()] if end else log[form.start() :]
    length = _DURATION.search(text)
    duration = None
    if length is not None and length[1] is not None:
        duration = int(length[1]) * 3600 + int(length[2]) * 60 + float(length[3])
    streams = tuple(_stream(*found) for found in _STREAM.findall(text))
    return ProbedMedia(formats=tuple(form[1].split(",")), duration=duration or None, streams=streams)


def _stream(index: str, language: str, kind: str, text: str, more: str) -> MediaStream:
    parts = _split(text)
    codec = parts[0].split(" ")[0]
    rate = next((found for part in reversed(parts) if (found := _BIT_RATE.match(part))), None)
    common: dict[str, Any] = {
        "index": int(index),
        "codec": codec,
        "language": "" if language in ("", "und") else language,
        "bit_rate": int(rate[1]) * 1000 if rate else None,
    }
    if kind == "Video":
        return _video(common, parts, text, more)
    if kind == "Audio":
        return _audio(common, parts)
    return MediaStream(kind=kind.lower(), **common)  # pyright: ignore[reportArgumentType] (a MediaKind)


def _video(common: dict[str, Any], parts: list[str], text: str, more: str) -> MediaStream:
    size = next((found for part in parts if (found := _SIZE.match(part))), None)
    width, height = (int(size[1]), int(size[2])) if size else (0, 0)
    aspect = int(size[3]) / int(size[4]) if size and size[3] and int(size[3]) and int(size[4]) else 1.0
    turn = _ROTATION.search(more)
    if turn is not None and round(abs(float(turn[1]))) % 180 == 90:
        width, height, aspect = height, width, 1 / aspect
    rate = next((part for part in parts if part.endswith(" fps")), "").removesuffix(" fps")
    return MediaStream(
        kind="video",
        width=width,
        height=height,
        sample_aspect=aspect,
        frame_rate=_rate(rate),
        pixel_format=parts[1].split("(")[0] if len(parts) > 1 else "",
        is_cover="(attached pic)" in text,
        **common,
    )


def _audio(common: dict[str, Any], parts: list[str]) -> MediaStream:
    rate = next((part for part in parts if part.endswith(" Hz")), "").removesuffix(" Hz")
    at = next((number for number, part in enumerate(parts) if part.endswith(" Hz")), -1)
    layout = parts[at + 1] if 0 <= at < len(parts) - 1 else ""
    return MediaStream(
        kind="audio",
        sample_rate=int(rate) if rate.isdigit() else None,
        channels=_channels(layout),
        **common,
    )


def _split(text: str) -> list[str]:
    """The parts between commas that are not in parentheses or brackets."""
    return re.split(r", (?![^(\[]*[)\]])", text)


def _rate(text: str) -> float | None:
    """`25`, `29.97`, or `1k` for a thousand."""
    try:
        value = float(text.removesuffix("k")) * (1000 if text.endswith("k") else 1)
    except ValueError:
        return None
    return value if math.isfinite(value) and value > 0 else None


def _channels(layout: str) -> int | None:
    """`stereo`, `5.1(side)`, `3 channels`."""
    name = layout.split("(")[0].strip()
    if name in _LAYOUTS:
        return _LAYOUTS[name]
    if found := re.match(r"(\d+) channels", layout):
        return int(found[1])
    if re.fullmatch(r"\d+(\.\d+)+", name):
        return sum(map(int, name.split(".")))
    return None


def _explain(log: str, head: bytes) -> MediaError:
    refused = re.search(r"Format not on whitelist[^']*'([^']+)'", log)
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:300].lower()
    last = log.strip().splitlines()[-1] if log.strip() else ""
    if start.startswith((b"#extm3u", b"ffconcat", b"[playlist]")) or b"<mpd" in start:
        return MediaError("playlist")
    if b"<svg" in start:
        return MediaError("svg")
    if _TOO_LARGE.search(log):
        return MediaError("too_large")
    if refused is not None:
        return MediaError("refused", refused[1])
    if _TEXTUAL.match(head):
        return MediaError("text")
    if re.search(r"moov atom not found|End of file|partial file|EBML header parsing failed|Truncat", log):
        return MediaError("truncated", last)
    return MediaError("not_media", last)
