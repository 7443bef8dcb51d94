"""The file of variables that a configuration names as `env_file`: its form, and how the process gets them.

Nothing reads one by itself: an `.env` that happens to lie in a folder decides nothing.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .errors import ConfigError, ConfigValueError
from .files import display_path
from .models import EnvFile
from .values import nonempty

MAX_FILE = 1 << 20
_SKIPPED = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)+")
_VARIABLE = re.compile(
    r"""[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*
    (?:'(?P<single>[^']*)'|"(?P<double>(?:[^"\\]|\\.)*)"|(?P<plain>(?:[^\s'"\#][^\n]*?)?))
    (?:[ \t]+\#[^\n]*)?[ \t]*\n""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}

_given: dict[str, str] = {}
"""What the process has from such a file: a changed value replaces it, and never one of the shell."""


def with_env_file(
    own: Mapping[str, Any], file: Path, env: Mapping[str, str]
) -> tuple[Mapping[str, str], EnvFile | None]:
    """The environment together with the variables of the file that is named in `own`.

    A variable that is set already stays as it is. If `env` is the process's, then the process gets them too:
    servers and exporters read their keys there.
    """
    if "env_file" not in own:
        return env, None
    try:
        path = file.parent / os.path.expanduser(nonempty(own["env_file"]))
    except ConfigValueError as error:
        raise ConfigError(f"{display_path(file)}: 'env_file' {error.message}", 'as in ".env"') from None
    found = _read(path, file)
    is_ours = env is os.environ
    new = {
        name: value
        for name, value in found.items()
        if name not in env or (is_ours and env[name] == _given.get(name))
    }
    if is_ours:
        os.environ.update(new)
        _given.update(new)
    names = EnvFile(path=path, names=tuple(new), already_set=tuple(name for name in found if name not in new))
    return {**env, **new}, names


def _read(path: Path, file: Path) -> dict[str, str]:
    named = f"{display_path(file)}: 'env_file' names {display_path(path)!r}"
    try:
        with path.open("rb") as opened:
            raw = opened.read(MAX_FILE + 1)
    except FileNotFoundError:
        raise ConfigError(f"{named}, which does not exist", f"looked for it at {path}") from None
    except OSError as error:
        raise ConfigError(f"{named}, which cannot be read: {error.strerror or error}") from None
    if len(raw) > MAX_FILE:
        raise ConfigError(f"{named}, which has more than {MAX_FILE:,} bytes")
    try:
        return parse(raw.decode("utf-8-sig"), path)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{display_path(path)} is not UTF-8 (byte {error.start})") from None


def parse(text: str, path: Path) -> dict[str, str]:
    """`NAME=value` lines. The error does not quote a line, since it may hold a secret."""
    text = text.replace("\r\n", "\n") + "\n"
    found: dict[str, str] = {}
    at = 0
    while at < len(text):
        if skipped := _SKIPPED.match(text, at):
            at = skipped.end()
            continue
        line = _VARIABLE.match(text, at)
        if line is None or "\0" in line[0]:
            number = text.count("\n", 0, at) + 1
            raise ConfigError(
                f"{display_path(path)}, line {number}: is not NAME=value",
                "quote a value with blanks, quotes or a # in it, and close the quote",
            )
        if line["double"] is not None:
            value = re.sub(
                r"\\(.)", lambda one: _ESCAPED.get(one[1], one[1]), line["double"], flags=re.DOTALL
            )
        else:
            value = line["single"] if line["single"] is not None else line["plain"]
        found[line["name"]] = value
        at = line.end()
    return found
