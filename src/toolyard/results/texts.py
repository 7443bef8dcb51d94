"""Texts as they come, piece by piece and in constant memory: what form they have, and what is worth knowing.

Every pass over a piece is one of a regular expression or of `bytes`' own; lines are taken one by one only at
the beginning.
"""

import re
from collections import Counter
from typing import Any

from .csv_texts import csv_columns, separator_of
from .tables import cut

FIRST_LINES, LAST_LINES = 3, 3
MOST_HEADINGS = 12
LONGEST_LINE = 120
LONGEST_HEADING = 80
LOOKED_AT = 50
LONGEST_KEPT = 2_000
BEGINNING = 8_000

_MARKS = re.compile(r"^(?:```|#{1,6} +\S[^\n]*)", re.MULTILINE)
_TAG = re.compile(r"<h([1-3])\b[^>]{0,200}>(.{0,200}?)</h\1>", re.IGNORECASE | re.DOTALL)
_TITLE = re.compile(r"<title\b[^>]{0,200}>(.{0,200}?)</title>", re.IGNORECASE | re.DOTALL)
_MARKUP = re.compile(r"<[^>]*>")
_NAMES = "TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL"
_LEVEL = re.compile(rf"^[^\n]{{0,80}}?\b({_NAMES})\b", re.IGNORECASE | re.MULTILINE)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\b\d\d:\d\d:\d\d\b")
_UNREADABLE = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\ufffd]")


class Reading:
    """A text that is being read. `feed` it pieces, then ask for the `summary`."""

    def __init__(self) -> None:
        self.chars = 0
        self.beginning = ""
        self._newlines = 0
        self._rest = ""
        self._tail = ""
        self._looked_at: list[str] = []
        self._headings: list[str] = []
        self._levels: dict[str, int] = {}
        self._fenced = False

    def feed(self, piece: str) -> None:
        self.chars += len(piece)
        self._newlines += piece.count("\n")
        if len(self.beginning) < BEGINNING:
            self.beginning += piece[: BEGINNING - len(self.beginning)]
        self._tail = (self._tail + piece)[-LONGEST_KEPT * LAST_LINES :]
        whole, _, rest = (self._rest + piece).rpartition("\n")
        # Of a line that does not end, the beginning will do.
        self._rest = rest[:LONGEST_KEPT]
        if whole:
            self._lines(whole)

    def _lines(self, lines: str) -> None:
        """Whole ones."""
        missing = LOOKED_AT - len(self._looked_at)
        if missing > 0 or _is_log(self._looked_at):
            self._count_levels(lines)
        if missing > 0:
            self._looked_at += [line[:LONGEST_KEPT] for line in lines.split("\n", missing)[:missing]]
        if len(self._headings) < MOST_HEADINGS and ("#" in lines or "```" in lines):
            self._find_headings(lines)

    def _find_headings(self, lines: str) -> None:
        for mark in _MARKS.finditer(lines):
            if mark[0] == "```":
                self._fenced = not self._fenced
            elif not self._fenced and len(self._headings) < MOST_HEADINGS:
                self._headings.append(cut(mark[0], LONGEST_HEADING))

    def _count_levels(self, lines: str) -> None:
        for found, count in Counter(_LEVEL.findall(lines)).items():
            name = found.upper()
            name = "WARNING" if name == "WARN" else name
            self._levels[name] = self._levels.get(name, 0) + count

    @property
    def lines(self) -> int:
        """A line break at the end begins no line."""
        return self._newlines + (not self._tail.endswith("\n") and bool(self.chars))

    def summary(self) -> dict[str, Any]:
        rest, self._rest = self._rest, ""
        if rest:
            self._lines(rest)
        form = self._form()
        found: dict[str, Any] = {
            "kind": "text",
            "format": form,
            "char_count": self.chars,
            "line_count": self.lines,
            **self._details(form),
        }
        if form != "binary":
            found["first_lines"] = [cut(line, LONGEST_LINE) for line in self._filled()[:FIRST_LINES]]
            if self.lines > FIRST_LINES:
                last = [line for line in self._tail.split("\n") if line.strip()][-LAST_LINES:]
                found["last_lines"] = [cut(line, LONGEST_LINE) for line in last]
        return found

    def _details(self, form: str) -> dict[str, Any]:
        if form == "html":
            return _of_html(self.beginning)
        if form == "csv":
            return {"row_count": max(0, self.lines - 1), **csv_columns(self._filled())}
        if form == "markdown":
            return {"headings": self._headings}
        return {"levels": self._levels} if form == "log" else {}

    def _filled(self) -> list[str]:
        return [line for line in self._looked_at if line.strip()]

    def _form(self) -> str:
        """binary, html, log, csv, markdown or plain, by its beginning and what was counted."""
        if len(_UNREADABLE.findall(self.beginning)) * 50 > len(self.beginning):
            return "binary"
        start = self.beginning.lstrip()[:200].lower()
        if start.startswith(("<!doctype html", "<html")) or "<body" in start or "<head" in start:
            return "html"
        if _is_log(self._looked_at):
            return "log"
        if separator_of(self._filled()) is not None:
            return "csv"
        return "markdown" if self._headings else "plain"


def _is_log(looked_at: list[str]) -> bool:
    lines = [line[:100] for line in looked_at if line.strip()]
    told = sum(1 for line in lines if _LEVEL.match(line) and _TIME.search(line, 0, 60))
    return len(lines) >= 3 and told * 2 >= len(lines)


def _of_html(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    title = _TITLE.search(text)
    if title is not None:
        found["title"] = _stripped(title[1])
    headings = [_stripped(match[2]) for match in _TAG.finditer(text)]
    if headings:
        found["headings"] = headings[:MOST_HEADINGS]
    return found


def _stripped(markup: str) -> str:
    return cut(" ".join(_MARKUP.sub("", markup).split()), LONGEST_HEADING)
