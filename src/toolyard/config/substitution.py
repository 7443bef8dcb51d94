"""`${NAME}` and `${NAME:-default}` in the strings of a server entry.

Editors write `${env:NAME}` for the same and have variables of their own, which only they can fill in.
"""

import os
import re
from collections.abc import Mapping
from typing import Any, cast

from .errors import Unusable, Wrong

# `$${` is how a `${` is written that is none.
_PLACEHOLDER = re.compile(r"\$\$\{|\$\{(?P<body>[^}]*)\}?")
_BODY = re.compile(r"(?:env:)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>.*))?", re.S)
_EDITORS = re.compile(r"(?P<kind>[a-z]+):(?=\w)")
_FOLDERS = ("workspaceFolder", "workspaceFolderBasename", "workspaceRoot")


def substitute(value: Any, env: Mapping[str, str], key: str) -> Any:
    """The value with the variables in all its strings filled in; Unusable names the one that is not set."""
    if isinstance(value, str):
        return _PLACEHOLDER.sub(lambda found: _filled(found, env, key), value) if "${" in value else value
    if isinstance(value, list):
        return [substitute(item, env, key) for item in cast(list[Any], value)]
    if isinstance(value, dict):
        items = cast(dict[str, Any], value).items()
        return {name: substitute(item, env, f"{key}.{name}") for name, item in items}
    return value


def _filled(found: re.Match[str], env: Mapping[str, str], key: str) -> str:
    body = found["body"]
    if body is None:
        return "${"
    parts = _BODY.fullmatch(body) if found[0].endswith("}") else None
    if parts is None:
        raise _not_a_variable(body, key)
    name, default = parts["name"], parts["default"]
    value = env.get(name)
    if value is None and name == "userHome":
        value = os.path.expanduser("~")
    if default is not None:
        return value or default
    if value is None:
        raise _unset(name, key)
    return value


def _unset(name: str, key: str) -> Unusable:
    if name in _FOLDERS:
        return Unusable(
            f"{key!r} uses ${{{name}}}, which only an editor knows",
            f"write the folder in its place, or set the variable {name}",
        )
    hint = f"set it, or give a default: ${{{name}:-default}}"
    return Unusable(f"{key!r} needs the variable {name!r}, which is not set", hint)


def _not_a_variable(body: str, key: str) -> Wrong:
    # What stands in the braces is not quoted: somebody may have put the secret itself there.
    editors = _EDITORS.match(body)
    if editors is not None:
        kind = editors["kind"]
        return Unusable(
            f"{key!r} uses ${{{kind}:...}}, which only an editor can fill in",
            "use an environment variable in its place: ${NAME}",
        )
    hint = "write ${NAME} or ${NAME:-default}; a ${ that is to stay is written $${"
    return Wrong("has a ${ that begins no variable", hint)
