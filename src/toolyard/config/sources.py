"""The files of a configuration: the one asked for and what it includes, and the entries each of them has."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from .entry import Entry, check_keys
from .errors import ConfigError, Wrong, nearest_or_all
from .reading import is_toml, parse, read, shown
from .values import filled, table, texts

_OURS = ("include", "gateway", "search", "state", "results", "store", "telemetry")
KEYS = (*_OURS, "servers", "mcpServers")


class Source(Struct, frozen=True):
    """One file; `foreign` when it is another program's, of which we read the servers only."""

    file: Path
    data: dict[str, Any]
    foreign: bool
    entries: tuple[Entry, ...]


def sources(path: Path, draft: str | None = None) -> list[Source]:
    """The file and all that it includes, each of them once, the file itself first.

    `draft` is what the file is about to hold.
    """
    found: dict[Path, Source] = {}
    _gather(Path(os.path.abspath(path.expanduser())), (), found, draft)
    return list(found.values())


def _gather(file: Path, above: tuple[Path, ...], found: dict[Path, Source], draft: str | None) -> None:
    identity = Path(os.path.realpath(file))
    if identity in above:
        circle = " -> ".join(shown(step) for step in (*above[above.index(identity) :], identity))
        raise ConfigError(f"files include each other in a circle: {circle}", "take one of the includes out")
    if identity in found:
        return
    found[identity] = source = _source(file, read(file) if draft is None else parse(draft, file), not above)
    for name in _includes(source):
        included = file.parent / os.path.expanduser(name)
        if not included.exists():
            raise ConfigError(
                f"{shown(file)} includes {name!r}, which does not exist",
                f"it was looked for at {included}",
            )
        _gather(Path(os.path.abspath(included)), (*above, identity), found, None)


def _source(file: Path, data: dict[str, Any], asked: bool) -> Source:
    foreign = is_foreign(file, data, asked)
    if not foreign:
        for key in data:
            if key not in KEYS:
                raise ConfigError(f"{shown(file)}: unknown key {key!r}", nearest_or_all(key, KEYS))
    elif not any(server_tables(data)):
        raise ConfigError(f"{shown(file)} has neither 'mcpServers' nor 'servers'", "it lists no MCP servers")
    return Source(file, data, foreign, tuple(_entries(file, data, foreign)))


def is_foreign(file: Path, data: Mapping[str, Any], asked: bool) -> bool:
    if is_toml(file) or file.name == "toolyard.json":
        return False
    # Another program may have a table of the same name as ours, but not only such tables.
    if any(key in data for key in _OURS) and all(key in KEYS for key in data):
        return False
    # `servers` alone is VS Code's in a file that is included or called so, and else ours.
    return not asked or file.name.endswith("mcp.json") or "mcpServers" in data or "inputs" in data


def server_tables(data: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Where a file lists servers: the key, and what it holds."""
    for key in ("servers", "mcpServers"):
        if key in data:
            yield key, data[key]
    inside = data.get("mcp")  # where VS Code's settings.json has them
    if isinstance(inside, dict) and "servers" in inside:
        yield "mcp.servers", inside["servers"]


def _entries(file: Path, data: Mapping[str, Any], foreign: bool) -> Iterator[Entry]:
    for key, value in server_tables(data):
        try:
            items = table(value)
        except Wrong as error:
            raise ConfigError(f"{shown(file)}: {key!r} {error.message}") from None
        for name, fields in items.items():
            yield _entry(name, fields, file, key, lenient=foreign or key == "mcpServers")


def _entry(name: str, fields: Any, file: Path, key: str, lenient: bool) -> Entry:
    try:
        entry = Entry(name, table(fields), file, key, lenient)
        if not lenient:
            check_keys(entry.fields)
        return entry
    except Wrong as error:
        if lenient:
            return Entry(name, {}, file, key, lenient)
        raise ConfigError(f"{shown(file)}: [{key}.{name}] {error.message}", error.hint) from None


def _includes(source: Source) -> tuple[str, ...]:
    given: Any = [] if source.foreign else source.data.get("include", [])
    try:
        return tuple(filled(name) for name in texts(given))
    except Wrong as error:
        hint = 'as in include = ["~/.cursor/mcp.json"]'
        raise ConfigError(f"{shown(source.file)}: 'include' {error.message}", hint) from None
