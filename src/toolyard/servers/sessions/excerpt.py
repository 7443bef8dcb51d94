"""A few words around a hit, cut between words, with the hit marked."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .words import finders, plain

LENGTH = 300
_BEFORE = 100
_LONGEST_WORD = 40


def excerpt(text: str, wanted: Sequence[str], length: int = LENGTH) -> str:
    """At most `length` characters of the text, beside the stars on both sides of each hit.

    Whole words, and dots where something is left out. Without a hit: how the text begins.
    """
    folded = plain(text) if wanted else ""
    look = _that_finds(folded, wanted)
    hit = look.search(folded) if look else None
    start, end = _window(text, hit.start() if hit else 0, length)
    hits = [found.span() for found in look.finditer(folded, start, end)] if look else []
    shown = " ".join(_marked(text, hits, start, end).split())
    return ("…" if start > 0 else "") + shown + ("…" if end < len(text) else "")


def has(text: str, wanted: Sequence[str]) -> bool:
    return _that_finds(plain(text), wanted) is not None


def _that_finds(folded: str, wanted: Sequence[str]) -> re.Pattern[str] | None:
    """As the search does: the words themselves, or else words that begin so."""
    return next((look for look in finders(wanted) if look.search(folded)), None) if wanted else None


def _window(text: str, first: int, length: int) -> tuple[int, int]:
    start = max(0, min(first - _BEFORE, len(text) - length))
    end = min(len(text), start + length)
    if start > 0:
        start = _forward_to_a_word(text, start, first)
    if end < len(text):
        end = _back_to_a_word(text, end, max(first, start))
    return start, end


def _forward_to_a_word(text: str, start: int, most: int) -> int:
    if text[start - 1].isspace():
        return start
    for place in range(start, min(most, start + _LONGEST_WORD)):
        if text[place].isspace():
            return place + 1
    return start


def _back_to_a_word(text: str, end: int, least: int) -> int:
    if text[end].isspace():
        return end
    for place in range(end, max(least + 1, end - _LONGEST_WORD), -1):
        if text[place - 1].isspace():
            return place - 1
    return end


def _marked(text: str, hits: Sequence[tuple[int, int]], start: int, end: int) -> str:
    pieces: list[str] = []
    done = start
    for first, last in hits:
        pieces += [text[done:first], "**", text[first:last], "**"]
        done = last
    return "".join([*pieces, text[done:end]])
