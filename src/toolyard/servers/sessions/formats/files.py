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

from . import claude_code, native
from .parts import ConversationPart, UnknownFormatError

MOST_BYTES = 32 * 1024 * 1024
"""Longer lines are passed over: a conversation has none, and memory is not for whoever writes them."""
_STEP = 1024 * 1024


class FileLine(NamedTuple):
    start: int
    end: int
    """Where the next one begins."""
    data: bytes | None
    """None when it is too long."""
    is_complete: bool
    """Whether its end was there; the last line of a file that is being written has none."""


def lines(file: BinaryIO, start: int, most: int = MOST_BYTES) -> Iterator[FileLine]:
    """From a place in the file on, in bounded memory."""
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
    """Past the end of this line, step by step."""
    skipped = 0
    while data := file.readline(_STEP):
        skipped += len(data)
        if data.endswith(b"\n"):
            return skipped, True
    return skipped, False


ENDINGS = (".jsonl", ".ndjson", ".json")
_SNIFFED = 8_192
# Some programs put it before UTF-8.
_BOM = b"\xef\xbb\xbf"
_HEAD, _TAIL = 4_096, 256


class ConversationFile(NamedTuple):
    path: Path
    size: int
    changed: int


class ImportTally(msgspec.Struct):
    """What became of the files and lines of one look through the folders."""

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
    """The files under a folder, or the one file, in order. Only the root itself may be a link."""
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
    for entry in listed:
        wanted = entry.name.lower().endswith(ENDINGS)
        try:
            if entry.is_symlink():
                # What it leads to inside the folder is found there, what is outside is none of ours.
                tally.links += wanted
            elif entry.is_dir():
                folders.append(Path(entry.path))
            elif wanted and entry.is_file(follow_symlinks=False):
                about = entry.stat(follow_symlinks=False)
                yield ConversationFile(Path(entry.path), about.st_size, about.st_mtime_ns)
        except OSError:  # gone in between
            continue


def opened(path: Path) -> BinaryIO:
    """For reading; a pipe or a link that has taken the file's place since is refused."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(0, "not a plain file")
    return os.fdopen(descriptor, "rb")


def is_binary(file: BinaryIO) -> bool:
    file.seek(0)
    return b"\x00" in file.read(_SNIFFED)


def mark_of(file: BinaryIO, done: int) -> str:
    """A fingerprint of the first and the last of what has been read: whether it is still the same file."""
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
    """Line by line from there on: where the next one begins, and what was in it, if anything.

    A last line that has no end yet, and makes no sense so far, is left for later.
    """
    for line in lines(file, start):
        part = _part(line, place, tally)
        if part is None and not line.is_complete:
            return
        tally.lines += 1
        yield line.end, part


def whole(file: BinaryIO, place: str, tally: ImportTally) -> list[ConversationPart] | None:
    """The sessions of a file that is one JSON value; None when it is something else, such as lines."""
    file.seek(0)
    data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        return None
    try:
        value = msgspec.json.decode(data.removeprefix(_BOM))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    items = cast(list[Any], value) if isinstance(value, list) else [value]
    found: list[ConversationPart] = []
    for number, item in enumerate(items):
        try:
            found.append(understood(item, f"{place}#{number}"))
        except UnknownFormatError as why:
            tally.unknown += 1
            tally.fault(f"{place}: {why}")
    return found


def _part(line: FileLine, place: str, tally: ImportTally) -> ConversationPart | None:
    if line.data is None:
        if line.is_complete:
            tally.too_long += 1
            tally.fault(f"{place}, byte {line.start}: a line of over {MOST_BYTES // 1024 // 1024} MiB")
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
        return understood(value, f"{place}@{line.start}")
    except UnknownFormatError as why:
        tally.unknown += 1
        tally.fault(f"{place}, byte {line.start}: {why}")
        return None


def understood(value: object, place: str) -> ConversationPart:
    """Raise Unknown for what is no part of a conversation in a form that is known."""
    if isinstance(value, dict):
        entry = cast(dict[str, Any], value)
        if native.is_own(entry):
            return native.read_session(entry)
        if claude_code.is_entry(entry):
            return claude_code.read_entry(entry, place)
    raise UnknownFormatError("neither an entry of Claude Code nor a session in the form 'toolyard.sessions'")
