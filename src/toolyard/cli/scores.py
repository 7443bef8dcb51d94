"""What a search found, as a table: a line for each tool, cut to the page."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from .printable import one_line
from .tables import LEAST_TEXT, Page

if TYPE_CHECKING:
    from ..views.meta.answers import Found

Row = tuple[str, ...]
GAP = "  "


def print_found(found: "Sequence[Found]", explain: bool) -> None:
    """Names are never cut, since they are there to be copied; only the descriptions are."""
    if not found:
        return
    page = Page()
    parts = _parts(found) if explain else []
    headings = ("tool", "server", "score", *parts, "what it does")
    rows = [_row(one, parts) for one in found]
    widths = [max(map(page.measure, column)) for column in list(zip(headings, *rows, strict=True))[:-1]]
    room = max(LEAST_TEXT, page.width - sum(widths) - len(GAP) * len(widths))
    click.echo(click.style(_line(headings, widths, page, room), bold=True))
    for row, one in zip(rows, found, strict=True):
        name, rest = _line(row[:1], widths, page, room), _line(row[1:], widths[1:], page, room)
        click.echo(f"{click.style(name, fg='cyan', bold=one.recommended)}{rest}")


def _line(cells: Sequence[str], widths: list[int], page: Page, room: int) -> str:
    """As many cells as are given; the one beyond the last width is the description."""
    padded = [page.padded(cell, width) + GAP for cell, width in zip(cells, widths, strict=False)]
    return "".join([*padded, *(page.cut(cell, room) for cell in cells[len(widths) :])])


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
    state = "" if one.connected else "(not connected) "
    return (
        one_line(one.tool),
        one_line(one.toolkit or one.server),
        f"{one.score:.2f}",
        *shares,
        state + one_line(about),
    )
