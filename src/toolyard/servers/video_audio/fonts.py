"""Finds a font for texts and subtitles: that of a setting, the system's, or one in a Python package."""

import importlib.util
import os
import shutil
import struct
import subprocess
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

_FOLDERS = (
    *("/usr/share/fonts", "/usr/local/share/fonts", "~/.local/share/fonts", "~/.fonts"),
    *("/System/Library/Fonts/Supplemental", "/Library/Fonts", "/System/Library/Fonts"),
)
_LIKED = (
    "DejaVuSans.ttf",
    "LiberationSans-Regular.ttf",
    "NotoSans-Regular.ttf",
    "Roboto-Regular.ttf",
    "Arial.ttf",
)
_PACKAGES = {
    "font_roboto": "files/Roboto-Regular.ttf",
    "matplotlib": "mpl-data/fonts/ttf/DejaVuSans.ttf",
    "reportlab": "fonts/Vera.ttf",
}
_FAMILY = 1
_WINDOWS = 3
_MAX_FONT = 64 * 2**20


class FontFile(Struct, frozen=True):
    path: str
    family: str
    """The name by which subtitles ask for it."""


@lru_cache(maxsize=16)
def find_font(named: str = "") -> FontFile | None:
    """Blocks for some 20 ms the first time."""
    candidates = [named] if named else [*_of_fontconfig(), *_of_folders(), *_of_packages()]
    for candidate in candidates:
        path = os.path.expanduser(candidate)
        family = _family(path)
        if family is not None:
            return FontFile(os.path.abspath(path), family)
    return None


def _of_fontconfig() -> list[str]:
    program = shutil.which("fc-match")
    if program is None:
        return []
    command = [program, "-f", "%{file}", "sans:fontformat=TrueType"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [done.stdout] if done.returncode == 0 and done.stdout else []


def _of_folders() -> list[str]:
    found = [
        path
        for folder in _FOLDERS
        for path in sorted(Path(folder).expanduser().glob("**/*.[to]tf"))
        if "emoji" not in path.name.lower()
    ]
    return [str(path) for path in sorted(found, key=lambda path: path.name not in _LIKED)][:50]


def _of_packages() -> list[str]:
    """Fonts that packages have, if they are installed; nothing is imported."""
    found: list[str] = []
    for package, path in _PACKAGES.items():
        spec = importlib.util.find_spec(package)
        found += (
            [str(Path(folder, path)) for folder in (spec.submodule_search_locations or []) if spec]
            if spec
            else []
        )
    return found


def _family(path: str) -> str | None:
    """The family in the name table of a TrueType or OpenType font; None if it is none."""
    try:
        if os.path.getsize(path) > _MAX_FONT:
            return None
        data = Path(path).read_bytes()
        if data[:4] not in (b"\0\1\0\0", b"OTTO", b"true"):
            return None
        (tables,) = struct.unpack_from(">H", data, 4)
        for number in range(tables):
            tag, _, offset, _ = struct.unpack_from(">4sIII", data, 12 + 16 * number)
            if tag == b"name":
                return _named(data, offset)
    except (OSError, struct.error, UnicodeDecodeError):
        pass
    return None


def _named(data: bytes, table: int) -> str | None:
    _, count, texts = struct.unpack_from(">HHH", data, table)
    for number in range(count):
        platform, _, _, name, length, offset = struct.unpack_from(">6H", data, table + 6 + 12 * number)
        if name == _FAMILY and platform in (0, _WINDOWS):
            start = table + texts + offset
            return data[start : start + length].decode("utf-16-be")
    return None
