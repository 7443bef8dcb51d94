"""Finds the log files, and groups rotated files into one log."""

import glob
import gzip
import os
import re
import stat
import tempfile
import zlib
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import BinaryIO

from msgspec import Struct

from ..model import LogsError, clean_label

MAX_FILES = 1_000
MAX_UNPACKED = 256 * 1024 * 1024
_ROTATED = re.compile(
    r"(?P<name>.+?)(?:[.-](?P<date>\d{4}-?\d\d-?\d\d)(?:[T_-]?\d{2,6})?|\.(?P<number>\d{1,4}))?"
    r"(?P<kind>\.(?:log|txt|out|err|json|jsonl|ndjson|export|journal))?"
    r"(?:\.(?P<later>\d{1,4})|[.-](?P<day>\d{4}-?\d\d-?\d\d)(?:[T_-]?\d{2,6})?)?(?:\.gz)?"
)


class LogFile(Struct, frozen=True):
    path: str
    modified: float
    age: tuple[int, int]
    """Sorts rotated files; the current one is first."""


class LogGroup(Struct, frozen=True):
    """One log: the current file and the rotated ones, newest first."""

    name: str
    files: list[LogFile]


def groups(patterns: Sequence[str]) -> list[LogGroup]:
    """Finds the logs of globs, folders and paths; raises LogsError if there are none."""
    found: dict[tuple[str, str], list[LogFile]] = {}
    for path in _paths(patterns):
        try:
            about = os.stat(path)
        except OSError:
            continue
        if stat.S_ISREG(about.st_mode):
            name, age = rotation_of(os.path.basename(path))
            found.setdefault((os.path.dirname(path), name), []).append(LogFile(path, about.st_mtime, age))
    if not found:
        raise LogsError("no_files", names=", ".join(repr(pattern) for pattern in patterns))
    names = [name for _, name in found]
    return [
        # The folder distinguishes logs with the same name.
        LogGroup(
            clean_label(name if names.count(name) == 1 else f"{os.path.basename(folder)}/{name}"),
            sorted(files, key=lambda file: (file.age, -file.modified)),
        )
        for (folder, name), files in sorted(found.items())
    ]


def _paths(patterns: Sequence[str]) -> list[str]:
    found: dict[str, None] = {}
    for pattern in patterns:
        pattern = os.path.expanduser(pattern)
        if os.path.isdir(pattern):
            pattern = os.path.join(glob.escape(pattern), "*")
        for path in [pattern] if os.path.exists(pattern) else glob.iglob(pattern, recursive=True):
            found[os.path.abspath(path)] = None
            if len(found) >= MAX_FILES:
                return list(found)
    return list(found)


def rotation_of(file: str) -> tuple[str, tuple[int, int]]:
    """Returns the log that a file belongs to, and its age: app.log.2.gz is the second of app."""
    match = _ROTATED.fullmatch(file)
    if match is None:
        return file, (0, 0)
    number, date = match["number"] or match["later"], match["date"] or match["day"]
    if number:
        return match["name"], (1, int(number))
    if date:
        return match["name"], (1, -int(date.replace("-", "")))
    return match["name"], (0, 0)


class OpenedLog(Struct):
    """A file to read from its end; `problem` says why a part is missing."""

    handle: BinaryIO
    size: int
    problem: str = ""


@contextmanager
def open_log(path: str) -> Generator[OpenedLog]:
    """Raises OSError if the file cannot be read."""
    if not path.endswith(".gz"):
        with open(path, "rb") as handle:
            yield OpenedLog(handle, os.fstat(handle.fileno()).st_size)
        return
    with tempfile.TemporaryFile() as unpacked:
        problem = _unpack(path, unpacked)
        yield OpenedLog(unpacked, unpacked.tell(), problem)


def _unpack(path: str, unpacked: BinaryIO) -> str:
    """Unpacks a file, because gzip cannot be read from the end; returns why it is incomplete, or ""."""
    try:
        with gzip.open(path) as packed:
            while piece := packed.read1(1 << 18):
                unpacked.write(piece)
                if unpacked.tell() > MAX_UNPACKED:
                    return f"> {MAX_UNPACKED >> 20} MiB"
    except (EOFError, zlib.error) as error:
        return str(error)
    return ""
