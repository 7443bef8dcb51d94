"""`toolyard audit`: shows who called what, checks that nothing was changed, and removes what is old."""

import asyncio
import os
import re
import sys
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ...file_access import is_missing
from ...wire.seal import KEY_VARIABLE
from ..configuration import loader
from ..serving.session_key import session_key
from ..ui.messages import CommandError, hint, is_terminal, one_line, printable
from ..ui.output import print_json
from ..ui.tables import counted, format_size, print_table
from .options import config_option, json_option

if TYPE_CHECKING:
    from ...audit.query import FoundRecord, RecordFilter
    from ...audit.store import AuditStore
    from ...audit.verify import AuditReport
    from ...config import Config

T = TypeVar("T")
DAMAGED = 1
_AGO = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d|w)")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_STYLES = {
    "ok": "green",
    "asked": "green",
    "tool_error": "yellow",
    "cancelled": "yellow",
    "error": "red",
    "refused": "red",
}
_HEADINGS = ("time (UTC)", "user", "agent", "tool", "rule", "ms", "received", "sent", "outcome")


class _Moment(click.ParamType[datetime]):
    name = "when"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        if ago := _AGO.fullmatch(value):
            return datetime.now(UTC) - timedelta(seconds=float(ago[1]) * _UNITS[ago[2]])
        try:
            given = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is neither as in 90s, 15m, 1h, 7d nor as in 2026-11-16T12:00")
        return given if given.tzinfo is not None else given.replace(tzinfo=UTC)


WHEN = _Moment()


def _key_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--key-file",
        "key_files",
        type=click.Path(path_type=Path, dir_okay=False, exists=True),
        multiple=True,
        metavar="FILE",
        help="A key that the gateway signs or signed with; may be repeated. Default: the gateway's own.",
    )(command)


@click.group("audit", invoke_without_command=True, short_help="Show who called what; check the record.")
@click.option("--agent", metavar="NAME", default="", help="Only calls of this agent; * and ? stand for text.")
@click.option("--user", metavar="NAME", default="", help="Only calls of this user.")
@click.option("--tenant", metavar="NAME", default="", help="Only calls of this tenant.")
@click.option("--tool", metavar="NAME", default="", help="Only this tool, SERVER/TOOL or method.")
@click.option(
    "--outcome",
    type=click.Choice(["ok", "tool_error", "error", "refused", "asked", "cancelled"]),
    default=None,
    help="Only calls that ended like this.",
)
@click.option("--arguments", metavar="JSON", help="Only calls with these arguments, by their digest.")
@click.option("--since", type=WHEN, metavar="WHEN", help="From then on: 15m, 1h, 7d, or a date and time.")
@click.option("--until", type=WHEN, metavar="WHEN", help="Before then.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="How many, the newest.")
@click.option("--follow", "-f", is_flag=True, help="Go on with new records until Ctrl-C.")
@_key_option
@config_option
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    agent: str,
    user: str,
    tenant: str,
    tool: str,
    outcome: str | None,
    arguments: str | None,
    since: datetime | None,
    until: datetime | None,
    limit: int,
    follow: bool,
    key_files: tuple[Path, ...],
    config: Path | None,
    as_json: bool,
) -> None:
    """Show the newest records of the audit: who called what, by which rule, and how it ended.

    With --json, each record is one line, as it is stored.
    """
    if ctx.invoked_subcommand is not None:
        return
    from ...audit.query import RecordFilter
    from ...audit.record import ArgumentPolicy

    digest = ""
    if arguments is not None:
        keys = _keys(key_files)
        if not keys:
            raise CommandError("digests need the gateway's key", f"set {KEY_VARIABLE} or give --key-file")
        digest = ArgumentPolicy("digest", keys[0]).digest_of(arguments.encode())
    wanted = RecordFilter(
        agent=agent,
        user=user,
        tenant=tenant,
        tool=tool,
        outcome=outcome or "",
        arguments_digest=digest,
        since=since,
        until=until,
    )
    settings = _settings(config)
    _run(settings, None, lambda store: _show(store, wanted, limit, follow, as_json))


@command.command("verify", short_help="Check that no record was changed or removed.")
@_key_option
@config_option
@json_option
def verify_command(key_files: tuple[Path, ...], config: Path | None, as_json: bool) -> None:
    """Check every chain of the audit. Names each file, line and kind of damage, and exits with 1 then."""
    from ...audit.chain import ChainKey
    from ...audit.verify import verify

    keys = [ChainKey(key) for key in _keys(key_files)]
    report = _run(_settings(config), None, lambda store: verify(store, keys))
    if as_json:
        print_json(_report_object(report))
    else:
        _print_report(report)
    if not report.is_intact:
        raise SystemExit(DAMAGED)


@command.command("prune", short_help="Remove old records.")
@click.option(
    "--before",
    type=WHEN,
    metavar="WHEN",
    help="Records older than this: 30d, or a date. Default: `keep` of the file.",
)
@config_option
@json_option
def prune_command(before: datetime | None, config: Path | None, as_json: bool) -> None:
    """Remove old records now, in whole files or in order. A running gateway does so every hour.

    The journal of retention notes what was removed, so that `verify` still passes.
    """
    settings = _settings(config)
    moment = time.time() - settings.audit.keep if before is None else before.timestamp()
    removed = _run(settings, session_key(None), lambda store: store.prune(moment))
    if as_json:
        print_json([{"chain": one.last.chain, "last": one.last.seq, "lines": one.lines} for one in removed])
        return
    total = sum(one.lines for one in removed)
    click.echo(
        f"Removed {total:,} lines of {counted(len(removed), 'chains')}." if removed else "Nothing to remove."
    )


def _settings(config: Path | None) -> "Config":
    file = loader.config_file(None, config)
    if file is None:
        raise CommandError("no configuration, so no [audit]", "give --config FILE")
    settings = loader.load_config(file)
    if not settings.audit.is_on:
        raise CommandError(f"{file} keeps no audit", 'add url = "file:" to [audit]')
    return settings


def _keys(files: tuple[Path, ...]) -> list[bytes]:
    """The keys that are there; a check must not make a new one."""
    from ...config.files import state_home

    if files:
        return [key for file in files if (key := session_key(file)) is not None]
    home = state_home()
    exists = bool(os.environ.get(KEY_VARIABLE)) or (home is not None and not is_missing(home / "key"))
    key = session_key(None) if exists else None
    return [] if key is None else [key]


def _run(settings: "Config", key: bytes | None, work: "Callable[[AuditStore], Coroutine[Any, Any, T]]") -> T:
    from ...audit.chain import ChainKey
    from ...audit.log import open_audit_store
    from ...audit.store import AuditStoreError
    from ...config.files import state_folder

    async def run() -> T:
        store = open_audit_store(settings.audit, state_folder(settings), ChainKey(key))
        try:
            return await work(store)
        finally:
            await store.close()

    try:
        return asyncio.run(run())
    except AuditStoreError as error:
        raise CommandError(error.message, *([error.hint] if error.hint else [])) from None


async def _show(store: "AuditStore", wanted: "RecordFilter", limit: int, follow: bool, as_json: bool) -> None:
    from ...audit.query import current_heads, follow_records, newest_records

    heads = await current_heads(store) if follow else None
    found = await newest_records(store, wanted, limit, heads)
    if as_json:
        _print_lines(found)
    elif found or follow:
        print_table(_HEADINGS, [_cells(one) for one in found], last_style=lambda cell: _STYLES.get(cell, ""))
    else:
        click.echo("No records.")
    if heads is None:
        return
    widths = [max(len(row[column]) for row in (_HEADINGS, *map(_cells, found))) for column in range(9)]
    async for more in follow_records(store, wanted, heads):
        if as_json:
            _print_lines(more)
            continue
        for cells in map(_cells, more):
            widths = [max(width, len(cell)) for width, cell in zip(widths, cells, strict=True)]
            padded = [f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=True)]
            click.echo("  ".join(padded).rstrip())


def _print_lines(found: "list[FoundRecord]") -> None:
    on_terminal = is_terminal(sys.stdout)
    for one in found:  # names are the callers' own words
        click.echo(printable(one.line.decode()) if on_terminal else one.line, nl=False)


def _cells(found: "FoundRecord") -> tuple[str, ...]:
    record = found.record
    tool = f"{record.server}/{record.tool}" if record.server and record.tool else record.tool or record.method
    cells = (
        record.time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S"),
        record.subject or record.credential or "-",
        record.agent or "-",
        tool,
        record.rule or record.decision or "-",
        f"{record.duration_ms:.0f}",
        format_size(record.request_bytes),
        format_size(record.response_bytes),
        record.outcome,
    )
    return tuple(one_line(cell) for cell in cells)


def _report_object(report: "AuditReport") -> dict[str, Any]:
    return {
        "intact": report.is_intact,
        "damages": [
            {"place": damage.place, "kind": damage.kind, "detail": damage.detail} for damage in report.damages
        ],
        "chains": [
            {
                "chain": chain.chain,
                "records": chain.records,
                "lost": chain.lost,
                "first": chain.first,
                "last": None if chain.head is None else chain.head.seq,
                "hash": None if chain.head is None else chain.head.hash,
                "state": chain.state,
            }
            for chain in report.chains
        ],
        "removals": report.pruned,
    }


def _print_report(report: "AuditReport") -> None:
    if report.damages:
        rows = [(damage.place, damage.detail, damage.kind) for damage in report.damages]
        print_table(("where", "what", "damage"), rows, last_style=lambda cell: "red")
    records = sum(chain.records for chain in report.chains)
    state = "intact" if report.is_intact else f"NOT intact: {counted(len(report.damages), 'damages')}"
    click.echo(f"{records:,} records in {counted(len(report.chains), 'chains')}: {state}.")
    lost = sum(chain.lost for chain in report.chains)
    if lost:
        click.echo(f"{lost:,} calls went on without a record, while the store could not be written.")
    for chain in report.chains:
        if chain.state == "torn":
            click.echo(f"{chain.place}: torn. Its process was killed while it wrote this line.")
    still_open = sum(chain.state == "open" for chain in report.chains)
    if still_open:
        click.echo(f"{counted(still_open, 'chains')} not ended: written just now, or the process was killed.")
    if any(damage.kind == "unknown key" for damage in report.damages):
        hint("give earlier keys of the gateway with --key-file")
