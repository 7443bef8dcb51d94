"""Pictures from a video, for models that do not take videos: evenly spaced, with their times. Uses ffmpeg."""

import asyncio
import contextlib
import os
import re
import tempfile

from msgspec import Struct

SECONDS = 60.0
LONGEST_PICTURE = 8 * 1024 * 1024
# Containers that only hold what is in them: a playlist could name other files of this machine.
CONTAINERS = "matroska,webm,mov,mp4,m4a,mpegts,flv,avi,asf,mpeg,gif,ogg"
_DURATION = re.compile(rb"Duration: (\d+):(\d\d):(\d\d(?:\.\d+)?)")


class FrameError(Exception):
    """ffmpeg finds no pictures in the file, or takes too long."""


class VideoFrame(Struct, frozen=True):
    seconds: float
    data: bytes
    """A JPEG."""


async def frames_of(ffmpeg: str, video: bytes, count: int, max_side: int) -> list[VideoFrame]:
    """Raises FrameError. Cancelling ends ffmpeg."""
    with tempfile.TemporaryFile() as file:
        await asyncio.to_thread(file.write, video)
        file.flush()
        try:
            async with asyncio.timeout(SECONDS):
                return await _frames(ffmpeg, file.fileno(), count, max_side)
        except (TimeoutError, OSError):
            raise FrameError from None


async def _frames(ffmpeg: str, handle: int, count: int, max_side: int) -> list[VideoFrame]:
    # The handle's name instead of a path: nothing of a caller is on the command line.
    entry = ["-protocol_whitelist", "file", "-format_whitelist", CONTAINERS, "-i", f"/dev/fd/{handle}"]
    _, said = await _run([ffmpeg, "-hide_banner", "-nostdin", *entry], handle)
    found = _DURATION.search(said)
    if found is None or b"Video:" not in said:
        raise FrameError
    length = int(found[1]) * 3600 + int(found[2]) * 60 + float(found[3])
    scale = f"scale='min({max_side},iw)':'min({max_side},ih)':force_original_aspect_ratio=decrease"
    frames: list[VideoFrame] = []
    for at in range(count):
        moment = length * (at + 0.5) / count
        command = [ffmpeg, "-v", "error", "-nostdin", "-ss", f"{moment:.3f}", *entry, "-frames:v", "1"]
        command += ["-vf", scale, "-c:v", "mjpeg", "-q:v", "4", "-f", "image2pipe", "-"]
        picture, _ = await _run(command, handle)
        if picture:
            frames.append(VideoFrame(round(moment, 3), picture))
    if not frames:
        raise FrameError
    return frames


async def _run(command: list[str], handle: int) -> tuple[bytes, bytes]:
    os.lseek(handle, 0, os.SEEK_SET)
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        pass_fds=(handle,),
        env={"PATH": os.environ.get("PATH", "")},
    )
    try:
        out, said = await process.communicate()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    if len(out) > LONGEST_PICTURE:
        raise FrameError
    return out, said[-65536:]
