"""Loads the `Server` that a target names: `package.module:attribute` or `path/to/file.py:attribute`.

A module may have `build(settings)` instead of a server: the annotation says which settings exist, and
values come from options or from environment variables that begin with the module's ENVIRONMENT. Also
explains missing extras.
"""

import importlib
import importlib.util
import inspect
import os
import sys
import traceback
import typing
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from ..extras import install_command
from .schema.annotations import read_type
from .schema.validation import explain
from .server import Server

BUILD, ENVIRONMENT = "build", "ENVIRONMENT"


class SettingsError(Exception):
    """An unknown setting, or an invalid value; the message names it."""


def can_build(module: ModuleType) -> bool:
    return _settings_type(module) is not None


def build_server(module: ModuleType, options: Mapping[str, Any]) -> Server:
    build: Callable[[Any], Server] = getattr(module, BUILD)
    return build(read_settings(module, options, os.environ))


def read_settings(module: ModuleType, options: Mapping[str, Any], environ: Mapping[str, str]) -> Any:
    kind = _settings_type(module)
    assert kind is not None
    try:
        read_type(kind)
    except TypeError as error:
        raise SettingsError(f"the settings {kind.__qualname__!r}: {error}") from None
    prefix: str = getattr(module, ENVIRONMENT, "")
    names = [field.encode_name for field in msgspec.structs.fields(kind)]
    for name in options:
        if name not in names:
            raise SettingsError(f"unknown setting {name!r}; there are: {', '.join(names)}")
    found = {
        name: environ[prefix + name.upper()] for name in names if prefix and prefix + name.upper() in environ
    }
    try:
        # Not strict: values from the environment and the command line are text.
        return msgspec.convert({**found, **options}, kind, strict=False)
    except msgspec.ValidationError as error:
        raise SettingsError(explain(error)) from None


def _settings_type(module: ModuleType) -> type[msgspec.Struct] | None:
    """The struct that `build` takes. A function `build` with other parameters is not ours."""
    build = getattr(module, BUILD, None)
    names = list(inspect.signature(build).parameters) if inspect.isfunction(build) else []
    if len(names) != 1:
        return None
    kind = typing.get_type_hints(build).get(names[0])
    return kind if isinstance(kind, type) and issubclass(kind, msgspec.Struct) else None


class MissingExtraError(ImportError):
    """A package of an extra is missing; the message has the command that installs it."""


def require_extra(server: str, extra: str, *packages: str) -> None:
    """Raise MissingExtraError unless all of these packages are installed."""
    missing = [name for name in packages if not _is_installed(name)]
    if missing:
        names = " and ".join(missing)
        raise MissingExtraError(f"the server {server!r} needs {names}: {install_command(extra)}")


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # for a.b if there is no a
        return False


DEFAULT_ATTRIBUTE = "server"
FORMS = "a target is package.module:attribute or path/to/file.py:attribute"

_PACKAGE = str(Path(__file__).resolve().parent.parent)


class LoadError(Exception):
    """A target has no server; `hints` say what to do, `details` is a traceback."""

    def __init__(self, message: str, *hints: str, details: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hints = hints
        self.details = details


def load(target: str, debug: bool = False, options: Mapping[str, Any] | None = None) -> Server:
    """Return the server that `target` names, or raise LoadError with a hint.

    If the module has `build(settings)`, it is called with these options.
    """
    place, attribute = split(target)
    module = _load_file(place, debug) if _is_file(place) else _load_module(place, debug)
    if attribute == DEFAULT_ATTRIBUTE and can_build(module):
        return _build(module, place, options or {}, debug)
    if options:
        raise LoadError(f"{place!r} takes no options", "only a module with `build(settings)` does")
    return _server_in(module, place, attribute)


def look_for(target: str) -> None:
    """Raise LoadError if there is no such file or module. Runs nothing of it."""
    place, _ = split(target)
    if _is_file(place):
        _file(place)
        return
    _check_name(place)
    first, *others = place.split(".")
    spec = importlib.util.find_spec(first) or PathFinder.find_spec(first, [os.getcwd()])
    name = first
    for other in others:
        if spec is None or spec.submodule_search_locations is None:
            break
        name = f"{name}.{other}"
        spec = PathFinder.find_spec(name, list(spec.submodule_search_locations))
    if spec is None or (others and name != place):
        raise LoadError(f"no module {place!r}", _missing_module_hint(place))


def _build(module: ModuleType, place: str, options: Mapping[str, Any], debug: bool) -> Server:
    try:
        return build_server(module, options)
    except SettingsError as error:
        raise LoadError(f"{place!r}: {error}") from None
    except MissingExtraError as error:
        raise LoadError(str(error)) from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise _import_failure(place, error, debug) from error


def split(target: str) -> tuple[str, str]:
    """The place and the attribute. In `C:\\server.py` the colon belongs to the place."""
    place, colon, attribute = target.rpartition(":")
    if colon and all(part.isidentifier() for part in attribute.split(".")):
        return place, attribute
    if colon and (not attribute or not _is_file(target)):
        raise LoadError(f"{target!r} is not a target: {attribute!r} is not a name", FORMS)
    return target, DEFAULT_ATTRIBUTE


def _is_file(place: str) -> bool:
    return place.endswith(".py") or "/" in place or os.sep in place


def _load_file(place: str, debug: bool) -> ModuleType:
    path = _file(place)
    name = path.stem if path.stem.isidentifier() and path.stem not in sys.modules else f"_target_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise LoadError(f"{place!r} is not a Python file", FORMS)
    module = importlib.util.module_from_spec(spec)
    # Like `python path`: the file can import its siblings and itself.
    sys.path.insert(0, str(path.parent))
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also SystemExit and authors' own exceptions
        del sys.modules[name]
        raise _import_failure(place, error, debug) from error
    return module


def _file(place: str) -> Path:
    path = Path(place).expanduser().resolve()
    if not path.is_file():
        raise LoadError(f"no file {place!r}", _nearest_file(path) or FORMS)
    return path


def _nearest_file(path: Path) -> str | None:
    if not path.parent.is_dir():
        return f"there is no folder {str(path.parent)!r}"
    found = get_close_matches(path.name, [file.name for file in path.parent.glob("*.py")], 1, 0.6)
    return f"did you mean {found[0]!r}?" if found else None


def _load_module(place: str, debug: bool) -> ModuleType:
    _check_name(place)
    sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if place != missing and not place.startswith(f"{missing}."):
            raise _import_failure(place, error, debug) from error
        raise LoadError(f"no module {missing!r}", _missing_module_hint(place)) from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise _import_failure(place, error, debug) from error


def _check_name(place: str) -> None:
    if not all(part.isidentifier() for part in place.split(".")):
        raise LoadError(f"{place!r} is neither a module nor a file", FORMS)


def _missing_module_hint(place: str) -> str:
    if Path(f"{place}.py").is_file():
        return f"for a file, give its name: {place}.py"
    return f"modules are searched in this folder and in {sys.prefix}"


def _import_failure(place: str, error: BaseException, debug: bool) -> LoadError:
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    hints: list[str] = []
    if isinstance(error, ImportError) and "relative import" in str(error):
        hints.append("name a file of a package by its module: package.module:attribute")
    elif isinstance(error, ModuleNotFoundError):
        hints.append(f"install what provides {error.name!r} for {sys.executable}")
    if not debug:
        hints.append("--debug shows the whole traceback")
    details = "".join(traceback.format_exception(error)) if debug else None
    return LoadError(f"{place!r} failed to import: {what}{_where(error)}", *hints, details=details)


def _where(error: BaseException) -> str:
    """The innermost line that is neither ours nor of the import system."""
    if isinstance(error, SyntaxError):  # its message has file and line
        return ""
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(("<", _PACKAGE + os.sep))
    ]
    return f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""


def _server_in(module: ModuleType, place: str, attribute: str) -> Server:
    found: Any = module
    for name in attribute.split("."):
        if not hasattr(found, name):
            raise LoadError(f"{place!r} has no attribute {attribute!r}", _servers_hint(module, place))
        found = getattr(found, name)
    if isinstance(found, Server):
        return found
    if callable(found):
        advice = f"call it in the file, `server = {attribute}()`, and name what it returns"
    else:
        advice = _servers_hint(module, place)
    raise LoadError(
        f"{f'{place}:{attribute}'!r} is a {type(found).__name__}, not a toolyard.kit.Server", advice
    )


def _servers_hint(module: ModuleType, place: str) -> str:
    names = [name for name, value in vars(module).items() if isinstance(value, Server)]
    if names:
        return "it has " + ", ".join(f"{place}:{name}" for name in names)
    return "it has no server; make one: `server = toolyard.kit.Server('name')`"
