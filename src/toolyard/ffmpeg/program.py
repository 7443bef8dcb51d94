"""Which ffmpeg is here: one that is named, one on PATH, or the one in the package imageio-ffmpeg."""

import importlib.util
import os
import shutil
from pathlib import Path

from msgspec import Struct

from ..extras import install_command


class FfmpegMissingError(Exception):
    """There is no ffmpeg; `named` is the program that a setting wanted, or empty."""

    def __init__(self, named: str = "") -> None:
        wanted = f"there is no program {named!r}" if named else "ffmpeg is not installed"
        hint = f"install it (apt-get install ffmpeg, brew install ffmpeg), or {install_command('media')}"
        super().__init__(f"{wanted}; {hint}")
        self.named = named


class FfmpegProgram(Struct, frozen=True):
    ffmpeg: str
    """An absolute path."""
    ffprobe: str | None
    """The ffprobe beside it; imageio-ffmpeg has none."""


def find_ffmpeg(named: str = "") -> FfmpegProgram:
    """Starts nothing. Raises FfmpegMissingError."""
    found = shutil.which(os.path.expanduser(named or "ffmpeg")) or (None if named else _packaged())
    if found is None:
        raise FfmpegMissingError(named)
    path = os.path.abspath(found)
    beside = shutil.which("ffprobe", path=os.path.dirname(path))
    return FfmpegProgram(path, beside or (None if named else shutil.which("ffprobe")))


def _packaged() -> str | None:
    """The program in imageio-ffmpeg; its name has its version. Found without an import, which takes 20 ms."""
    package = importlib.util.find_spec("imageio_ffmpeg")
    for folder in (package.submodule_search_locations or []) if package is not None else []:
        for program in sorted(Path(folder, "binaries").glob("ffmpeg-*")):
            if os.access(program, os.X_OK):
                return str(program)
    return None
