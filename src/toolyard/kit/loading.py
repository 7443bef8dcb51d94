"""From `package.module:attribute` or `path/to/file.py:attribute` to the `Server` it names."""

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from .extras import MissingExtra
from .making import WrongSettings, can_make, make
from .server import Server

DEFAULT_ATTRIBUTE = "server"
FORMS = "a target is package.module:attribute or path/to/file.py:attribute"

_PACKAGE = str(Path(__file__).resolve().parent.parent)


class LoadError(Exception):
    """There is no server there; `hints` say what to do, `details` are a traceback."""

    def __init__(self, message: str, *hints: str, details: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hints = hints
        self.details = details


def load(target: str, debug: bool = False, options: Mapping[str, Any] | None = None) -> Server:
    """The server that `target` names; LoadError with a hint when there is none.

    A module with `build(settings)` is asked to make one, with these options.
    """
    place, attribute = split(target)
    module = _load_file(place, debug) if _is_file(place) else _load_module(place, debug)
    if attribute == DEFAULT_ATTRIBUTE and can_make(module):
        return _made(module, place, options or {}, debug)
    if options:
        raise LoadError(f"{place!r} takes no options", "only a module with `build(settings)` does")
    return _server_in(module, place, attribute)


def _made(module: ModuleType, place: str, options: Mapping[str, Any], debug: bool) -> Server:
    try:
        return make(module, options)
    except WrongSettings as error:
        raise LoadError(f"{place!r}: {error}") from None
    except MissingExtra as error:
        raise LoadError(str(error)) from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise _import_failure(place, error, debug) from error


def split(target: str) -> tuple[str, str]:
    """The place and the attribute. A colon of another kind (`C:\\server.py`) belongs to the place."""
    place, colon, attribute = target.rpartition(":")
    if colon and all(part.isidentifier() for part in attribute.split(".")):
        return place, attribute
    if colon and (not attribute or not _is_file(target)):
        raise LoadError(f"{target!r} is not a target: {attribute!r} is not a name", FORMS)
    return target, DEFAULT_ATTRIBUTE


def _is_file(place: str) -> bool:
    return place.endswith(".py") or "/" in place or os.sep in place


def _load_file(place: str, debug: bool) -> ModuleType:
    path = Path(place).expanduser().resolve()
    if not path.is_file():
        raise LoadError(f"no file {place!r}", _nearest_file(path) or FORMS)
    name = path.stem if path.stem.isidentifier() and path.stem not in sys.modules else f"_target_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise LoadError(f"{place!r} is not a Python file", FORMS)
    module = importlib.util.module_from_spec(spec)
    # As if it were run by `python path`: its siblings can be imported, and it can find itself.
    sys.path.insert(0, str(path.parent))
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit, and what authors derive
        del sys.modules[name]
        raise _import_failure(place, error, debug) from error
    return module


def _nearest_file(path: Path) -> str | None:
    if not path.parent.is_dir():
        return f"there is no folder {str(path.parent)!r}"
    found = get_close_matches(path.name, [file.name for file in path.parent.glob("*.py")], 1, 0.6)
    return f"did you mean {found[0]!r}?" if found else None


def _load_module(place: str, debug: bool) -> ModuleType:
    if not all(part.isidentifier() for part in place.split(".")):
        raise LoadError(f"{place!r} is neither a module nor a file", FORMS)
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


def _missing_module_hint(place: str) -> str:
    if Path(f"{place}.py").is_file():
        return f"for a file, give its name: {place}.py"
    return f"modules are looked for in this folder and in {sys.prefix}"


def _import_failure(place: str, error: BaseException, debug: bool) -> LoadError:
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    hints: list[str] = []
    if isinstance(error, ImportError) and "relative import" in str(error):
        hints.append("a file of a package is named by its module: package.module:attribute")
    elif isinstance(error, ModuleNotFoundError):
        hints.append(f"install what provides {error.name!r} for {sys.executable}")
    if not debug:
        hints.append("--debug shows the whole traceback")
    details = "".join(traceback.format_exception(error)) if debug else None
    return LoadError(f"{place!r} failed to import: {what}{_where(error)}", *hints, details=details)


def _where(error: BaseException) -> str:
    """The author's own line: the innermost one that is neither ours nor the import system's."""
    if isinstance(error, SyntaxError):  # its message has file and line already
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
