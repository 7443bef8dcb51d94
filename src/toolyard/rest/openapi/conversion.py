"""Converts a document: operations become tools, and the tools a TOML text that a person likes to read."""

import json
import re
from collections import Counter
from typing import Any

import msgspec
from msgspec import Struct

from ... import __version__
from ..definition.rules import TOOL_NAME
from . import access, inputs
from .access import base_url
from .document import Node, OpenApiDocument, OpenApiError, node, nodes, short, text
from .operations import ConvertedTool, converted_operations

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


_SHARED_BY = 3


class ConversionOptions(Struct, frozen=True, kw_only=True):
    only: tuple[str, ...] = ()
    """Tags, paths (`/pets*`) or operationIds; all when there are none."""
    name: str = ""
    base_url: str = ""
    found_at: str = ""
    """The URL of the document, which addresses without a host are below."""


class Conversion(Struct, frozen=True):
    text: str
    tools: int
    notes: tuple[str, ...]
    """What was left out or guessed, one line each."""
    left_out: int = 0
    """Operations that no tool was made of."""


def convert(document: OpenApiDocument, wishes: ConversionOptions, source: str) -> Conversion:
    info = node(document.raw.get("info"))
    name = wishes.name or inputs.server_name(text(info.get("title")))
    if not TOOL_NAME.fullmatch(name):
        raise OpenApiError(f"{name!r} is no name of a server", "letters, digits, '_' and '-', 64 at most")
    auth, said = access.auth(document, name)
    tools = converted_operations(document, wishes.only, access.credential_locations(document, auth))
    if not tools.made:
        told = tools.left_out[0] if tools.left_out else "it has no operations"
        raise OpenApiError(f"nothing of the document can become a tool: {told}")
    head: Node = {"name": name}
    head |= {"title": short(text(info.get("title")), 80)} if info.get("title") else {}
    head["base_url"] = base_url(document, wishes.base_url, wishes.found_at)
    head |= {"instructions": short(text(info.get("description")), 1000)} if info.get("description") else {}
    shared = _share(tools.made)
    lines = _introduction(document, source, said, tools.left_out)
    lines += [pair(key, value) for key, value in head.items()]
    caller = f"x-{name.replace('_', '-').lower()}-key"
    lines += ["", *section(("auth",), auth), f'# caller = ["{caller}"]'] if auth else []
    for key, tables in (("paging", tools.paging), ("shared", shared)):
        for item, values in tables.items():
            lines += ["", *section((key, item), values)]
    for tool in tools.made:
        lines += ["", *_written(tool)]
    notes = [*said, *tools.left_out]
    notes += [f"{tool.name}: {note}" for tool in tools.made for note in (*tool.drawing.notes, *tool.notes)]
    return Conversion("\n".join(lines) + "\n", len(tools.made), tuple(notes), len(tools.left_out))


def _introduction(document: OpenApiDocument, source: str, said: list[str], left_out: list[str]) -> list[str]:
    info = node(document.raw.get("info"))
    titled = f"{text(info.get('title')) or 'an API'} {info.get('version') or ''}".strip()
    lines = comment(
        f"{titled}: made of {source} by `toolyard openapi` {__version__}, to be edited from here."
    )
    lines += ["# The form of this file is described in docs/guides/rest.md."]
    for heading, items in (
        ("To be looked at:", said),
        (f"Operations without a tool ({len(left_out)}):", left_out),
    ):
        if items:
            lines += ["#", f"# {heading}", *(line for item in items for line in comment(f"- {item}"))]
    return [*lines, ""]


def _share(tools: list[ConvertedTool]) -> dict[str, Node]:
    """What several tools have in common is said once."""
    counts = Counter(
        (name, _frozen(values)) for tool in tools for name, values in tool.drawing.parameters.items()
    )
    shared: dict[str, Node] = {}
    marks: dict[str, bytes] = {}
    for (name, mark), count in counts.most_common():
        if count >= _SHARED_BY and name not in shared:
            marks[name] = mark
            shared[name] = msgspec.json.decode(mark)
    for tool in tools:
        own = tool.drawing.parameters
        used = [name for name in own if name in marks and _frozen(own[name]) == marks[name]]
        for name in used:
            del own[name]
        if used:
            tool.values["use"] = used
    return shared


def _frozen(values: Any) -> bytes:
    return msgspec.json.encode(values)


def _written(tool: ConvertedTool) -> list[str]:
    lines = comment(tool.heading)
    for note in (*tool.drawing.notes, *tool.notes):
        lines += comment(f"Note: {note}")
    values = {key: value for key, value in tool.values.items() if key != "output"}
    if tool.drawing.parameters:
        values["parameters"] = tool.drawing.parameters
    if "output" in tool.values:
        values["output"] = tool.values["output"]
    return [*lines, *section(("tools", tool.name), values)]
