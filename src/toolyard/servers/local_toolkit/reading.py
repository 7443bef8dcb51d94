"""What a file is: its MIME type, and its text in whichever encoding it was written.

Guesses from the first bytes and the name; never reads a whole file for it.
"""

import codecs
import mimetypes

from msgspec import Struct

LOOKED_AT = 8192
BINARY = "application/octet-stream"
IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Pictures that models can look at."""

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"PK\x05\x06", "application/zip"),
    (b"\x1f\x8b", "application/gzip"),
    (b"SQLite format 3\x00", "application/vnd.sqlite3"),
    (b"\x7fELF", "application/x-executable"),
    (b"OggS", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"ID3", "audio/mpeg"),
    (b"\x1aE\xdf\xa3", "video/webm"),
)
_MARKS: tuple[tuple[bytes, str], ...] = (  # the longer ones first: one begins like another
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# The system's table differs from machine to machine; these are what agents write.
_TYPES = {
    ".md": "text/markdown",
    ".csv": "text/csv",
    ".json": "application/json",
    ".jsonl": "application/jsonl",
    ".toml": "application/toml",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".html": "text/html",
    ".htm": "text/html",
    ".py": "text/x-python",
    ".js": "text/javascript",
    ".ts": "text/typescript",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
    ".log": "text/plain",
}
_TEXT_CONTROLS = frozenset(b"\t\n\r\f\x1b\b")


class FileNature(Struct, frozen=True):
    """`encoding` is None for a file that is not text."""

    mime_type: str
    encoding: str | None


def nature_of(name: str, head: bytes) -> FileNature:
    """What a file with this name and these first bytes is."""
    encoding = _encoding(head)
    if encoding is not None:
        named = _named(name)
        is_text = named.startswith("text/") or named in _TYPES.values() or named.endswith(("+xml", "/xml"))
        return FileNature(named if is_text else "text/plain", encoding)
    for magic, mime_type in _MAGIC:
        if head.startswith(magic):
            # Office documents and books are zips; their names say more.
            named = _named(name)
            is_zipped = mime_type == "application/zip" and named != BINARY
            return FileNature(named if is_zipped else mime_type, None)
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return FileNature("image/webp", None)
    if head[4:8] == b"ftyp":
        return FileNature("video/mp4", None)
    named = _named(name)
    return FileNature(named if not named.startswith("text/") else BINARY, None)


def _named(name: str) -> str:
    suffix = "." + name.rpartition(".")[2].lower()
    return _TYPES.get(suffix) or mimetypes.guess_type(name, strict=False)[0] or BINARY


def _encoding(head: bytes) -> str | None:
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return encoding
    if b"\0" in head:
        return None
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
        return "utf-8"
    except UnicodeDecodeError:
        pass
    controls = sum(byte < 32 and byte not in _TEXT_CONTROLS for byte in head)
    # Old texts of Western Europe; whatever is none of these would be unreadable in any case.
    return "cp1252" if controls == 0 and not any(head.startswith(magic) for magic, _ in _MAGIC) else None


def decoded(data: bytes, encoding: str) -> str:
    """The text; what cannot be decoded becomes U+FFFD."""
    return data.decode(encoding, errors="replace")


def whole_characters(data: bytes, encoding: str) -> int:
    """How many of these bytes are whole characters, so that a part of a text does not end within one."""
    if encoding in ("utf-8", "utf-8-sig"):
        for back in range(1, min(4, len(data)) + 1):
            byte = data[-back]
            if byte & 0xC0 == 0xC0:  # begins a character of several bytes
                length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
                return len(data) if back >= length else len(data) - back
            if byte < 0x80:
                break
        return len(data)
    width = {"utf-16": 2, "utf-32": 4}.get(encoding, 1)
    return len(data) - len(data) % width
