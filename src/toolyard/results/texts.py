"""Texts line by line, as they come: what form they have, and what is worth knowing of each form.

`Reading` takes a text in pieces, in constant memory.
"""

import csv
import io
import re
from collections import deque
from typing import Any

from .tables import columns_of

FIRST_LINES, LAST_LINES = 3, 3
MOST_HEADINGS = 12
LONGEST_LINE = 120
LOOKED_AT = 50
LONGEST_KEPT = 2_000
MOST_COLUMNS = 200

_HEADING = re.compile(r"#{1,6} +\S")
_TAG = re.compile(r"<h([1-3])[^>]*>(.*?)</h\1>", re.IGNORECASE)
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE)
_MARKUP = re.compile(r"<[^>]+>")
_LEVEL = re.compile(r"\b(TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\b", re.IGNORECASE)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\b\d\d:\d\d:\d\d\b")


def cut(line: str, most: int = LONGEST_LINE) -> str:
    return line if len(line) <= most else line[: most - 1] + "…"


class Reading:
    """A text that is being read. `feed` it pieces, then ask for the `summary`."""

    def __init__(self) -> None:
        self.chars = 0
        self.newlines = 0
        self.beginning = ""
        self._rest = ""
        self._looked_at: list[str] = []
        self._last: deque[str] = deque(maxlen=LAST_LINES)
        self._headings: list[str] = []
        self._levels: dict[str, int] = {}
        self._fenced = False
        self._ends_open = False

    def feed(self, piece: str) -> None:
        self.chars += len(piece)
        self.newlines += piece.count("\n")
        if len(self.beginning) < LONGEST_KEPT * 4:
            self.beginning += piece[: LONGEST_KEPT * 4 - len(self.beginning)]
        lines = (self._rest + piece).split("\n")
        # Of a line that does not end, the beginning will do.
        self._rest = lines.pop()[:LONGEST_KEPT]
        for line in lines:
            self._line(line)

    def _line(self, line: str) -> None:
        if len(self._looked_at) < LOOKED_AT:
            self._looked_at.append(line[:LONGEST_KEPT])
        if line.strip():
            self._last.append(cut(line))
        if line.startswith("```"):
            self._fenced = not self._fenced
        if not self._fenced and len(self._headings) < MOST_HEADINGS and _HEADING.match(line):
            self._headings.append(cut(line, 80))
        level = _LEVEL.search(line, 0, 80)
        if level is not None:
            name = level[1].upper()
            name = "WARNING" if name == "WARN" else name
            self._levels[name] = self._levels.get(name, 0) + 1

    @property
    def lines(self) -> int:
        return self.newlines + bool(self.chars and not self._ends_open)

    def summary(self) -> dict[str, Any]:
        if self._rest:
            self._line(self._rest)
            self._rest = ""
        form = self.form()
        found: dict[str, Any] = {
            "kind": "text",
            "format": form,
            "char_count": self.chars,
            "line_count": self.newlines + 1 if self.chars else 0,
        }
        if form == "html":
            found |= _of_html(self.beginning)
        elif form == "csv":
            found |= self._of_csv()
        elif self._headings and form == "markdown":
            found["headings"] = self._headings
        if form == "log":
            found["levels"] = self._levels
        found["first_lines"] = [cut(line) for line in self._looked_at if line.strip()][:FIRST_LINES]
        if self.newlines >= FIRST_LINES:
            found["last_lines"] = list(self._last)
        return found

    def form(self) -> str:
        """html, csv, log, markdown or plain, by its beginning and what was counted."""
        start = self.beginning.lstrip()[:200].lower()
        if start.startswith(("<!doctype html", "<html")) or ("<body" in start or "<head" in start):
            return "html"
        lines = [line for line in self._looked_at if line.strip()]
        if _is_log(lines):
            return "log"
        if dialect_of(lines) is not None:
            return "csv"
        if self._headings:
            return "markdown"
        return "plain"

    def _of_csv(self) -> dict[str, Any]:
        lines = [line for line in self._looked_at if line.strip()]
        separator = dialect_of(lines)
        assert separator is not None
        rows = list(csv.reader(io.StringIO("\n".join(lines)), delimiter=separator))
        names = rows[0][:MOST_COLUMNS]
        records = [{name: _typed(cell) for name, cell in zip(names, row, strict=False)} for row in rows[1:]]
        columns = columns_of(records)
        return {
            "row_count": max(0, self.newlines + 1 - 1 - (1 if self.beginning.endswith("\n") else 0)),
            "sample_columns": names[:15],
            "columns": columns,
        }


def _is_log(lines: list[str]) -> bool:
    told = sum(1 for line in lines if _LEVEL.search(line, 0, 80) and _TIME.search(line, 0, 60))
    return len(lines) >= 3 and told >= len(lines) * 0.5


def dialect_of(lines: list[str]) -> str | None:
    """The separator of a table in text, or None: every line has as many cells, and the first has names."""
    if len(lines) < 3:
        return None
    for separator in (",", "\t", ";"):
        try:
            rows = list(csv.reader(io.StringIO("\n".join(lines[:20])), delimiter=separator))
        except csv.Error:
            continue
        widths = {len(row) for row in rows}
        names = rows[0]
        if len(widths) == 1 and len(names) > 1 and len(set(names)) == len(names) and all(map(_names, names)):
            return separator
    return None


def _names(cell: str) -> bool:
    return 0 < len(cell.strip()) <= 60 and not isinstance(_typed(cell), int | float)


def _typed(cell: str) -> Any:
    cell = cell.strip()
    if not cell:
        return None
    for kind in (int, float):
        try:
            return kind(cell)
        except ValueError:
            continue
    return cell


def _of_html(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    title = _TITLE.search(text)
    if title is not None:
        found["title"] = cut(_MARKUP.sub("", title[1]).strip(), 80)
    headings = [cut(_MARKUP.sub("", match[2]).strip(), 80) for match in _TAG.finditer(text)]
    if headings:
        found["headings"] = headings[:MOST_HEADINGS]
    return found
