"""A memory's path and its front matter.

Paths never reach a file system, but follow its rules: one canonical form, and no way out of `/memories`.
Front matter is a block of `name: value` lines between two `---`; it is not YAML.
"""

import re
import unicodedata

from msgspec import Struct

from .errors import MemoryRequestError

ROOT = "/memories"
MAX_BYTES = 512
MAX_SEGMENT_BYTES = 200
MAX_DEPTH = 16

_ENCODED = re.compile(r"%(?:[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4})")
_SLASHES = re.compile(r"/{2,}")
# Look-alikes of slash, backslash and dot that NFKC does not map to them.
_LOOK_ALIKES = frozenset(
    "\u2044\u2215\u29f8\u27cb\u2571\u1735"  # slashes
    "\u2216\u29f5\u29f9\u27cd\u2572"  # backslashes
    "\u2219\u22c5\u3002\uff61\u16eb\u0660\u06d4\ua4f8"  # dots
)
_MEANT = frozenset("/\\.%")
# Control and format characters, surrogates, private use, unassigned, line and paragraph separators.
_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def cleaned(path: str) -> str:
    """Returns the canonical path; raises MemoryRequestError for a wrong one."""
    if not path:
        raise MemoryRequestError("path_empty")
    if len(path) > MAX_BYTES:
        raise MemoryRequestError("path_long", most=MAX_BYTES)
    _check_characters(path)
    path = _SLASHES.sub("/", unicodedata.normalize("NFC", path))
    path = path.rstrip("/") or "/"
    if path != ROOT and not path.startswith(ROOT + "/"):
        raise MemoryRequestError("path_outside", path=path)
    if ".." in path:
        raise MemoryRequestError("path_dots", path=path)
    _check_segments(path)
    return path


def memory_path(path: str) -> str:
    """Like `cleaned`, for the path of a memory: refuses the root."""
    found = cleaned(path)
    if found == ROOT:
        raise MemoryRequestError("path_root")
    return found


def folders_of(path: str) -> list[str]:
    """The folders above a path, without the root."""
    parts = path.split("/")[2:-1]
    return ["/".join([ROOT, *parts[: i + 1]]) for i in range(len(parts))]


def _check_characters(path: str) -> None:
    for character in path:
        if character.isascii():
            if character == "\\" or not character.isprintable():
                raise MemoryRequestError("path_character", code=f"U+{ord(character):04X}")
            continue
        looks = unicodedata.normalize("NFKC", character)
        if (
            unicodedata.category(character) in _UNSEEN
            or character in _LOOK_ALIKES
            or not _MEANT.isdisjoint(looks)
        ):
            raise MemoryRequestError("path_character", code=f"U+{ord(character):04X}")
    if _ENCODED.search(path):
        raise MemoryRequestError("path_encoded")


def _check_segments(path: str) -> None:
    if len(path.encode()) > MAX_BYTES:
        raise MemoryRequestError("path_long", most=MAX_BYTES)
    segments = path.split("/")[1:]
    if len(segments) > MAX_DEPTH:
        raise MemoryRequestError("path_deep", most=MAX_DEPTH)
    for segment in segments:
        if segment == ".":
            raise MemoryRequestError("path_dots", path=path)
        if segment != segment.strip():
            raise MemoryRequestError("path_spaces", segment=segment)
        if len(segment.encode()) > MAX_SEGMENT_BYTES:
            raise MemoryRequestError("path_segment", most=MAX_SEGMENT_BYTES)


FENCE = "---"
MAX_LINES = 40
MAX_CHARACTERS = 100
USUAL_IMPORTANCE = 0.5

_NAMES = {
    "title": ("title", "titulo", "título"),
    "kind": ("kind", "tipo"),
    "domain": ("domain", "dominio", "domínio"),
    "level": ("level", "nivel", "nível"),
    "scope": ("scope", "escopo"),
    "category": ("category", "categoria"),
    "importance": ("importance", "importancia", "importância"),
}
_KNOWN = {spelling: name for name, spellings in _NAMES.items() for spelling in spellings}
_DEGREES = {"low": 0.25, "baixa": 0.25, "medium": 0.5, "média": 0.5, "media": 0.5, "high": 0.75, "alta": 0.75}
_HEADING = re.compile(r"#{1,6}\s+(.*)")


class FrontMatter(Struct, frozen=True):
    """A memory's properties beside its text."""

    title: str
    kind: str
    domain: str
    level: str
    scope: str
    category: str
    importance: float


def read_front_matter(path: str, content: str) -> FrontMatter:
    """Reads the front matter; takes missing values from the path and the first line."""
    fields, body = _read(content)
    folders = path.removeprefix(ROOT).split("/")[1:-1]
    return FrontMatter(
        title=fields.get("title") or _first_line(body) or path.rpartition("/")[2],
        kind=fields.get("kind", "note"),
        domain=fields.get("domain") or (folders[0][:MAX_CHARACTERS] if folders else "general"),
        level=fields.get("level", "normal"),
        scope=fields.get("scope", "user"),
        category=fields.get("category", "general"),
        importance=_importance(fields.get("importance", "")),
    )


def body_of(content: str) -> str:
    """The text without its front matter."""
    _, lines = _read(content)
    return "\n".join(lines)


def _read(content: str) -> tuple[dict[str, str], list[str]]:
    lines = content.split("\n", MAX_LINES + 1)
    if lines[0].strip() != FENCE:
        return {}, lines
    end = next((i for i, line in enumerate(lines[1:MAX_LINES], 1) if line.strip() == FENCE), None)
    if end is None:
        return {}, lines
    fields: dict[str, str] = {}
    for line in lines[1:end]:
        name, colon, value = line.partition(":")
        known = _KNOWN.get(name.strip().lower())
        if colon and known:
            fields[known] = " ".join(value.split()).strip("\"'")[:MAX_CHARACTERS]
    return {name: value for name, value in fields.items() if value}, lines[end + 1 :]


def _first_line(lines: list[str]) -> str:
    first = next((line.strip() for line in lines if line.strip()), "")
    heading = _HEADING.match(first)
    return " ".join((heading[1] if heading else first)[: MAX_CHARACTERS * 2].split())[:MAX_CHARACTERS]


def _importance(text: str) -> float:
    if text.lower() in _DEGREES:
        return _DEGREES[text.lower()]
    try:
        number = float(text.replace(",", "."))
    except ValueError:
        return USUAL_IMPORTANCE
    return min(max(number, 0.0), 1.0) if number == number else USUAL_IMPORTANCE
