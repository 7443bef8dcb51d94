"""Where other programs keep their MCP servers, and what is in those files."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ..config import ConfigError
from ..config.entry import Entry
from ..config.reading import read
from ..config.sources import is_foreign, server_tables
from .shapes import Object, as_list, as_object

CLAUDE_DESKTOP, CLAUDE_CODE, CURSOR, VSCODE = "claude-desktop", "claude-code", "cursor", "vscode"
PROGRAMS = {
    CLAUDE_DESKTOP: "Claude Desktop",
    CLAUDE_CODE: "Claude Code",
    CURSOR: "Cursor",
    VSCODE: "VS Code",
}


class Place(Struct, frozen=True):
    program: str
    file: Path


def places(folder: Path) -> list[Place]:
    """Every place there could be, whichever system this is; those of the folder come first."""
    home = Path(os.path.expanduser("~"))
    roots = _settings_folders(home)
    return [
        Place(CLAUDE_CODE, folder / ".mcp.json"),
        Place(CURSOR, folder / ".cursor" / "mcp.json"),
        Place(VSCODE, folder / ".vscode" / "mcp.json"),
        Place(CLAUDE_CODE, _claude_folder(home) / ".claude.json"),
        *(Place(CLAUDE_DESKTOP, root / "Claude" / "claude_desktop_config.json") for root in roots),
        Place(CURSOR, home / ".cursor" / "mcp.json"),
        *(Place(VSCODE, root / "Code" / "User" / "mcp.json") for root in roots),
    ]


def _settings_folders(home: Path) -> list[Path]:
    """Of macOS, of Windows, and of everything else."""
    windows = os.environ.get("APPDATA")
    given = os.environ.get("XDG_CONFIG_HOME", "")
    rest = Path(given) if os.path.isabs(given) else home / ".config"
    return [home / "Library" / "Application Support", *([Path(windows)] if windows else []), rest]


def entries_in(file: Path, folder: Path) -> list[Entry]:
    """The servers in a file, with those that Claude Code keeps for this folder; ConfigError if unreadable.

    What is turned off there has `disabled` among its fields, wherever that is said.
    """
    data = read(file)
    here = _project(data, folder)
    entries = [*_entries(file, here, f"projects.{folder.name}."), *_entries(file, data, "")]
    off = {*_names(here.get("disabledMcpServers")), *_rejected(file)}
    return [_turned_off(entry) if entry.name in off else entry for entry in entries]


def _turned_off(entry: Entry) -> Entry:
    return replace(entry, fields=entry.fields | {"disabled": True})


def _project(data: Object, folder: Path) -> Object:
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


def _data(file: Path) -> Object:
    try:
        return read(file)
    except ConfigError:
        return {}


def _names(value: Any) -> list[str]:
    return [name for name in as_list(value) if isinstance(name, str)]


def _entries(file: Path, data: Any, prefix: str) -> Iterator[Entry]:
    foreign = is_foreign(file, data, asked=False)
    for table, held in server_tables(data):
        for name, fields in as_object(held).items():
            yield Entry(name, dict(as_object(fields)), file, f"{prefix}{table}", foreign)
