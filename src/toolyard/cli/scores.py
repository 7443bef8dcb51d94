"""What a search found, as a table: drawn on a terminal, aligned text in a pipe."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from .printable import is_terminal, one_line

if TYPE_CHECKING:
    from ..views.meta.answers import Found

Row = tuple[str, ...]


def print_found(found: "Sequence[Found]", explain: bool) -> None:
    if not found:
        return
    parts = _parts(found) if explain else []
    headings = ("tool", "server", "score", *parts, "what it does")
    rows = [_row(one, parts) for one in found]
    if is_terminal(sys.stdout):
        _draw(headings, rows, [one.recommended for one in found])
        return
    widths = [max(len(row[column]) for row in (headings, *rows)) for column in range(len(headings))]
    for row in (headings, *rows):
        click.echo("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())


def _parts(found: "Sequence[Found]") -> list[str]:
    """Where the scores came from, the weightiest first."""
    totals: dict[str, float] = {}
    for one in found:
        for name, value in one.parts.items():
            totals[name] = totals.get(name, 0.0) + abs(value)
    return sorted(totals, key=lambda name: -totals[name])


def _row(one: "Found", parts: list[str]) -> Row:
    shares = [f"{one.parts[name]:+.2f}" if name in one.parts else "" for name in parts]
    about = ": ".join(text for text in (one.title, one.description) if text)
    state = "" if one.connected else " (not connected)"
    return (
        one_line(one.tool),
        one_line(one.toolkit or one.server),
        f"{one.score:.2f}",
        *shares,
        one_line(about) + state,
    )


def _draw(headings: Row, rows: list[Row], recommended: list[bool]) -> None:
    from rich.console import Console  # 20 ms of CPU, and only a terminal needs it
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    last = len(headings) - 1
    for at, heading in enumerate(headings):
        style = "cyan" if at == 0 else "dim" if at == 1 else ""
        table.add_column(heading, style=style, justify="right" if 1 < at < last else "left", overflow="fold")
    for row, best in zip(rows, recommended, strict=True):
        table.add_row(*(Text(cell, "bold" if best and at in (0, 2) else "") for at, cell in enumerate(row)))
    Console(highlight=False).print(table)
