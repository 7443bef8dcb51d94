"""`toolyard stats`: how much tools returned, how much of it was sent to models, and what happened besides."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..configuration import loader
from ..ui.messages import CommandError, hint, one_line
from ..ui.output import print_json
from ..ui.tables import format_size, print_table
from .options import config_option, json_option

if TYPE_CHECKING:
    from ...telemetry.usage import EventRow, UsageRow

EVENT = "event"


@click.command("stats", short_help="Show how much tools returned and models received.")
@click.option(
    "--by",
    type=click.Choice(["tool", "server", "agent", "tenant", "day", "config", EVENT]),
    default="tool",
    show_default=True,
    help="What to group by; event: only what else happened, as sessions and uploads.",
)
@click.option("--days", type=click.IntRange(1, 400), default=7, show_default=True, help="How many days back.")
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="How many rows.")
@click.option(
    "--all", "everything", is_flag=True, help="Include other configurations with the same state folder."
)
@config_option
@json_option
def command(by: str, days: int, limit: int, everything: bool, config: Path | None, as_json: bool) -> None:
    """Show how much tools returned through the gateway, and how much of it was sent to models.

    Below it, the events that the log tells of: sessions, searches that fell back, results, uploads.

    Counts this configuration; with --all, or without a configuration, all of them. Tokens are estimated.
    A running gateway writes the figures to its state folder every few seconds.
    """
    from ...config import Config
    from ...config.files import config_identity, state_folder
    from ...sqlite_file import explain_fault
    from ...telemetry.usage import event_rows, usage_rows

    file = loader.config_file(None, config)
    settings = Config() if file is None else loader.load_config(file)
    own = None if everything or file is None else config_identity(settings)
    folder = state_folder(settings)
    if folder is None:
        raise CommandError("no state folder", "set state_dir in [gateway]")
    try:
        events = event_rows(folder, days, own)
        found = [] if by == EVENT else usage_rows(folder, by, days, own)
        others = not found and own is not None and bool(usage_rows(folder, "tool", days))
    except sqlite3.Error as error:
        fault = explain_fault(error, folder / "ledger.db")
        raise CommandError(f"{folder / 'ledger.db'} cannot be read: {fault.reason}", fault.hint) from None
    if as_json:
        print_json(
            [_event(row) for row in events[:limit]] if by == EVENT else list(map(_object, found[:limit]))
        )
        return
    if by != EVENT:
        _print_usage(found, by, days, limit, others)
    elif not events:
        click.echo(f"No events in the last {days} days.")
    if events:
        if by != EVENT:
            click.echo()
        _print_events(events, limit)


def _print_usage(found: "list[UsageRow]", by: str, days: int, limit: int, others: bool) -> None:
    if not found:
        click.echo(f"No calls in the last {days} days.")
        if others:
            hint("--all shows other configurations, which have calls")
        return
    click.echo(_headline(found, days))
    print_table((by, *_HEADINGS), [_cells(row) for row in found[:limit]], numbers=True)
    _print_rest(found, limit)


def _print_events(events: "list[EventRow]", limit: int) -> None:
    print_table(
        ("event", "server", "reason", "count", "bytes"), [_event_cells(row) for row in events[:limit]]
    )
    _print_rest(events, limit)


def _print_rest(rows: Sequence[object], limit: int) -> None:
    if len(rows) > limit:
        click.echo(f"… and {len(rows) - limit} more")


def _event(row: "EventRow") -> dict[str, object]:
    named = {"event": row.event, "server": row.server, "reason": row.reason}
    return {**named, "count": row.count, **row.sizes}


def _event_cells(row: "EventRow") -> tuple[str, ...]:
    sizes = " → ".join(format_size(size) for size in row.sizes.values())
    names = (row.event.replace("_", " "), one_line(row.server), row.reason)
    return (*names, f"{row.count:,}", sizes)


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
    return f"{when} {format_size(came)} became {format_size(went)}, in {counted}."


_HEADINGS = ("calls", "received", "sent", "tokens saved", "saved")


def _cells(row: "UsageRow") -> tuple[str, ...]:
    saved = max(0, row.tokens_received - row.tokens_sent)
    share = 0 if not row.received else max(0.0, 1 - row.sent / row.received)
    name = one_line(row.name)
    return (
        name,
        f"{row.calls:,}",
        format_size(row.received),
        format_size(row.sent),
        f"{saved:,}",
        f"{share:.0%}",
    )
