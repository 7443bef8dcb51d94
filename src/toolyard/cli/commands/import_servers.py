"""`toolyard import`: copy servers from the configuration files of other programs.

Owns the locations of those files, and the comparison of a server there with the ones here.
"""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from msgspec import Struct
from msgspec.structs import replace

from ...config import ConfigError
from ...config.errors import ConfigValueError, UnusableEntryError
from ...config.files import display_path, read
from ...config.loader import is_foreign, server_tables
from ...config.names import ServerNames, check_server_name, fitting_server_name
from ...config.references import references_in
from ...config.servers import COMMON, SWITCHES, ServerEntry, own_fields, server_config
from ...config.values import variables_in
from ..configuration.file import ConfigFile, config_path, edited_file_option, secrets_in, shown_start
from ..configuration.loader import config_error
from ..json_values import JsonMapping, as_list, as_object
from ..ui.messages import CommandError, can_ask, hint, one_line, warn
from ..ui.output import print_json
from ..ui.tables import counted, print_table
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
    """All files that may exist, on any system; those of the folder come first."""
    home = Path(os.path.expanduser("~"))
    roots = _settings_folders(home)
    return [
        *_files_of(folder),
        ProgramFile(CLAUDE_CODE, _claude_folder(home) / ".claude.json"),
        *(ProgramFile(CLAUDE_DESKTOP, root / "Claude" / "claude_desktop_config.json") for root in roots),
        ProgramFile(CURSOR, home / ".cursor" / "mcp.json"),
        *(ProgramFile(VSCODE, root / "Code" / "User" / "mcp.json") for root in roots),
    ]


def _files_of(folder: Path) -> list[ProgramFile]:
    """The files that a folder may have, and come with."""
    return [
        ProgramFile(CLAUDE_CODE, folder / ".mcp.json"),
        ProgramFile(CURSOR, folder / ".cursor" / "mcp.json"),
        ProgramFile(VSCODE, folder / ".vscode" / "mcp.json"),
    ]


def _strange_files(folder: Path) -> list[ProgramFile]:
    """The files of a folder that may not be the user's own words."""
    return [] if folder == Path(os.path.expanduser("~")) else _files_of(folder)


def _settings_folders(home: Path) -> list[Path]:
    """The settings folders of macOS, Windows and other systems."""
    windows = os.environ.get("APPDATA")
    given = os.environ.get("XDG_CONFIG_HOME", "")
    rest = Path(given) if os.path.isabs(given) else home / ".config"
    return [home / "Library" / "Application Support", *([Path(windows)] if windows else []), rest]


def entries_in(file: Path, folder: Path) -> list[ServerEntry]:
    """The servers in a file, and those of Claude Code for this folder; ConfigError if unreadable.

    A server that is disabled, in whichever file, has `disabled` among its fields.
    """
    data = read(file)
    here = _project(data, folder)
    entries = [*_entries(file, here, f"projects.{folder.name}."), *_entries(file, data, "")]
    off = {*_names(here.get("disabledMcpServers")), *_rejected(file)}
    return [_disabled(entry) if entry.name in off else entry for entry in entries]


def _disabled(entry: ServerEntry) -> ServerEntry:
    return replace(entry, fields=entry.fields | {"disabled": True})


def _project(data: JsonMapping, folder: Path) -> JsonMapping:
    projects = as_object(data.get("projects"))
    return as_object(projects.get(str(folder)) or projects.get(folder.as_posix()))


def _rejected(file: Path) -> Iterator[str]:
    """Servers of a project's .mcp.json that the user has disabled in a settings file of Claude Code."""
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


NEW, SAME, CONFLICT, UNUSABLE = "new", "same", "conflict", "unusable"
HEADINGS = ("name", "where", "kind", "status")
_COLOURS = {NEW: "green", CONFLICT: "yellow", UNUSABLE: "red"}
_SETTINGS = {*COMMON, *SWITCHES}


class ImportCandidate(Struct, frozen=True):
    """A server in another program's file, and its status here."""

    name: str
    where: str
    kind: str
    status: str
    fields: dict[str, Any]
    reason: str | None = None
    enabled: bool = True
    """Whether it is enabled there; it is imported with the same state."""
    original: str = ""
    """Its name there, if it gets another one here."""


@click.command("import", short_help="Import servers from Claude, Cursor and VS Code.")
@click.argument("files", nargs=-1, metavar="[FILE]...", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--from", "program", type=click.Choice(list(PROGRAMS)), help="Read only this program's files.")
@click.option("--dry-run", is_flag=True, help="Show what would be imported and write nothing.")
@click.option("--force", is_flag=True, help="Replace servers that differ.")
@click.option(
    "--yes", is_flag=True, help="Import what starts a program, or sends your variables, without asking."
)
@edited_file_option
@json_option
@debug_option
def command(
    files: tuple[Path, ...],
    program: str | None,
    dry_run: bool,
    force: bool,
    yes: bool,
    config: Path | None,
    as_json: bool,
    debug: bool,
) -> None:
    """Import the servers in FILE, or in the files of Claude Desktop, Claude Code, Cursor and VS Code.

    Servers that exist here stay as they are; --force replaces those that differ. A disabled server is
    imported as disabled. On a terminal, what they start is shown and asked for.
    """
    if files and program:
        raise CommandError("a file and --from at once", "give one of them")
    target = ConfigFile(config_path(config))
    entries = _entries_of_files(files) if files else _entries_of_programs(program, target.path)
    found = _candidates(entries, target)
    _show(found, as_json)
    wanted = [one for one in found if one.status == NEW] + (_replacements(found, target) if force else [])
    if dry_run:
        click.echo("nothing was written (--dry-run)", err=True)
    elif wanted:
        if not yes:
            _approve(wanted, [] if files else _strange_files(_folder()))
        _write(wanted, target)
    _advise(found, wanted, target, force, dry_run)


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
            warn(f"{PROGRAMS[place.program]}: {error.message}; this file was skipped")
    if not entries:
        names = PROGRAMS[program] if program else "Claude Desktop, Claude Code, Cursor and VS Code"
        where = ", ".join(display_path(place.file) for place in looked)
        raise CommandError(f"found no servers of {names}", f"looked at {where}", "toolyard import FILE")
    return entries


def _folder() -> Path:
    return Path(os.getcwd())


def _candidates(entries: list[ServerEntry], target: ConfigFile) -> list[ImportCandidate]:
    """Compare each entry with the servers here and with the entries before it: the first of a name wins."""
    here: dict[str, dict[str, Any] | None] = {
        entry.name: _connection_fields(entry) for entry in target.included
    }
    for table, names in target.tables.items():
        here |= {
            name: _connection_fields(ServerEntry(name, fields, target.path, table, True))
            for name, fields in names.items()
        }
    names = ServerNames()
    for name in here:
        with suppress(ConfigValueError):  # for whoever loads the file to say
            names.claim(name)
    found: list[ImportCandidate] = []
    for entry in entries:
        fit = entry if entry.name in here else replace(entry, name=_fitting(entry.name))
        one = _candidate(fit, here, names)
        if one.status == NEW:
            here[one.name] = _connection_fields(entry)
        found.append(one if fit.name == entry.name else replace(one, original=entry.name))
    return found


def _fitting(name: str) -> str:
    """The name, unless a server here may not have it; without blanks, so that tools have it as it is."""
    try:
        check_server_name(name)
    except ConfigValueError:
        return fitting_server_name(name)
    return fitting_server_name(name) if " " in name else name


def _candidate(
    entry: ServerEntry, here: dict[str, dict[str, Any] | None], names: ServerNames
) -> ImportCandidate:
    where, reason = display_path(entry.file), None
    try:
        names.claim(entry.name)
        if entry.foreign:
            _check_references(entry)
        server_config(entry, os.environ)
    except UnusableEntryError as error:  # the user can fix it later
        reason = f"{error.message}; {error.hint}" if entry.enabled else None
    except ConfigValueError as error:
        return ImportCandidate(entry.name, where, "?", UNUSABLE, {}, error.message)
    fields = own_fields(entry)
    status = (
        NEW if entry.name not in here else SAME if here[entry.name] == _connection_fields(entry) else CONFLICT
    )
    return ImportCandidate(entry.name, where, _kind(fields), status, fields, reason, entry.enabled)


def _check_references(entry: ServerEntry) -> None:
    """Refuse what counts for nothing where it stands, and would fetch a secret of yours from here on."""
    for reference in sorted(references_in(own_fields(entry))):
        raise ConfigValueError(
            f"it refers to {reference}, and other programs' files could send any secret of yours anywhere",
            "if you trust it, add the server by hand: toolyard add",
        )


def _replacements(found: list[ImportCandidate], target: ConfigFile) -> list[ImportCandidate]:
    """The first candidate for each server of this file that differs."""
    firsts = {
        one.name: one for one in reversed(found) if one.status == CONFLICT and one.name in target.servers
    }
    return [one for one in found if firsts.get(one.name) is one]


def _connection_fields(entry: ServerEntry) -> dict[str, Any] | None:
    """The fields that say how a server is reached, without settings; None if they are invalid."""
    try:
        return {key: value for key, value in own_fields(entry).items() if key not in _SETTINGS}
    except ConfigValueError:
        return None


def _kind(fields: dict[str, Any]) -> str:
    if "url" in fields:
        return "sse" if fields.get("transport") == "sse" else "http"
    return "stdio" if "command" in fields else "in process"


def _show(found: list[ImportCandidate], as_json: bool) -> None:
    if as_json:
        # Not the fields, which may contain secrets.
        shown_keys = ("name", "where", "kind", "status", "enabled", "reason")
        print_json([{key: getattr(one, key) for key in shown_keys} for one in found])
    else:
        _print_candidates(found)


def _print_candidates(found: list[ImportCandidate]) -> None:
    rows = [
        tuple(
            one_line(cell)
            for cell in (
                one.name,
                one.where,
                one.kind,
                one.status if one.enabled else f"{one.status} (disabled)",
            )
        )
        for one in found
    ]
    print_table(HEADINGS, rows, last_style=lambda status: _COLOURS.get(status.partition(" ")[0], ""))


def _approve(wanted: list[ImportCandidate], strange: list[ProgramFile]) -> None:
    """Show what will be started or sent, and ask. Where nobody can be, only `strange` files need --yes."""
    places = {display_path(one.file) for one in strange}
    doubtful = [one for one in wanted if can_ask() or one.where in places]
    starting = [(one, _shown(one.fields)) for one in doubtful if "url" not in one.fields]
    sending = [(one, told) for one in doubtful if one.enabled and (told := _sent(one.fields))]
    risks = {
        risk: [f"{one_line(one.name)} of {one.where}: {told}" for one, told in found]
        for risk, found in {
            "start programs with your rights": starting,
            "send values of your variables": sending,
        }.items()
        if found
    }
    if not risks:
        return
    if not can_ask():
        lines = "; ".join(line for lines in risks.values() for line in lines)
        raise CommandError(
            f"a file of this folder would {' and '.join(risks)}: {lines}",
            "--yes imports them, if you trust the folder; a terminal asks",
        )
    for risk, lines in risks.items():
        click.echo(f"these {risk}:", err=True)
        for line in lines:
            click.echo(f"  {line}", err=True)
    if not click.confirm(f"import {counted(len(wanted), 'servers')}?", default=False, err=True):
        raise CommandError("nothing was imported")


def _sent(fields: dict[str, Any]) -> str:
    """Which variables go where."""
    names = variables_in(fields)
    if "url" not in fields or not names:
        return ""
    scheme, _, rest = str(fields["url"]).partition("://")
    host = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2]
    return f"{one_line(', '.join(names))} to {one_line(f'{scheme}://{host}')}"


def _shown(fields: dict[str, Any]) -> str:
    hidden = dict.fromkeys(secrets_in(fields), "***")
    env = {name: hidden.get(f"env.{name}", value) for name, value in as_object(fields.get("env")).items()}
    return shown_start({**fields, "env": env})


def _write(wanted: list[ImportCandidate], target: ConfigFile) -> None:
    for one in wanted:
        target.set_server(one.name, target.adapt_fields(one.fields))
    target.check()
    target.save()
    click.echo(f"imported {counted(len(wanted), 'servers')} into {target.label}", err=True)


def _advise(
    found: list[ImportCandidate],
    wanted: list[ImportCandidate],
    target: ConfigFile,
    force: bool,
    dry_run: bool,
) -> None:
    for one in found:
        if one.original and one.status == NEW:
            hint(f"{one.original!r} of {one.where} has the name {one.name!r} here")
        if one.reason is not None and one.status != SAME:
            verb = "was not imported" if one.status == UNUSABLE else "cannot be used yet"
            warn(f"{one.name!r} of {one.where} {verb}: {one.reason}")
    kept = [one for one in found if one.status == CONFLICT and one not in wanted]
    for one in kept:
        if file := target.included_from(one.name):
            warn(f"{one.name!r} of {one.where} was not imported: {target.label} includes another from {file}")
    if kept and not force:
        hint("servers that differ were not changed; --force replaces them")
    if dry_run or not wanted:
        return
    if off := [one for one in wanted if not one.enabled]:
        hint(
            f"{counted(len(off), 'servers')} imported as disabled, as in the original; enabled = true enables"
        )
    if any(True for one in wanted for _ in secrets_in(one.fields)):
        hint("secrets were copied; '${VARIABLE}' instead keeps them out of the file")
        if os.name == "posix" and stat.S_IMODE(target.path.stat().st_mode) & 0o077:
            warn(f"other users can read {target.label}", f"chmod 600 {target.label}")
    hint(f"`toolyard list --config {target.label}` shows their tools")
