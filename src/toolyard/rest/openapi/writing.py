"""A table as TOML that a person likes to read: short things in line, long ones under headers of their own."""

import json
import re
from typing import Any

from .document import Node, node, nodes

_BARE = re.compile(r"[A-Za-z0-9_-]+")
WIDTH = 100
DEEPEST = 6
"""Names in a header; a schema that goes on below is easier to read in one line."""


def section(path: tuple[str, ...], values: Node) -> list[str]:
    """`[path]` with its values; the tables that are too long for a line come after it."""
    inline, below = _parted(values, len(path) < DEEPEST)
    lines: list[str] = []
    if inline or not below:
        lines = [
            f"[{'.'.join(_key(name) for name in path)}]",
            *(pair(key, value) for key, value in inline.items()),
        ]
    for key, value in below.items():
        lines += ["", *section((*path, key), value)] if lines else section((*path, key), value)
    return lines


def pair(key: str, value: Any) -> str:
    return f"{_key(key)} = {_wide(value, len(key))}"


def _parted(values: Node, may_go_on: bool) -> tuple[Node, Node]:
    below = {key: value for key, value in values.items() if may_go_on and _is_long(key, value)}
    return {key: value for key, value in values.items() if key not in below}, below


def _is_long(key: str, value: Any) -> bool:
    return isinstance(value, dict) and bool(node(value)) and len(key) + len(inline(value)) > WIDTH


def _wide(value: Any, before: int) -> str:
    if isinstance(value, str) and "\n" in value:
        return f'"""\n{_escaped(value)}"""'
    if isinstance(value, list) and before + len(inline(value)) > WIDTH:
        return "[\n" + "".join(f"  {inline(item)},\n" for item in nodes(value)) + "]"
    return inline(value)


def inline(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, dict):
        items = [f"{_key(key)} = {inline(item)}" for key, item in node(value).items()]
        return f"{{ {', '.join(items)} }}" if items else "{}"
    return f"[{', '.join(inline(item) for item in nodes(value))}]"


def comment(text: str) -> list[str]:
    """No text of a document ends a comment early, or begins anything else."""
    return [f"# {_visible(line)}".rstrip() for line in text.splitlines()]


def _visible(line: str) -> str:
    return "".join(sign if sign.isprintable() else " " for sign in line)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _string(name)


def _string(value: str) -> str:
    # TOML's escapes are those of JSON; it wants one more character escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _escaped(value: str) -> str:
    return "\n".join(_string(line)[1:-1] for line in value.split("\n"))
