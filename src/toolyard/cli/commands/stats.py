"""`toolyard stats`: how much tools returned, and how much of it was sent to models."""

import sqlite3
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..configuration import loader
from ..ui.messages import CommandError, hint, is_terminal, one_line
from ..ui.output import print_json
from .options import config_option, json_option

if TYPE_CHECKING:
    from ...telemetry.usage import UsageRow


@click.command("stats", short_help="How much tools returned, and how much models were sent.")
@click.option(
    "--by",
    type=click.Choice(["tool", "server", "agent", "tenant", "day", "config"]),
    default="tool",
    show_default=True,
    help="What to group by.",
)
@click.option("--days", type=click.IntRange(1, 400), default=7, show_default=True, help="How many days back.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="How many rows.")
@click.option("--all", "everything", is_flag=True, help="Other configurations of this state folder too.")
@config_option
@json_option
def command(by: str, days: int, limit: int, everything: bool, config: Path | None, as_json: bool) -> None:
    """Show how much tools returned and how much of it went on to models, as the gateway counted it.

    It is that of this configuration; with --all, or where there is none, of every one. Tokens are estimated.
    The figures are added to a file in the gateway's state folder every few seconds.
    """
    from ...config import Config
    from ...config.files import config_identity, state_folder
    from ...telemetry.usage import usage_rows

    file = loader.config_file(None, config)
    settings = Config() if file is None else loader.load_config(file)
    own = None if everything or file is None else config_identity(settings)
    folder = state_folder(settings)
    if folder is None:
        raise CommandError("there is no state folder to read from", "set state_dir in [gateway]")
    try:
        found = usage_rows(folder, by, days, own)
        others = not found and own is not None and bool(usage_rows(folder, by, days))
    except sqlite3.Error as error:
        raise CommandError(f"{folder / 'ledger.db'} cannot be read: {error}") from None
    if as_json:
        print_json([_object(row) for row in found[:limit]])
        return
    if not found:
        click.echo(f"Nothing was counted in the last {days} days.")
        if others:
            hint("other configurations have been counted; --all shows them too")
        return
    click.echo(_headline(found, days))
    shown = [_cells(row) for row in found[:limit]]
    _draw(by, shown) if is_terminal(sys.stdout) else _align(by, shown)
    if len(found) > limit:
        click.echo(f"… and {len(found) - limit} more")


def _object(row: "UsageRow") -> dict[str, object]:
    return {
        "name": row.name,
        "calls": row.calls,
        "bytes_in": row.received,
        "bytes_out": row.sent,
        "tokens_in": row.tokens_received,
        "tokens_out": row.tokens_sent,
    }


def _headline(found: "list[UsageRow]", days: int) -> str:
    came, went = sum(row.received for row in found), sum(row.sent for row in found)
    when = {1: "Today", 7: "This week"}.get(days, f"In the last {days} days")
    calls = sum(row.calls for row in found)
    counted = f"{calls:,} call{'' if calls == 1 else 's'}"
    return f"{when} {_size(came)} became {_size(went)}, in {counted}."


_HEADINGS = ("calls", "came", "went on", "tokens saved", "kept out")


def _cells(row: "UsageRow") -> tuple[str, ...]:
    saved = max(0, row.tokens_received - row.tokens_sent)
    share = 0 if not row.received else max(0.0, 1 - row.sent / row.received)
    name = one_line(row.name)
    return name, f"{row.calls:,}", _size(row.received), _size(row.sent), f"{saved:,}", f"{share:.0%}"


def _size(count: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} B"


def _align(by: str, rows: list[tuple[str, ...]]) -> None:
    table = [(by, *_HEADINGS), *rows]
    widths = [max(len(row[at]) for row in table) for at in range(len(table[0]))]
    for first, *rest in table:
        cells = [f"{cell:>{width}}" for cell, width in zip(rest, widths[1:], strict=True)]
        click.echo("  ".join([f"{first:<{widths[0]}}", *cells]))


def _draw(by: str, rows: list[tuple[str, ...]]) -> None:
    from rich.console import Console  # 20 ms of CPU, and only a terminal needs it
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 0, 0, 2))
    table.add_column(by, style="cyan", overflow="fold")
    for heading in _HEADINGS:
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console(highlight=False).print(table)
