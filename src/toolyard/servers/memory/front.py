"""What a memory says of itself: an optional block of `name: value` lines at its top, between two `---`.

Not YAML: no nesting, no lists, one line a value. Names in English or Portuguese; others are left alone.
"""

import re

from msgspec import Struct

from .paths import ROOT

FENCE = "---"
MOST_LINES = 40
MOST_CHARACTERS = 100
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
_KNOWN = {said: name for name, spellings in _NAMES.items() for said in spellings}
_DEGREES = {"low": 0.25, "baixa": 0.25, "medium": 0.5, "média": 0.5, "media": 0.5, "high": 0.75, "alta": 0.75}
_HEADING = re.compile(r"#{1,6}\s+(.*)")


class About(Struct, frozen=True):
    """What is known of a memory beside its text."""

    title: str
    kind: str
    domain: str
    level: str
    scope: str
    category: str
    importance: float


def about(path: str, content: str) -> About:
    """What the memory says, and where it says nothing, what its place and its first line suggest."""
    said, body = _read(content)
    folders = path.removeprefix(ROOT).split("/")[1:-1]
    return About(
        title=said.get("title") or _first_line(body) or path.rpartition("/")[2],
        kind=said.get("kind", "note"),
        domain=said.get("domain") or (folders[0][:MOST_CHARACTERS] if folders else "general"),
        level=said.get("level", "normal"),
        scope=said.get("scope", "user"),
        category=said.get("category", "general"),
        importance=_importance(said.get("importance", "")),
    )


def body_of(content: str) -> str:
    """The text without what it says of itself."""
    _, lines = _read(content)
    return "\n".join(lines)


def _read(content: str) -> tuple[dict[str, str], list[str]]:
    lines = content.split("\n", MOST_LINES + 1)
    if lines[0].strip() != FENCE:
        return {}, lines
    end = next((i for i, line in enumerate(lines[1:MOST_LINES], 1) if line.strip() == FENCE), None)
    if end is None:
        return {}, lines
    said: dict[str, str] = {}
    for line in lines[1:end]:
        name, colon, value = line.partition(":")
        known = _KNOWN.get(name.strip().lower())
        if colon and known:
            said[known] = " ".join(value.split()).strip("\"'")[:MOST_CHARACTERS]
    return {name: value for name, value in said.items() if value}, lines[end + 1 :]


def _first_line(lines: list[str]) -> str:
    first = next((line.strip() for line in lines if line.strip()), "")
    heading = _HEADING.match(first)
    return " ".join((heading[1] if heading else first)[: MOST_CHARACTERS * 2].split())[:MOST_CHARACTERS]


def _importance(said: str) -> float:
    if said.lower() in _DEGREES:
        return _DEGREES[said.lower()]
    try:
        number = float(said.replace(",", "."))
    except ValueError:
        return USUAL_IMPORTANCE
    return min(max(number, 0.0), 1.0) if number == number else USUAL_IMPORTANCE
