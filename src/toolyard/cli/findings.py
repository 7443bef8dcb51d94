"""The servers that `import` found, as a table: drawn on a terminal, aligned text in a pipe."""

import sys

import click

from .printable import is_terminal, one_line

Finding = tuple[str, str, str, str, bool]
"""Name, where it was found, kind, status, and whether it is turned on there."""
HEADINGS = ("name", "where", "kind", "status")
_COLOURS = {"new": "green", "conflict": "yellow", "unusable": "red"}


def print_findings(findings: list[Finding]) -> None:
    rows = [
        tuple(one_line(cell) for cell in (name, where, kind, status if enabled else f"{status} (disabled)"))
        for name, where, kind, status, enabled in findings
    ]
    if is_terminal(sys.stdout):
        _draw(rows)
        return
    widths = [max(len(row[column]) for row in (HEADINGS, *rows)) for column in range(len(HEADINGS))]
    for row in (HEADINGS, *rows):
        click.echo("  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip())


def _draw(rows: list[tuple[str, ...]]) -> None:
    from rich.console import Console  # 20 ms of CPU, and only a terminal needs it
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for heading in HEADINGS:
        table.add_column(heading, overflow="fold", style="cyan" if heading == "name" else "")
    for row in rows:
        colour = _COLOURS.get(row[-1].partition(" ")[0], "")
        table.add_row(*(Text(cell, colour if at == len(row) - 1 else "") for at, cell in enumerate(row)))
    Console(highlight=False).print(table)
