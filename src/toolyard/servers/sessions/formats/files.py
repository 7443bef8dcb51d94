"""Which files are read, and the parts of conversations in them, line by line and in bounded memory.

Files are untrusted: links are not followed, only regular files are opened, and whatever is wrong is counted.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import msgspec

from . import agent_run, claude_code, native
from .parts import ConversationPart, UnknownFormatError

MAX_BYTES = 32 * 1024 * 1024
"""Longer lines are skipped, to bound the memory."""
_STEP = 1024 * 1024


class FileLine(NamedTuple):
    start: int
    end: int
    """Where the next line begins."""
    data: bytes | None
    """None if the line is too long."""
    is_complete: bool
    """Whether it ends with a line break; the last line of a file that is being written does not."""


def lines(file: BinaryIO, start: int, most: int = MAX_BYTES) -> Iterator[FileLine]:
    """Reads lines from an offset on, in bounded memory."""
    file.seek(start)
    while True:
        data = file.readline(most + 1)
        if not data:
            return
        end = start + len(data)
        complete = data.endswith(b"\n")
        if len(data) > most and not complete:
            skipped, complete = _skip(file)
            yield FileLine(start, end + skipped, None, complete)
            start = end + skipped
        else:
            yield FileLine(start, end, data, complete)
            start = end


def _skip(file: BinaryIO) -> tuple[int, bool]:
    """Skips the rest of a line in bounded memory."""
    skipped = 0
    while data := file.readline(_STEP):
        skipped += len(data)
        if data.endswith(b"\n"):
            return skipped, True
    return skipped, False


ENDINGS = (".jsonl", ".ndjson", ".json")
_SNIFFED = 8_192
# Some programs write it before UTF-8.
_BOM = b"\xef\xbb\xbf"
_HEAD, _TAIL = 4_096, 256


class ConversationFile(NamedTuple):
    path: Path
    size: int
    changed: int


class ImportTally(msgspec.Struct):
    """The counts of one scan: files, lines, and what was skipped."""

    files: int = 0
    read: int = 0
    lines: int = 0
    messages: int = 0
    broken: int = 0
    unknown: int = 0
    too_long: int = 0
    binary: int = 0
    links: int = 0
    unreadable: int = 0
    first_fault: str = ""

    def fault(self, what: str) -> None:
        self.first_fault = self.first_fault or what


def files_in(root: Path, tally: ImportTally) -> Iterator[ConversationFile]:
    """The files under a folder, or the one file, in order. Follows no links except the root."""
    try:
        root = root.resolve(strict=True)
        kind = root.stat()
    except (OSError, RuntimeError) as error:
        tally.unreadable += 1
        tally.fault(f"{str(root)!r} cannot be read: {getattr(error, 'strerror', error)}")
        return
    if stat.S_ISREG(kind.st_mode):
        yield ConversationFile(root, kind.st_size, kind.st_mtime_ns)
        return
    folders = [root]
    while folders:
        yield from _in_folder(folders.pop(), folders, tally)


def _in_folder(folder: Path, folders: list[Path], tally: ImportTally) -> Iterator[ConversationFile]:
    try:
        with os.scandir(folder) as entries:
            listed = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        tally.unreadable += 1
        tally.fault(f"{str(folder)!r} cannot be read: {error.strerror}")
        return
    names = {entry.name for entry in listed}
    if {agent_run.TRANSCRIPT, agent_run.RECORD} <= names:
        # The folder of a run: all else in it are files that its tools made.
        listed = [entry for entry in listed if entry.name == agent_run.TRANSCRIPT]
    for entry in listed:
        wanted = entry.name.lower().endswith(ENDINGS)
        try:
            if entry.is_symlink():
                # A target inside the folder is found there; one outside must not be read.
                tally.links += wanted
            elif entry.is_dir():
                folders.append(Path(entry.path))
            elif wanted and entry.is_file(follow_symlinks=False):
                about = entry.stat(follow_symlinks=False)
                yield ConversationFile(Path(entry.path), about.st_size, about.st_mtime_ns)
        except OSError:  # deleted in between
            continue


def open_file(path: Path) -> BinaryIO:
    """Opens a file for reading; refuses a pipe or link that has replaced it."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(0, "not a plain file")
    return os.fdopen(descriptor, "rb")


def is_binary(file: BinaryIO) -> bool:
    file.seek(0)
    return b"\x00" in file.read(_SNIFFED)


def mark_of(file: BinaryIO, done: int) -> str:
    """A fingerprint of the beginning and the end of what has been read, to recognize the file."""
    at = file.tell()
    file.seek(0)
    seen = blake2b(file.read(min(done, _HEAD)), digest_size=16)
    file.seek(max(0, done - _TAIL))
    seen.update(file.read(min(done, _TAIL)))
    file.seek(at)
    return seen.hexdigest()


def parts(
    file: BinaryIO, start: int, place: str, tally: ImportTally
) -> Iterator[tuple[int, ConversationPart | None]]:
    """Reads line by line: yields where the next line begins, and the part in this one, if any.

    Leaves an incomplete last line that cannot be parsed yet for later.
    """
    for line in lines(file, start):
        part = _part(line, place, tally)
        if part is None and not line.is_complete:
            return
        tally.lines += 1
        yield line.end, part


def whole(file: BinaryIO, place: str, tally: ImportTally) -> list[ConversationPart] | None:
    """The conversations of a file with one JSON value; None for other files, such as JSON lines."""
    file.seek(0)
    data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        return None
    try:
        value = msgspec.json.decode(data.removeprefix(_BOM))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    items = cast(list[Any], value) if isinstance(value, list) else [value]
    found: list[ConversationPart] = []
    for number, item in enumerate(items):
        try:
            found.append(parse_entry(item, f"{place}#{number}"))
        except UnknownFormatError as why:
            tally.unknown += 1
            tally.fault(f"{place}: {why}")
    return found


def _part(line: FileLine, place: str, tally: ImportTally) -> ConversationPart | None:
    if line.data is None:
        if line.is_complete:
            tally.too_long += 1
            tally.fault(f"{place}, byte {line.start}: a line of over {MAX_BYTES // 1024 // 1024} MiB")
        return None
    if not line.data.strip():
        return None
    try:
        value = msgspec.json.decode(line.data.removeprefix(_BOM))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if line.is_complete:
            tally.broken += 1
            tally.fault(f"{place}, byte {line.start}: {error}")
        return None
    try:
        return parse_entry(value, f"{place}@{line.start}")
    except UnknownFormatError as why:
        tally.unknown += 1
        tally.fault(f"{place}, byte {line.start}: {why}")
        return None


def parse_entry(value: object, place: str) -> ConversationPart:
    """Raises UnknownFormatError for a value in no known format."""
    if isinstance(value, dict):
        entry = cast(dict[str, Any], value)
        if native.is_own(entry):
            return native.read_session(entry)
        if agent_run.is_line(entry):
            return agent_run.read_line(entry, place)
        if claude_code.is_entry(entry):
            return claude_code.read_entry(entry, place)
    raise UnknownFormatError(
        "no entry of Claude Code, no line of an agent's run, no session in the format 'toolyard.sessions'"
    )
