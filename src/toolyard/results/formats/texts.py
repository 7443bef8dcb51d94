"""Scans a text piece by piece, in constant memory: its format, and what a summary should say of it.

Every pass over a piece is one regular expression or one method of `bytes`; only the first lines are
looked at one by one. No expression visits a letter more than a few times, whatever the text is: runs of
letters are possessive. (Groups are not: before Python 3.11.5 possessive groups are wrong.)
"""

import re
from collections import Counter
from itertools import islice
from typing import Any

from .json_parts import Buffer
from .tables import csv_columns, cut, separator_of

FIRST_LINES, LAST_LINES = 3, 3
MOST_HEADINGS = 12
LONGEST_LINE = 120
LONGEST_HEADING = 80
LONGEST_TAGGED = 200
"""The longest text between two tags that may be a heading."""
LINES_LOOKED_AT = 50
LONGEST_KEPT = 2_000
BEGINNING = 8_000

_MARKS = re.compile(r"^(?:```|#{1,6} ++\S[^\n]*+)", re.MULTILINE)
_TAG = re.compile(r"<h([1-3])\b[^<>]*+>((?:[^<]++|<(?!/?h[1-3]\b)){0,200})</h\1>", re.IGNORECASE)
_TITLE = re.compile(r"<title\b[^<>]*+>((?:[^<]++|<(?!/?title\b)){0,200})</title>", re.IGNORECASE)
_TAGS = "html|head|body|title|meta|div|p|h[1-6]|table|ul|ol|section|article|main|header|nav|form|span|a|img"
_HTML = re.compile(
    rf"\s*+(?:<\?xml[^>]*+>\s*+|<!--(?:[^-]++|-(?!->))*-->\s*+)*<(?:!doctype html|(?:{_TAGS})[\s/>])", re.I
)
_MARKUP = re.compile(r"<[^<>]*+>")
_NAMES = r"(?:trace|debug|info|notice|warn(?:ing)?|error|critical|fatal)\b"
# Matching lower-cased text word by word takes a third of the time of a search at every character.
_LEVEL = re.compile(rf"^[^a-z_\n]*+(?:(?!{_NAMES})[a-z_]\w*+[^a-z_\n]*+){{0,12}}({_NAMES})", re.MULTILINE)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\b\d\d:\d\d:\d\d\b")
_UNREADABLE = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\ufffd]")


class TextScanner:
    """Scans a text. Call `feed` with its pieces, then `summary`."""

    def __init__(self) -> None:
        self.chars = 0
        self.beginning = ""
        self._newlines = 0
        self._rest = ""
        self._tail = ""
        self._looked_at: list[str] = []
        self._rows = 0
        self._quoted = False
        self._headings: list[str] = []
        self._title = ""
        self._levels: dict[str, int] = {}
        self._may_be_log = True
        self._fenced = False

    def feed(self, piece: str) -> None:
        self.chars += len(piece)
        newlines = piece.count("\n")
        self._newlines += newlines
        self._rows += newlines if '"' not in piece and not self._quoted else self._unquoted(piece)
        if len(self.beginning) < BEGINNING:
            self.beginning += piece[: BEGINNING - len(self.beginning)]
        self._tail = (self._tail + piece)[-LONGEST_KEPT * LAST_LINES :]
        whole, _, rest = (self._rest + piece).rpartition("\n")
        # The beginning of a very long line is enough.
        self._rest = rest[:LONGEST_KEPT]
        if whole:
            self._lines(whole)

    def _unquoted(self, piece: str) -> int:
        """Counts line breaks outside of quotes: cells of a table may contain line breaks."""
        parts = piece.split('"')
        outside = parts[self._quoted :: 2]
        self._quoted ^= len(parts) % 2 == 0
        return "".join(outside).count("\n")

    def _lines(self, lines: str) -> None:
        """Scans whole lines."""
        if self._may_be_log:
            self._count_levels(lines)
        missing = LINES_LOOKED_AT - len(self._looked_at)
        if missing > 0:
            self._looked_at += [line[:LONGEST_KEPT] for line in lines.split("\n", missing)[:missing]]
            self._may_be_log = len(self._looked_at) < LINES_LOOKED_AT or _is_log(self._looked_at)
        if len(self._headings) < MOST_HEADINGS:
            if _HTML.match(self.beginning):
                self._find_tags(lines)
            elif "#" in lines or "```" in lines:
                self._find_headings(lines)

    def _find_headings(self, lines: str) -> None:
        for mark in _MARKS.finditer(lines):
            if mark[0] == "```":
                self._fenced = not self._fenced
            elif not self._fenced:
                self._headings.append(cut(mark[0], LONGEST_HEADING))
                if len(self._headings) == MOST_HEADINGS:
                    break

    def _find_tags(self, markup: str) -> None:
        if not self._title and (title := _TITLE.search(markup)):
            self._title = _stripped(title[1][: LONGEST_TAGGED * 2])
        found = (tag[2] for tag in _TAG.finditer(markup))
        short = (words for words in found if len(words) <= LONGEST_TAGGED)
        self._headings += map(_stripped, islice(short, MOST_HEADINGS - len(self._headings)))

    def _count_levels(self, lines: str) -> None:
        for found, count in Counter(_LEVEL.findall(lines.lower())).items():
            name = found.upper()
            name = "WARNING" if name == "WARN" else name
            self._levels[name] = self._levels.get(name, 0) + count

    @property
    def lines(self) -> int:
        """The number of lines; a line break at the end does not begin another one."""
        return self._newlines + 1 - self._ends

    @property
    def _ends(self) -> bool:
        """Whether the text ends with a line break or is empty."""
        return self._tail.endswith("\n") or not self.chars

    def _finish(self) -> None:
        rest, self._rest = self._rest, ""
        if rest:
            self._lines(rest)

    def separator(self) -> str | None:
        """Returns the separator of the cells if the text is a table."""
        self._finish()
        return separator_of(self._filled()) if self._form() == "csv" else None

    def summary(self) -> dict[str, Any]:
        self._finish()
        form = self._form()
        found: dict[str, Any] = {
            "kind": "text",
            "format": form,
            "char_count": self.chars,
            "line_count": self.lines,
            **self._details(form),
        }
        if form != "binary":
            found["first_lines"] = _shown(self._filled()[:FIRST_LINES])
            if self.lines > FIRST_LINES:
                last = [line for line in self._tail.split("\n") if line.strip()][-LAST_LINES:]
                found["last_lines"] = _shown(last)
        return found

    def _details(self, form: str) -> dict[str, Any]:
        if form == "html":
            if not self._title and not self._headings:  # the whole text may be one line
                self._find_tags(self.beginning)
            told = {"title": self._title, "headings": self._headings}
            return {name: value for name, value in told.items() if value}
        if form == "csv":
            return {"row_count": self._row_count(), **csv_columns(self._filled())}
        if form == "markdown":
            return {"headings": self._headings}
        return {"levels": self._levels} if form == "log" else {}

    def _row_count(self) -> int:
        """Counts the rows without the header. After an unclosed quote, quotes count as plain characters."""
        return max(0, (self._newlines if self._quoted else self._rows) - self._ends)

    def _filled(self) -> list[str]:
        return [line for line in self._looked_at if line.strip()]

    def _form(self) -> str:
        """Returns binary, html, log, csv, markdown or plain."""
        if len(_UNREADABLE.findall(self.beginning)) * 50 > len(self.beginning):
            return "binary"
        if _HTML.match(self.beginning):
            return "html"
        if _is_log(self._looked_at):
            return "log"
        if separator_of(self._filled()) is not None:
            return "csv"
        return "markdown" if self._headings else "plain"


def separator_in(body: Buffer) -> str | None:
    """Returns the separator of a text that its summary calls a table; None for any other text."""
    end = at = 0
    whole = bytes(body)
    for _ in range(LINES_LOOKED_AT):
        at = whole.find(b"\n", at) + 1
        end = at or len(whole)
        if not at:
            break
    reading = TextScanner()
    # Decide from the same lines and characters as a summary does.
    reading.feed(whole[: max(end, BEGINNING * 4)].decode("utf-8", "replace"))
    return reading.separator()


def _shown(lines: list[str]) -> list[str]:
    return [cut(line.rstrip("\r"), LONGEST_LINE) for line in lines]


def _is_log(looked_at: list[str]) -> bool:
    lines = [line[:100] for line in looked_at if line.strip()]
    told = sum(1 for line in lines if _LEVEL.match(line.lower()) and _TIME.search(line, 0, 60))
    return len(lines) >= 3 and told * 2 >= len(lines)


def _stripped(markup: str) -> str:
    return cut(" ".join(_MARKUP.sub("", markup).split()), LONGEST_HEADING)
