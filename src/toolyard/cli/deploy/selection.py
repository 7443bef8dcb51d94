"""The servers selected for a function: the location of their code, and their settings as variables."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from ...config.servers import BUNDLED, is_table, module_of
from ..configuration.file import secrets_in
from ..target import split
from ..ui.arguments import read_setting
from ..ui.messages import CommandError

PACKAGE = Path(__file__).resolve().parents[2]
"""The folder of Toolyard itself."""
ANY_TABLE = "rest"
UNSUITABLE = {"browser": "it needs Chromium; docs/guides/containers.md shows how to run it"}
"""Bundled servers that cannot run in a function, and why."""
RESERVED = {"function", "bootstrap", PACKAGE.name}


class SelectedServer(Struct, frozen=True):
    target: str
    """As it was typed."""
    name: str
    """Short, as a part of other names."""
    module: str
    folder: Path
    """The folder of that module."""
    function_target: str
    """What the function loads: a bundled name, a module of the zip, or a table in it."""
    table: Path | None = None


def select_server(target: str) -> SelectedServer:
    """Find the server that the user named; CommandError if there is none."""
    if target == ANY_TABLE:
        raise CommandError(f"{target!r} needs a table", "name the table: toolyard deploy lambda crm.toml")
    if target in UNSUITABLE:
        raise CommandError(f"{target!r} cannot run in a function", UNSUITABLE[target])
    if target in BUNDLED:
        return SelectedServer(target, target, module_of(target), PACKAGE.parent, target)
    if is_table(target):
        return _table(target)
    place, attribute = split(target)
    file = Path(place).expanduser()
    if place.endswith(".py") or "/" in place:
        if not file.is_file():
            raise CommandError(f"no file {place!r}", "name a bundled server, a file or a module")
        return _own(target, file.stem, file.resolve().parent, attribute)
    top = place.partition(".")[0]
    folder = Path.cwd()
    if not (folder / top).is_dir() and not (folder / f"{top}.py").is_file():
        raise CommandError(
            f"no server {target!r}",
            f"bundled servers: {', '.join(BUNDLED)}",
            "your own module or file must be in this folder",
        )
    return _own(target, place, folder, attribute)


def _own(target: str, module: str, folder: Path, attribute: str) -> SelectedServer:
    top = module.partition(".")[0]
    if top in RESERVED or not all(part.isidentifier() for part in module.split(".")):
        raise CommandError(
            f"{target!r} cannot be called {top!r} in the function", "give the file another name"
        )
    return SelectedServer(
        target, short_name(module.rpartition(".")[2]), module, folder, f"{module}:{attribute}"
    )


def _table(target: str) -> SelectedServer:
    file = Path(target).expanduser()
    if not file.is_file():
        raise CommandError(f"no file {target!r}", "a table is a TOML file; `toolyard openapi` makes one")
    name = file.name
    return SelectedServer(
        target, short_name(file.stem), module_of(ANY_TABLE), PACKAGE.parent, name, file.resolve()
    )


def short_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9-]+", "-", text).strip("-") or "server"


ServerOptions = dict[str, dict[str, Any]]
"""By the name of the server."""


class FunctionVariables(Struct, frozen=True):
    plain: dict[str, str]
    secret: dict[str, str]


def read_options(options: Iterable[str], servers: list[SelectedServer]) -> ServerOptions:
    """`NAME=VALUE`, or `SERVER.NAME=VALUE` where there are several."""
    found: ServerOptions = {server.name: {} for server in servers}
    for given in options:
        prefix, dot, rest = _split_prefix(given)
        setting, value = read_setting(rest)
        if not dot and len(servers) > 1:
            raise CommandError(
                f"--option {given!r} does not name its server", f"as in {servers[0].name}.{given}"
            )
        server = prefix or servers[0].name
        if server not in found:
            raise CommandError(
                f"--option {given!r}: no server {server!r}", f"the servers are {', '.join(found)}"
            )
        found[server][setting] = value
    return found


def _split_prefix(option: str) -> tuple[str, str, str]:
    """`SERVER`, `.` and `NAME=VALUE`; a dot may be in the value too."""
    name, equals, value = option.partition("=")
    server, dot, setting = name.rpartition(".")
    return server, dot, f"{setting}{equals}{value}"


def option_variables(prefixes: Mapping[str, str], options: ServerOptions) -> FunctionVariables:
    """The settings as variables. The template has only the names of those that look like secrets."""
    plain: dict[str, str] = {}
    secret: dict[str, str] = {}
    for server, settings in options.items():
        for name, value in settings.items():
            if not (prefix := prefixes.get(server, "")):
                raise CommandError(f"{server!r} reads no settings from variables", "set them in its code")
            variable = prefix + name.upper()
            if {**plain, **secret}.get(variable, value) != value:
                raise CommandError(
                    f"two servers would share the variable {variable!r}, with different values"
                )
            if any(secrets_in({"env": {variable: value or "x"}})):
                secret[variable] = str(value)
            else:
                plain[variable] = str(value)
    return FunctionVariables(plain, secret)
