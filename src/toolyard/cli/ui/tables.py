"""Text laid out for the output: widths, wrapping, tables, counts and sizes.

Output is as wide as the terminal. In a pipe it is 120 characters wide, so that it is the same everywhere.
"""

import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence

import click

from .messages import is_terminal, one_line, printable

PIPE_WIDTH = 120
MIN_WIDTH = 20
MIN_TEXT = 10
"""Columns that a description needs to be worth showing."""
SECTIONS = {
    "tools": "Tools",
    "resources": "Resources",
    "resourceTemplates": "Resource templates",
    "prompts": "Prompts",
}
# A full stop that ends a sentence, not an abbreviation.
_ABBREVIATED = r"(?<!\be\.g)(?<!\bi\.e)(?<!\betc)(?<!\bcf)(?<!\bvs)"
_SENTENCE_END = re.compile(rf"{_ABBREVIATED}[.!?](?=\s+[^a-z\s])|[\u3002\uff01\uff1f]")


class TextLayout:
    """The width of the output, and the width of a text on it."""

    def __init__(self) -> None:
        self._cells: Callable[[str], int] = len
        self.width = PIPE_WIDTH
        if is_terminal(sys.stdout):
            from rich.cells import cell_len  # 20 ms of CPU, and only a terminal needs it

            self._cells = cell_len
            self.width = max(MIN_WIDTH, shutil.get_terminal_size().columns)

    def padded(self, text: str, width: int) -> str:
        return text + " " * (width - self._cells(text))

    def measure(self, text: str) -> int:
        return self._cells(text)

    def cut(self, text: str, room: int) -> str:
        """Cut the text to `room` columns."""
        if self._cells(text) <= room:
            return text
        kept = text[: max(0, room - 1)]
        while kept and self._cells(kept) > room - 1:
            kept = kept[:-1]
        return f"{kept.rstrip()}…"

    def folded(self, text: str, room: int) -> list[str]:
        """Wrap a cell; blanks at its beginning stay."""
        indent = text[: len(text) - len(text.lstrip())]
        return self._parts(text, room, indent[: room // 2]) if text else [""]

    def wrapped(self, text: str, indent: int) -> list[str]:
        """Wrap a text, indented by `indent`; its own line breaks stay."""
        room = max(MIN_WIDTH, self.width - indent)
        given = printable(text).strip().split("\n")
        lines = [part for line in given for part in self._parts(line, room, _indent(line))]
        return [f"{' ' * indent}{line}".rstrip() for line in lines]

    def _parts(self, line: str, room: int, indent: str) -> list[str]:
        parts = textwrap.wrap(line.rstrip(), room, subsequent_indent=indent) or [""]
        if all(self._cells(part) <= room for part in parts):
            return parts
        # Letters of double width: a line of textwrap may be two on the terminal.
        return textwrap.wrap(line.rstrip(), max(1, room // 2)) or [""]


def _indent(line: str) -> str:
    return line[: min(len(line) - len(line.lstrip()), MIN_WIDTH // 2)]


def print_table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    numbers: bool = False,
    last_style: Callable[[str], str] = lambda cell: "",
) -> None:
    """Print a table; `numbers` aligns all columns but the first to the right."""
    if is_terminal(sys.stdout):
        _draw_table(headings, rows, numbers, last_style)
        return
    widths = [max(len(row[column]) for row in (headings, *rows)) for column in range(len(headings))]
    for first, *rest in (headings, *rows):
        cells = [
            f"{cell:>{width}}" if numbers else f"{cell:<{width}}"
            for cell, width in zip(rest, widths[1:], strict=True)
        ]
        click.echo("  ".join([f"{first:<{widths[0]}}", *cells]).rstrip())


def _draw_table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    numbers: bool,
    last_style: Callable[[str], str],
) -> None:
    from rich.console import Console  # 20 ms of CPU, and only a terminal needs it
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for column, heading in enumerate(headings):
        first = column == 0
        table.add_column(
            heading,
            overflow="fold",
            style="cyan" if first else "",
            justify="right" if numbers and not first else "left",
        )
    for *cells, last in rows:
        table.add_row(*map(Text, cells), Text(last, last_style(last)))
    Console(highlight=False).print(table)


def first_sentence(description: str) -> str:
    """The first sentence of a description, on one line."""
    text = one_line(description)
    end = _SENTENCE_END.search(text)
    return text[: end.end()] if end else text


def counted(number: int, things: str) -> str:
    """`1 tool`, `2 tools`."""
    return f"{number} {things.removesuffix('s') if number == 1 else things}"


def format_size(count: int) -> str:
    """`512 B`, `1.5 kB`, `12.3 MB`."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= 0.9995 * size:  # 999,600 would be `1e+03 kB`
            return f"{count / size:.3g} {unit}"
    return f"{count} B"
