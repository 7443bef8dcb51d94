"""`toolyard import`: copy servers from the files of other programs."""

import os
import stat
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from ..config import ConfigError
from ..config.entry import COMMON, SWITCHES, Entry, own_fields, server_config
from ..config.errors import Unusable, Wrong
from ..config.reading import shown
from .editing import Edited, chosen, config_option, failure_of
from .failure import Failure, hint, warn
from .findings import print_findings
from .options import debug_option, json_option
from .places import PROGRAMS, entries_in, places
from .render import print_json
from .secrecy import secrets_in

NEW, SAME, CONFLICT, UNUSABLE = "new", "same", "conflict", "unusable"
_DECIDED = {*COMMON, *SWITCHES}


class Found(Struct, frozen=True):
    """A server in another program's file, and what becomes of it here."""

    name: str
    where: str
    kind: str
    status: str
    fields: dict[str, Any]
    reason: str | None = None
    enabled: bool = True
    """Whether it is turned on where it is found; it is imported as it is there."""


@click.command("import", short_help="Import servers from Claude, Cursor and VS Code.")
@click.argument("files", nargs=-1, metavar="[FILE]...", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--from", "program", type=click.Choice(list(PROGRAMS)), help="Look only at this program's files."
)
@click.option("--dry-run", is_flag=True, help="Show what would be imported and write nothing.")
@click.option("--force", is_flag=True, help="Replace servers that differ.")
@config_option
@json_option
@debug_option
def command(
    files: tuple[Path, ...],
    program: str | None,
    dry_run: bool,
    force: bool,
    file: Path | None,
    as_json: bool,
    debug: bool,
) -> None:
    """Import the servers in FILE, or in the files of Claude Desktop, Claude Code, Cursor and VS Code.

    Servers that are there already stay as they are, unless --force replaces those that differ. What is
    turned off there is imported turned off.
    """
    if files and program:
        raise Failure("a file and --from at once", "give one of them")
    edited = Edited(chosen(file))
    entries = _named(files) if files else _known(program, edited.path)
    found = _compared(entries, edited)
    _show(found, as_json)
    wanted = [one for one in found if one.status == NEW] + (_replacing(found, edited) if force else [])
    if dry_run:
        click.echo("nothing was written (--dry-run)", err=True)
    elif wanted:
        _write(wanted, edited)
    _advise(found, wanted, edited, force, dry_run)


def _named(files: tuple[Path, ...]) -> list[Entry]:
    entries: list[Entry] = []
    for path in files:
        try:
            inside = entries_in(Path(os.path.abspath(path.expanduser())), _folder())
        except ConfigError as error:
            raise failure_of(error) from None
        if not inside:
            raise Failure(f"{str(path)!r} lists no MCP servers", "they are under 'mcpServers' or 'servers'")
        entries += inside
    return entries


def _known(program: str | None, own: Path) -> list[Entry]:
    looked = [place for place in places(_folder()) if program in (None, place.program)]
    entries: list[Entry] = []
    for place in looked:
        if not place.file.is_file() or place.file.resolve() == own:
            continue
        try:
            entries += entries_in(place.file, _folder())
        except ConfigError as error:
            warn(f"{PROGRAMS[place.program]}: {error.message}; it is left out")
    if not entries:
        names = PROGRAMS[program] if program else "Claude Desktop, Claude Code, Cursor and VS Code"
        where = ", ".join(shown(place.file) for place in looked)
        raise Failure(f"no servers of {names} were found", f"looked at {where}", "toolyard import FILE")
    return entries


def _folder() -> Path:
    return Path(os.getcwd())


def _compared(entries: list[Entry], edited: Edited) -> list[Found]:
    """Each against what is here and against those before it: the first of a name is the one that counts."""
    here: dict[str, dict[str, Any] | None] = {entry.name: _reached(entry) for entry in edited.included}
    for table, names in edited.tables.items():
        here |= {
            name: _reached(Entry(name, fields, edited.path, table, True)) for name, fields in names.items()
        }
    found: list[Found] = []
    for entry in entries:
        one = _judged(entry, here)
        if one.status == NEW:
            here[one.name] = _reached(entry)
        found.append(one)
    return found


def _judged(entry: Entry, here: dict[str, dict[str, Any] | None]) -> Found:
    where, reason = shown(entry.file), None
    try:
        server_config(entry, os.environ)
    except Unusable as error:  # it can be used once its user has done something about it
        reason = f"{error.message}; {error.hint}" if entry.enabled else None
    except Wrong as error:
        return Found(entry.name, where, "?", UNUSABLE, {}, error.message)
    fields = own_fields(entry)
    status = NEW if entry.name not in here else SAME if here[entry.name] == _reached(entry) else CONFLICT
    return Found(entry.name, where, _kind(fields), status, fields, reason, entry.enabled)


def _replacing(found: list[Found], edited: Edited) -> list[Found]:
    """What takes the place of servers in this file; of several with one name it is the first."""
    firsts = {
        one.name: one for one in reversed(found) if one.status == CONFLICT and one.name in edited.servers
    }
    return [one for one in found if firsts.get(one.name) is one]


def _reached(entry: Entry) -> dict[str, Any] | None:
    """How a server is reached, without what its user decided about it; None for one that makes no sense."""
    try:
        return {key: value for key, value in own_fields(entry).items() if key not in _DECIDED}
    except Wrong:
        return None


def _kind(fields: dict[str, Any]) -> str:
    if "url" in fields:
        return "sse" if fields.get("transport") == "sse" else "http"
    return "stdio" if "command" in fields else "in process"


def _show(found: list[Found], as_json: bool) -> None:
    if as_json:
        # Without the fields, which have secrets in them.
        shown_keys = ("name", "where", "kind", "status", "enabled", "reason")
        print_json([{key: getattr(one, key) for key in shown_keys} for one in found])
    else:
        print_findings([(one.name, one.where, one.kind, one.status, one.enabled) for one in found])


def _write(wanted: list[Found], edited: Edited) -> None:
    for one in wanted:
        edited.put(one.name, edited.worded(one.fields))
    edited.check()
    edited.save()
    count = f"{len(wanted)} server{'' if len(wanted) == 1 else 's'}"
    click.echo(f"imported {count} into {edited.label}", err=True)


def _advise(found: list[Found], wanted: list[Found], edited: Edited, force: bool, dry_run: bool) -> None:
    for one in found:
        if one.reason is not None and one.status != SAME:
            verb = "was left out" if one.status == UNUSABLE else "cannot be used yet"
            warn(f"{one.name!r} of {one.where} {verb}: {one.reason}")
    kept = [one for one in found if one.status == CONFLICT and one not in wanted]
    for one in kept:
        if file := edited.included_from(one.name):
            warn(f"{one.name!r} of {one.where} was left out: {edited.label} includes another one from {file}")
    if kept and not force:
        hint("what differs was kept as it is here; --force replaces it")
    if dry_run or not wanted:
        return
    if off := [one for one in wanted if not one.enabled]:
        are = (
            "1 server is turned off where it"
            if len(off) == 1
            else f"{len(off)} servers are turned off where they"
        )
        hint(f"{are} came from, and here too; enabled = true turns it on")
    if any(True for one in wanted for _ in secrets_in(one.fields)):
        hint("secrets were copied as they are; '${VARIABLE}' in their place keeps them out of the file")
        if os.name == "posix" and stat.S_IMODE(edited.path.stat().st_mode) & 0o077:
            warn(f"others can read {edited.label}", f"chmod 600 {edited.label}")
    hint(f"`toolyard list --config {edited.label}` shows their tools")
