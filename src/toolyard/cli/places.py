"""Where other programs keep their MCP servers, and what is in those files."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from ..config.entry import Entry
from ..config.reading import read
from ..config.sources import is_foreign, server_tables
from .shapes import as_object

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
    claude = os.environ.get("CLAUDE_CONFIG_DIR")
    roots = _settings_folders(home)
    return [
        Place(CLAUDE_CODE, folder / ".mcp.json"),
        Place(CURSOR, folder / ".cursor" / "mcp.json"),
        Place(VSCODE, folder / ".vscode" / "mcp.json"),
        Place(CLAUDE_CODE, (Path(claude) if claude else home) / ".claude.json"),
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
    """The servers in a file, with those that Claude Code keeps for this folder; ConfigError if unreadable."""
    data = read(file)
    projects = as_object(data.get("projects"))
    here = as_object(projects.get(str(folder)) or projects.get(folder.as_posix()))
    return [*_entries(file, here, f"projects.{folder.name}."), *_entries(file, data, "")]


def _entries(file: Path, data: Any, prefix: str) -> Iterator[Entry]:
    foreign = is_foreign(file, data, asked=False)
    for table, held in server_tables(data):
        for name, fields in as_object(held).items():
            yield Entry(name, dict(as_object(fields)), file, f"{prefix}{table}", foreign)
