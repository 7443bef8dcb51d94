"""The servers that were chosen: where their code is, and what the function will call them."""

import re
from pathlib import Path

from msgspec import Struct

from ...config.bundled import BUNDLED, is_table, module_of
from .. import target as targets
from ..failure import Failure

PACKAGE = Path(__file__).resolve().parents[2]
"""The folder of Toolyard itself."""
ANY_TABLE = "rest"
NEED_MORE = {"browser": "it needs Chromium; the guide on containers has a way to run it"}
"""Servers that come with Toolyard and cannot work in a function, and why."""
RESERVED = {"function", "bootstrap", PACKAGE.name}


class Chosen(Struct, frozen=True):
    target: str
    """As it was typed."""
    name: str
    """Short, for names that are made of it."""
    module: str
    folder: Path
    """Where that module is found."""
    called: str
    """What the function is told to load: a bundled name, a module of the zip or a table in it."""
    table: Path | None = None


def choose(target: str) -> Chosen:
    """What the user typed, or Failure when there is no such thing."""
    if target == ANY_TABLE:
        raise Failure(f"{target!r} alone serves nothing", "name the table: toolyard deploy lambda crm.toml")
    if target in NEED_MORE:
        raise Failure(f"{target!r} cannot be a function", NEED_MORE[target])
    if target in BUNDLED:
        return Chosen(target, target, module_of(target), PACKAGE.parent, target)
    if is_table(target):
        return _table(target)
    place, attribute = targets.split(target)
    file = Path(place).expanduser()
    if place.endswith(".py") or "/" in place:
        if not file.is_file():
            raise Failure(f"no file {place!r}", "name a server of Toolyard, a file or a module")
        return _own(target, file.stem, file.resolve().parent, attribute)
    top = place.partition(".")[0]
    folder = Path.cwd()
    if not (folder / top).is_dir() and not (folder / f"{top}.py").is_file():
        raise Failure(
            f"no server {target!r}",
            f"those that come with Toolyard: {', '.join(BUNDLED)}",
            "a module or a file of your own must be in this folder",
        )
    return _own(target, place, folder, attribute)


def _own(target: str, module: str, folder: Path, attribute: str) -> Chosen:
    top = module.partition(".")[0]
    if top in RESERVED or not all(part.isidentifier() for part in module.split(".")):
        raise Failure(f"{target!r} cannot be called {top!r} in the function", "give the file another name")
    return Chosen(target, short(module.rpartition(".")[2]), module, folder, f"{module}:{attribute}")


def _table(target: str) -> Chosen:
    file = Path(target).expanduser()
    if not file.is_file():
        raise Failure(f"no file {target!r}", "a table is a TOML file; `toolyard openapi` makes one")
    name = file.name
    return Chosen(target, short(file.stem), module_of(ANY_TABLE), PACKAGE.parent, name, file.resolve())


def short(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9-]+", "-", text).strip("-") or "server"
