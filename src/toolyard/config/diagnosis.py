"""`diagnose`: every mistake in a configuration, where `load` stops at the first.

Reads each file, each table and each server entry by itself, with the readers that `load` uses. Looks at
nothing outside the files but variables, programs on PATH and folders; starts nothing.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from ..file_access import is_missing
from . import caller_tables, tables
from .errors import ConfigError, ConfigValueError, nearest_or_all
from .files import display_path, read
from .loader import KEYS, config_files, environment, is_foreign, load, resolved_environment, server_tables
from .models import Config, ResolveReferences, ServerConfig, Stdio
from .names import ServerNames
from .servers import OWN_PROGRAM, ServerEntry, check_keys, server_config
from .values import nonempty, table, texts

Level = Literal["error", "warning"]


class ConfigFinding(Struct, frozen=True):
    """Something wrong in a configuration."""

    level: Level
    place: str
    """The file and the table, such as `toolyard.toml: [servers.git]`."""
    problem: str
    hint: str = ""


class Diagnosis(Struct, frozen=True):
    findings: tuple[ConfigFinding, ...]
    config: Config | None
    """None if `load` refuses the file."""
    files: tuple[Path, ...]

    @property
    def is_usable(self) -> bool:
        return not any(one.level == "error" for one in self.findings)


def diagnose(
    path: Path, env: Mapping[str, str] = os.environ, resolve: ResolveReferences | None = None
) -> Diagnosis:
    variables = resolved = env
    with suppress(ConfigError):  # it is named below
        sources = config_files(path)
        resolved = variables = environment(sources, env)[0]
        resolved = resolved_environment(sources, variables, resolve)[1]
    found = _Findings(variables, resolved)
    found.read_file(Path(os.path.abspath(path.expanduser())), is_main=True)
    try:
        config = load(path, env, resolve)
    except ConfigError as error:
        # What `load` refuses has to be named here; most of it was found above, in more detail.
        config = None
        if not any(one.level == "error" for one in found.list):
            found.add("error", error.message, error.hint)
    return Diagnosis(tuple(found.list), config, tuple(found.files))


class _Findings:
    def __init__(self, env: Mapping[str, str], resolved: Mapping[str, str]) -> None:
        """`resolved` has the secrets too, which are for our own files."""
        self._env = env
        self._resolved = resolved
        self._foreign: set[Path] = set()
        self.list: list[ConfigFinding] = []
        self.files: list[Path] = []
        self._seen: set[str] = set()
        self._entries: dict[str, ServerEntry] = {}
        self._names = ServerNames()

    def add(self, level: Level, message: str, hint: str | None = None) -> None:
        """The message of a ConfigError begins with its place."""
        place, colon, problem = message.partition(": ")
        if not colon:
            place, problem = "", message
        head, bracket, rest = problem.partition("] ")
        if problem.startswith("[") and bracket:
            place, problem = f"{place}: {head}]", rest
        self.list.append(ConfigFinding(level, place, problem, hint or ""))

    def read_file(self, file: Path, is_main: bool) -> None:
        identity = os.path.realpath(file)
        if identity in self._seen:
            return  # `load` names a circle
        self._seen.add(identity)
        try:
            data = read(file)
        except ConfigError as error:
            self.list.append(ConfigFinding("error", display_path(file), error.message, error.hint or ""))
            return
        self.files.append(file)
        foreign = is_foreign(file, data, is_main)
        if foreign:
            self._foreign.add(file)
        else:
            self._check_keys(file, data)
            self._check_tables(file, data)
            if not is_main:
                self._name_unused(file, data)
        for entry in self._server_entries(file, data, foreign):
            self._check_entry(entry)
        if not foreign:
            for included in self._includes(file, data):
                self.read_file(included, is_main=False)

    def _check_keys(self, file: Path, data: Mapping[str, Any]) -> None:
        for key in data:
            if key not in KEYS:
                self.add("error", f"{display_path(file)}: unknown key {key!r}", nearest_or_all(key, KEYS))

    def _check_tables(self, file: Path, data: Mapping[str, Any]) -> None:
        env = self._resolved
        readers: tuple[Callable[[], object], ...] = (
            lambda: tables.gateway(data, file, env),
            lambda: tables.search(data, file),
            lambda: tables.state(data, file, env),
            lambda: tables.vault(data, file, env),
            lambda: tables.results(data, file),
            lambda: tables.store(data, file, env),
            lambda: tables.telemetry(data, file),
            lambda: caller_tables.auth(data, file, env),
            lambda: caller_tables.access(data, file),
            lambda: caller_tables.limits(data, file),
            lambda: caller_tables.audit(data, file, env),
        )
        for reader in readers:
            try:
                reader()
            except ConfigError as error:
                self.add("error", error.message, error.hint)

    def _name_unused(self, file: Path, data: Mapping[str, Any]) -> None:
        unused = [f"[{key}]" for key in data if key not in ("include", "servers", "mcpServers")]
        if unused:
            self.add(
                "warning",
                f"{display_path(file)}: {', '.join(unused)} is in an included file, where it is not used",
                "only servers are taken from it; put it into the main file",
            )

    def _server_entries(self, file: Path, data: Mapping[str, Any], foreign: bool) -> Iterator[ServerEntry]:
        for key, value in server_tables(data):
            try:
                items = table(value)
            except ConfigValueError as error:
                self.add("error", f"{display_path(file)}: {key!r} {error.message}", error.hint)
                continue
            lenient = foreign or key == "mcpServers"
            for name, fields in items.items():
                try:
                    yield ServerEntry(name, table(fields), file, key, lenient)
                except ConfigValueError as error:
                    self.add("error", f"{display_path(file)}: [{key}.{name}] {error.message}", error.hint)

    def _check_entry(self, entry: ServerEntry) -> None:
        if not entry.enabled:
            return
        where = f"{display_path(entry.file)}: {entry.label}"
        other = self._entries.setdefault(entry.name, entry)
        if other is not entry:
            self.add(
                "error",
                f"{where} is defined twice, also in {display_path(other.file)}",
                "rename one of them, or turn one off with enabled = false",
            )
        try:
            if not entry.foreign:
                check_keys(entry.fields)
            self._names.claim(entry.name)
            config = server_config(entry, self._env if entry.file in self._foreign else self._resolved)
        except ConfigValueError as error:
            self.add("error", f"{where} {error.message}", error.hint)
            return
        for problem, hint in _missing_parts(config):
            self.add("error", f"{where} {problem}", hint)

    def _includes(self, file: Path, data: Mapping[str, Any]) -> Iterator[Path]:
        try:
            names = [nonempty(name) for name in texts(data.get("include", []))]
        except ConfigValueError as error:
            hint = 'as in include = ["~/.cursor/mcp.json"]'
            self.add("error", f"{display_path(file)}: 'include' {error.message}", hint)
            return
        for name in names:
            included = file.parent / os.path.expanduser(name)
            if not is_missing(included):
                yield Path(os.path.abspath(included))
            else:
                self.add(
                    "error",
                    f"{display_path(file)}: includes {name!r}, which does not exist",
                    f"looked for it at {included}",
                )


def _missing_parts(server: ServerConfig) -> Iterator[tuple[str, str]]:
    """What this machine lacks for a program to start."""
    where = server.where
    if not isinstance(where, Stdio):
        return
    folder = where.cwd
    if folder is not None and not os.path.isdir(folder):
        yield f"has the folder {folder!r}, which does not exist", "create it, or correct 'cwd'"
        return
    path = {**os.environ, **where.env}.get("PATH")
    # A relative path of a program is below its working folder.
    program = where.command
    if folder is not None and os.sep in program:
        program = os.path.join(folder, program)
    if program != OWN_PROGRAM and shutil.which(program, path=path) is None:
        yield f"starts {where.command!r}, which is not on PATH", "install it, or give its full path"
