"""The zip: the same bytes for the same files, whoever makes it and when."""

import hashlib
import zipfile
from pathlib import Path

from msgspec import Struct

EPOCH = (1980, 1, 1, 0, 0, 0)
PLAIN, PROGRAM = 0o644, 0o755
UNIX = 3
LEVEL = 6
"""9 takes more than twice as long for half a hundredth less."""
OWN = "(function)"


class Archive(Struct, frozen=True):
    file: Path
    size: int
    unpacked: int
    sha256: str
    parts: dict[str, tuple[int, int]]
    """By what stands at the top of it: bytes in the zip, bytes unpacked."""


def write(folder: Path, file: Path, programs: frozenset[str]) -> Archive:
    """Zip a folder. The `programs` among its files can be executed, all others only be read."""
    parts: dict[str, tuple[int, int]] = {}
    draft = file.with_name(f"{file.name}.part")
    with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED, compresslevel=LEVEL) as archive:
        for name in _names(folder):
            data = (folder / name).read_bytes()
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.create_system = UNIX
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100000 | (PROGRAM if name in programs else PLAIN)) << 16
            archive.writestr(entry, data, compresslevel=LEVEL)
            top = _part(name)
            packed, unpacked = parts.get(top, (0, 0))
            parts[top] = packed + entry.compress_size, unpacked + entry.file_size
    draft.replace(file)
    return Archive(
        file,
        file.stat().st_size,
        sum(unpacked for _, unpacked in parts.values()),
        hashlib.sha256(file.read_bytes()).hexdigest(),
        parts,
    )


def _names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def _part(name: str) -> str:
    """The package that a file belongs to; its licences and its bytecode count with it."""
    top = name.removeprefix("__pycache__/").partition("/")[0]
    package = top.partition("-" if top.endswith(".dist-info") else ".")[0]
    return OWN if package in ("function", "bootstrap") else package
