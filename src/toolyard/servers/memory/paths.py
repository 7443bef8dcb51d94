"""Paths of memories: the one form in which a path is kept, and what is refused.

A path never reaches a file system. The rules are those of one all the same, so that two paths that look the
same are the same, and nothing reads as a way out of `/memories`.
"""

import re
import unicodedata

from .problems import Problem

ROOT = "/memories"
MOST_BYTES = 512
MOST_SEGMENT_BYTES = 200
MOST_DEPTH = 16

_ENCODED = re.compile(r"%(?:[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4})")
_SLASHES = re.compile(r"/{2,}")
# Those that Unicode's own compatibility forms do not take for a slash, a backslash or a dot.
_LOOK_ALIKES = frozenset(
    "\u2044\u2215\u29f8\u27cb\u2571\u1735"  # slashes
    "\u2216\u29f5\u29f9\u27cd\u2572"  # backslashes
    "\u2219\u22c5\u3002\uff61\u16eb\u0660\u06d4\ua4f8"  # dots
)
_MEANT = frozenset("/\\.%")
# Control and format characters, surrogates, private use, unassigned, line and paragraph separators.
_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def cleaned(path: str) -> str:
    """The path as it is kept; Problem says what is wrong with it."""
    if not path:
        raise Problem("path_empty")
    if len(path) > MOST_BYTES:
        raise Problem("path_long", most=MOST_BYTES)
    _check_characters(path)
    path = _SLASHES.sub("/", unicodedata.normalize("NFC", path))
    path = path.rstrip("/") or "/"
    if path != ROOT and not path.startswith(ROOT + "/"):
        raise Problem("path_outside", path=path)
    if ".." in path:
        raise Problem("path_dots", path=path)
    _check_segments(path)
    return path


def memory_path(path: str) -> str:
    """The same for the path of one memory, which the root is not."""
    found = cleaned(path)
    if found == ROOT:
        raise Problem("path_root")
    return found


def folders_of(path: str) -> list[str]:
    """The folders that a path lies in, the root left out."""
    parts = path.split("/")[2:-1]
    return ["/".join([ROOT, *parts[: i + 1]]) for i in range(len(parts))]


def _check_characters(path: str) -> None:
    for character in path:
        if character.isascii():
            if character == "\\" or not character.isprintable():
                raise Problem("path_character", code=f"U+{ord(character):04X}")
            continue
        looks = unicodedata.normalize("NFKC", character)
        if (
            unicodedata.category(character) in _UNSEEN
            or character in _LOOK_ALIKES
            or not _MEANT.isdisjoint(looks)
        ):
            raise Problem("path_character", code=f"U+{ord(character):04X}")
    if _ENCODED.search(path):
        raise Problem("path_encoded")


def _check_segments(path: str) -> None:
    if len(path.encode()) > MOST_BYTES:
        raise Problem("path_long", most=MOST_BYTES)
    segments = path.split("/")[1:]
    if len(segments) > MOST_DEPTH:
        raise Problem("path_deep", most=MOST_DEPTH)
    for segment in segments:
        if segment == ".":
            raise Problem("path_dots", path=path)
        if segment != segment.strip():
            raise Problem("path_spaces", segment=segment)
        if len(segment.encode()) > MOST_SEGMENT_BYTES:
            raise Problem("path_segment", most=MOST_SEGMENT_BYTES)
