"""`toolyard import`: copy servers from the configuration files of other programs.

Owns where Claude, Cursor and VS Code keep those files, and how a server there compares with the ones here.
"""

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from msgspec import Struct
from msgspec.structs import replace

from ...config import ConfigError
from ...config.errors import ConfigValueError, UnusableEntryError
from ...config.files import display_path, read
from ...config.loader import is_foreign, server_tables
from ...config.servers import COMMON, SWITCHES, ServerEntry, own_fields, server_config
from ..configuration.file import ConfigFile, config_error, config_path, edited_file_option, secrets_in
from ..json_values import JsonMapping, as_list, as_object
from ..ui.messages import CommandError, hint, is_terminal, one_line, warn
from ..ui.output import print_json
from .options import debug_option, json_option

CLAUDE_DESKTOP, CLAUDE_CODE, CURSOR, VSCODE = "claude-desktop", "claude-code", "cursor", "vscode"
PROGRAMS = {
    CLAUDE_DESKTOP: "Claude Desktop",
    CLAUDE_CODE: "Claude Code",
    CURSOR: "Cursor",
    VSCODE: "VS Code",
}


class ProgramFile(Struct, frozen=True):
    program: str
    file: Path


def program_files(folder: Path) -> list[ProgramFile]:
    """Every place there could be, whichever system this is; those of the folder come first."""
    home = Path(os.path.expanduser("~"))
    roots = _settings_folders(home)
    return [
        ProgramFile(CLAUDE_CODE, folder / ".mcp.json"),
        ProgramFile(CURSOR, folder / ".cursor" / "mcp.json"),
        ProgramFile(VSCODE, folder / ".vscode" / "mcp.json"),
        ProgramFile(CLAUDE_CODE, _claude_folder(home) / ".claude.json"),
        *(ProgramFile(CLAUDE_DESKTOP, root / "Claude" / "claude_desktop_config.json") for root in roots),
        ProgramFile(CURSOR, home / ".cursor" / "mcp.json"),
        *(ProgramFile(VSCODE, root / "Code" / "User" / "mcp.json") for root in roots),
    ]


def _settings_folders(home: Path) -> list[Path]:
    """Of macOS, of Windows, and of everything else."""
    windows = os.environ.get("APPDATA")
    given = os.environ.get("XDG_CONFIG_HOME", "")
    rest = Path(given) if os.path.isabs(given) else home / ".config"
    return [home / "Library" / "Application Support", *([Path(windows)] if windows else []), rest]


def entries_in(file: Path, folder: Path) -> list[ServerEntry]:
    """The servers in a file, with those that Claude Code keeps for this folder; ConfigError if unreadable.

    What is turned off there has `disabled` among its fields, wherever that is said.
    """
    data = read(file)
    here = _project(data, folder)
    entries = [*_entries(file, here, f"projects.{folder.name}."), *_entries(file, data, "")]
    off = {*_names(here.get("disabledMcpServers")), *_rejected(file)}
    return [_turned_off(entry) if entry.name in off else entry for entry in entries]


def _turned_off(entry: ServerEntry) -> ServerEntry:
    return replace(entry, fields=entry.fields | {"disabled": True})


def _project(data: JsonMapping, folder: Path) -> JsonMapping:
    projects = as_object(data.get("projects"))
    return as_object(projects.get(str(folder)) or projects.get(folder.as_posix()))


def _rejected(file: Path) -> Iterator[str]:
    """Servers of a project's .mcp.json that its user does not want; any settings of Claude Code say so."""
    if file.name != ".mcp.json":
        return
    folder, home = file.parent, Path(os.path.expanduser("~"))
    own = _claude_folder(home)
    kept = _project(_data(own / ".claude.json"), folder)
    yield from _names(kept.get("disabledMcpServers"))
    yield from _names(kept.get("disabledMcpjsonServers"))
    shared = Path(os.environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")
    for settings in (
        folder / ".claude" / "settings.json",
        folder / ".claude" / "settings.local.json",
        shared / "settings.json",
    ):
        yield from _names(_data(settings).get("disabledMcpjsonServers"))


def _claude_folder(home: Path) -> Path:
    return Path(os.environ.get("CLAUDE_CONFIG_DIR") or home)


def _data(file: Path) -> JsonMapping:
    try:
        return read(file)
    except ConfigError:
        return {}


def _names(value: Any) -> list[str]:
    return [name for name in as_list(value) if isinstance(name, str)]


def _entries(file: Path, data: Any, prefix: str) -> Iterator[ServerEntry]:
    foreign = is_foreign(file, data, asked=False)
    for table, held in server_tables(data):
        for name, fields in as_object(held).items():
            yield ServerEntry(name, dict(as_object(fields)), file, f"{prefix}{table}", foreign)


ImportRow = tuple[str, str, str, str, bool]
"""Name, where it was found, kind, status, and whether it is turned on there."""
HEADINGS = ("name", "where", "kind", "status")
_COLOURS = {"new": "green", "conflict": "yellow", "unusable": "red"}


def print_candidates(findings: list[ImportRow]) -> None:
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


NEW, SAME, CONFLICT, UNUSABLE = "new", "same", "conflict", "unusable"
_DECIDED = {*COMMON, *SWITCHES}


class ImportCandidate(Struct, frozen=True):
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
@edited_file_option
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
        raise CommandError("a file and --from at once", "give one of them")
    edited = ConfigFile(config_path(file))
    entries = _entries_of_files(files) if files else _entries_of_programs(program, edited.path)
    found = _candidates(entries, edited)
    _show(found, as_json)
    wanted = [one for one in found if one.status == NEW] + (_replacements(found, edited) if force else [])
    if dry_run:
        click.echo("nothing was written (--dry-run)", err=True)
    elif wanted:
        _write(wanted, edited)
    _advise(found, wanted, edited, force, dry_run)


def _entries_of_files(files: tuple[Path, ...]) -> list[ServerEntry]:
    entries: list[ServerEntry] = []
    for path in files:
        try:
            inside = entries_in(Path(os.path.abspath(path.expanduser())), _folder())
        except ConfigError as error:
            raise config_error(error) from None
        if not inside:
            raise CommandError(
                f"{str(path)!r} lists no MCP servers", "they are under 'mcpServers' or 'servers'"
            )
        entries += inside
    return entries


def _entries_of_programs(program: str | None, own: Path) -> list[ServerEntry]:
    looked = [place for place in program_files(_folder()) if program in (None, place.program)]
    entries: list[ServerEntry] = []
    for place in looked:
        if not place.file.is_file() or place.file.resolve() == own:
            continue
        try:
            entries += entries_in(place.file, _folder())
        except ConfigError as error:
            warn(f"{PROGRAMS[place.program]}: {error.message}; it is left out")
    if not entries:
        names = PROGRAMS[program] if program else "Claude Desktop, Claude Code, Cursor and VS Code"
        where = ", ".join(display_path(place.file) for place in looked)
        raise CommandError(f"no servers of {names} were found", f"looked at {where}", "toolyard import FILE")
    return entries


def _folder() -> Path:
    return Path(os.getcwd())


def _candidates(entries: list[ServerEntry], edited: ConfigFile) -> list[ImportCandidate]:
    """Each against what is here and against those before it: the first of a name is the one that counts."""
    here: dict[str, dict[str, Any] | None] = {
        entry.name: _connection_fields(entry) for entry in edited.included
    }
    for table, names in edited.tables.items():
        here |= {
            name: _connection_fields(ServerEntry(name, fields, edited.path, table, True))
            for name, fields in names.items()
        }
    found: list[ImportCandidate] = []
    for entry in entries:
        one = _candidate(entry, here)
        if one.status == NEW:
            here[one.name] = _connection_fields(entry)
        found.append(one)
    return found


def _candidate(entry: ServerEntry, here: dict[str, dict[str, Any] | None]) -> ImportCandidate:
    where, reason = display_path(entry.file), None
    try:
        server_config(entry, os.environ)
    except UnusableEntryError as error:  # it can be used once its user has done something about it
        reason = f"{error.message}; {error.hint}" if entry.enabled else None
    except ConfigValueError as error:
        return ImportCandidate(entry.name, where, "?", UNUSABLE, {}, error.message)
    fields = own_fields(entry)
    status = (
        NEW if entry.name not in here else SAME if here[entry.name] == _connection_fields(entry) else CONFLICT
    )
    return ImportCandidate(entry.name, where, _kind(fields), status, fields, reason, entry.enabled)


def _replacements(found: list[ImportCandidate], edited: ConfigFile) -> list[ImportCandidate]:
    """What takes the place of servers in this file; of several with one name it is the first."""
    firsts = {
        one.name: one for one in reversed(found) if one.status == CONFLICT and one.name in edited.servers
    }
    return [one for one in found if firsts.get(one.name) is one]


def _connection_fields(entry: ServerEntry) -> dict[str, Any] | None:
    """How a server is reached, without what its user decided about it; None for one that makes no sense."""
    try:
        return {key: value for key, value in own_fields(entry).items() if key not in _DECIDED}
    except ConfigValueError:
        return None


def _kind(fields: dict[str, Any]) -> str:
    if "url" in fields:
        return "sse" if fields.get("transport") == "sse" else "http"
    return "stdio" if "command" in fields else "in process"


def _show(found: list[ImportCandidate], as_json: bool) -> None:
    if as_json:
        # Without the fields, which have secrets in them.
        shown_keys = ("name", "where", "kind", "status", "enabled", "reason")
        print_json([{key: getattr(one, key) for key in shown_keys} for one in found])
    else:
        print_candidates([(one.name, one.where, one.kind, one.status, one.enabled) for one in found])


def _write(wanted: list[ImportCandidate], edited: ConfigFile) -> None:
    for one in wanted:
        edited.put(one.name, edited.worded(one.fields))
    edited.check()
    edited.save()
    count = f"{len(wanted)} server{'' if len(wanted) == 1 else 's'}"
    click.echo(f"imported {count} into {edited.label}", err=True)


def _advise(
    found: list[ImportCandidate],
    wanted: list[ImportCandidate],
    edited: ConfigFile,
    force: bool,
    dry_run: bool,
) -> None:
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
