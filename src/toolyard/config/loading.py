"""`load` and `find`: from a file, and those it includes, to a `Config`."""

import os
from collections.abc import Mapping
from pathlib import Path

from .entry import Entry, server_config
from .errors import ConfigError, Unusable, Wrong, nearest_or_all
from .models import Broken, Config, GatewayConfig, ServerConfig
from .reading import shown
from .sources import Source, sources
from .tables import gateway, results, search, state, store, telemetry

FILES = ("toolyard.toml", "toolyard.json")


def load(path: Path, env: Mapping[str, str] = os.environ) -> Config:
    """What a file says, with all that it includes.

    ConfigError for what the user has to repair. An entry that lacks a variable, and a bad one of another
    program, only breaks itself.
    """
    return _built(sources(path), env)


def check(path: Path, draft: str, env: Mapping[str, str] = os.environ) -> Config:
    """What `load` would give if the file held `draft`."""
    return _built(sources(path, draft), env)


def _built(read: list[Source], env: Mapping[str, str]) -> Config:
    asked = read[0]
    all_entries = [entry for source in read for entry in source.entries]
    entries = _unique(all_entries)
    servers, broken = _servers(entries, env)
    for source in read:
        _check_tables(source, env)
    own = {} if asked.foreign else asked.data
    settings = gateway(asked.data, asked.file, env) if not asked.foreign else GatewayConfig()
    _check_bare(settings, [entry.name for entry in entries], asked.file)
    return Config(
        servers=servers,
        broken=broken,
        disabled=_turned_off(all_entries),
        gateway=settings,
        search=search(own, asked.file),
        state=state(own, asked.file, env),
        results=results(own, asked.file),
        store=store(own, asked.file, env),
        telemetry=telemetry(own, asked.file),
        files=tuple(source.file for source in read),
    )


def _servers(
    entries: list[Entry], env: Mapping[str, str]
) -> tuple[tuple[ServerConfig, ...], tuple[Broken, ...]]:
    servers: list[ServerConfig] = []
    broken: list[Broken] = []
    for entry in entries:
        try:
            servers.append(server_config(entry, env))
        except Wrong as error:
            if not entry.foreign and not isinstance(error, Unusable):
                raise ConfigError(f"{shown(entry.file)}: {entry.label} {error.message}", error.hint) from None
            reason = f"{error.message}; {error.hint}" if error.hint else error.message
            broken.append(Broken(name=entry.name, reason=reason))
    return tuple(servers), tuple(broken)


def find(start: Path | None = None) -> Path | None:
    """The file of this folder, else the user's own."""
    given = os.environ.get("XDG_CONFIG_HOME", "")
    # The XDG specification says to ignore a relative one.
    base = Path(given) if os.path.isabs(given) else Path(os.path.expanduser("~")) / ".config"
    for folder in (Path.cwd() if start is None else start, base / "toolyard"):
        for name in FILES:
            if os.path.isfile(folder / name):
                return folder / name
    return None


def _unique(entries: list[Entry]) -> list[Entry]:
    """The entries that are turned on, when no two of them have one name."""
    found: dict[str, Entry] = {}
    for entry in entries:
        if not entry.enabled:
            continue
        other = found.setdefault(entry.name, entry)
        if other is not entry:
            raise ConfigError(
                f"server {entry.name!r} is there twice: {other.label} in {shown(other.file)}"
                f" and {entry.label} in {shown(entry.file)}",
                "rename one of them, or turn one off with enabled = false",
            )
    return list(found.values())


def _turned_off(entries: list[Entry]) -> tuple[str, ...]:
    """Of two entries with one name, the one that is turned on counts."""
    on = {entry.name for entry in entries if entry.enabled}
    return tuple(dict.fromkeys(entry.name for entry in entries if entry.name not in on))


def _check_tables(source: Source, env: Mapping[str, str]) -> None:
    """An included file keeps its gateway to itself, but a mistake in it is still one."""
    if not source.foreign:
        gateway(source.data, source.file, env)
        search(source.data, source.file)
        results(source.data, source.file)
        telemetry(source.data, source.file)


def _check_bare(settings: GatewayConfig, names: list[str], file: Path) -> None:
    if settings.server and settings.server not in names:
        hint = nearest_or_all(settings.server, names) if names else "there are no servers yet"
        raise ConfigError(f"{shown(file)}: [gateway] names an unknown server {settings.server!r}", hint)
