"""Reads configuration files as plain data (TOML, or JSON with comments); finds the state and cache folders.

Owns the syntax of a file and how its path is shown. `servers` and `tables` give its keys their meaning.
"""

import os
import re
import tomllib
from pathlib import Path
from typing import Any, cast

import msgspec

from ..file_access import refusal
from .errors import ConfigError
from .models import Config

_TOML_PLACE = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$")
_JSON_PLACE = re.compile(r"\s*\((?:byte|position) (\d+)\)$")
# Strings come first, so that a comment or a comma inside one is left alone.
_STRING = r'"(?:[^"\\]|\\.)*"'
_COMMENT = re.compile(rf"{_STRING}|(?P<unwanted>//[^\n]*|/\*.*?\*/)", re.S)
_TRAILING_COMMA = re.compile(rf"{_STRING}|(?P<unwanted>,)(?=\s*[\]}}])", re.S)


def read(path: Path) -> dict[str, Any]:
    """The table in a file. ConfigError names the file and, for a syntax error, the line."""
    try:
        content = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigError(f"no file {display_path(path)!r}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{display_path(path)} is not UTF-8 (byte {error.start})") from None
    except OSError as error:
        found = refusal(path)
        hint = None if found is None else f"{found.reason}: {found.hint}"
        raise ConfigError(f"cannot read {display_path(path)!r}: {error.strerror or error}", hint) from None
    return parse(content, path)


def parse(content: str, path: Path) -> dict[str, Any]:
    """Parse a text that is, or will be, the content of `path`."""
    return _toml(content, path) if is_toml(path) else _json(content, path)


def is_toml(path: Path) -> bool:
    return path.suffix.lower() == ".toml"


def display_path(path: Path) -> str:
    """The shortest form of a path: relative to the current folder or to home, if it is below one."""
    try:
        here = Path.cwd()
    except OSError:  # the current folder has been removed
        return str(path)
    for base, prefix in ((here, ""), (Path(os.path.expanduser("~")), "~/")):
        if path.is_absolute() and path.is_relative_to(base) and path != base:
            return f"{prefix}{path.relative_to(base).as_posix()}"
    return str(path)


def _toml(content: str, path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        place = _TOML_PLACE.search(message)
        line = int(place[1]) if place and place[1] else content.count("\n") + 1
        raise _malformed(path, line, _TOML_PLACE.sub("", message)) from None
    except ValueError:  # Python limits the digits of a number
        raise ConfigError(f"{display_path(path)} has a number that is too long") from None
    except RecursionError:
        raise ConfigError(f"{display_path(path)} is nested too deeply") from None


def _json(content: str, path: Path) -> dict[str, Any]:
    plain = without_comments(content)
    try:
        found: Any = msgspec.json.decode(plain) if plain.strip() else {}
    except msgspec.DecodeError as error:
        message = str(error)
        place = _JSON_PLACE.search(message)
        before = plain.encode()[: int(place[1])].decode(errors="replace") if place else plain.rstrip()
        reason = _JSON_PLACE.sub("", message).removeprefix("JSON is malformed: ")
        raise _malformed(path, before.count("\n") + 1, reason) from None
    except RecursionError:
        raise ConfigError(f"{display_path(path)} is nested too deeply") from None
    if not isinstance(found, dict):
        raise ConfigError(f"{display_path(path)} is not a JSON object")
    return cast(dict[str, Any], found)


def has_comments(content: str) -> bool:
    return any(found["unwanted"] for found in _COMMENT.finditer(content))


def without_comments(content: str) -> str:
    """Remove comments and trailing commas. Blanks replace them, so that line numbers stay right."""

    def blank(found: re.Match[str]) -> str:
        if found["unwanted"] is None:
            return found[0]
        return "".join(character if character == "\n" else " " for character in found[0])

    return _TRAILING_COMMA.sub(blank, _COMMENT.sub(blank, content))


def _malformed(path: Path, line: int, reason: str) -> ConfigError:
    return ConfigError(f"{display_path(path)}, line {line}: {reason[:1].lower()}{reason[1:]}")


def state_home() -> Path | None:
    """The folder for data that outlives a process; None if this user has no home."""
    base = os.environ.get("XDG_STATE_HOME", "")
    try:
        # The XDG specification says to ignore a relative path.
        home = Path(base) if os.path.isabs(base) else Path.home() / ".local" / "state"
    except RuntimeError:
        return None
    return home / "toolyard"


def cache_home() -> Path | None:
    """The folder for data that can be made again; None if this user has no home."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        home = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    except RuntimeError:
        return None
    return home / "toolyard"


def state_folder(config: Config) -> Path | None:
    """The folder in which a gateway with this configuration keeps its data."""
    given = config.gateway.state_dir
    return Path(given).expanduser() if given else state_home()


def config_identity(config: Config) -> str:
    """Distinguishes configurations that share a state folder, by their file."""
    return os.path.realpath(config.files[0]) if config.files else ""
