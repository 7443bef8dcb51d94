"""Converts a document: operations become tools, and the tools a readable TOML text."""

import json
import re
from collections import Counter
from typing import Any

import msgspec
from msgspec import Struct

from ..._version import __version__
from ..definition.rules import TOOL_NAME
from . import access, inputs
from .access import base_url
from .document import Node, OpenApiDocument, OpenApiError, node, nodes, short, text
from .operations import ConvertedTool, converted_operations

_BARE = re.compile(r"[A-Za-z0-9_-]+")
WIDTH = 100
MAX_HEADER_NAMES = 6
"""Names in the header of a table; a deeper schema is easier to read in one line."""


def section(path: tuple[str, ...], values: Node) -> list[str]:
    """`[path]` with its values, followed by tables that are too long for a line."""
    inline, below = _split(values, len(path) < MAX_HEADER_NAMES)
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


def _split(values: Node, may_nest: bool) -> tuple[Node, Node]:
    below = {key: value for key, value in values.items() if may_nest and _is_long(key, value)}
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
    """Comment lines; text of the document cannot end the comment."""
    return [f"# {_visible(line)}".rstrip() for line in text.splitlines()]


def _visible(line: str) -> str:
    return "".join(sign if sign.isprintable() else " " for sign in line)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _string(name)


def _string(value: str) -> str:
    # TOML has the escapes of JSON, and needs one more character escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _escaped(value: str) -> str:
    return "\n".join(_string(line)[1:-1] for line in value.split("\n"))


_SHARED_BY = 3


class ConversionOptions(Struct, frozen=True, kw_only=True):
    only: tuple[str, ...] = ()
    """Tags, paths (`/pets*`) or operationIds; empty: all operations."""
    name: str = ""
    base_url: str = ""
    found_at: str = ""
    """The URL of the document; URLs without a host are relative to it."""


class Conversion(Struct, frozen=True):
    text: str
    tools: int
    notes: tuple[str, ...]
    """One line for everything that was left out or guessed."""
    left_out: int = 0
    """The number of operations without a tool."""


def convert(document: OpenApiDocument, options: ConversionOptions, source: str) -> Conversion:
    info = node(document.raw.get("info"))
    name = options.name or inputs.server_name(text(info.get("title")))
    if not TOOL_NAME.fullmatch(name):
        raise OpenApiError(f"{name!r} is not a valid server name", "letters, digits, '_' and '-', 64 at most")
    auth, auth_notes = access.auth(document, name)
    tools = converted_operations(document, options.only, access.credential_locations(document, auth))
    if not tools.made:
        reason = tools.left_out[0] if tools.left_out else "it has no operations"
        raise OpenApiError(f"no operation of the document can become a tool: {reason}")
    head: Node = {"name": name}
    head |= {"title": short(text(info.get("title")), 80)} if info.get("title") else {}
    head["base_url"] = base_url(document, options.base_url, options.found_at)
    head |= {"instructions": short(text(info.get("description")), 1000)} if info.get("description") else {}
    shared = _share(tools.made)
    lines = _introduction(document, source, auth_notes, tools.left_out)
    lines += [pair(key, value) for key, value in head.items()]
    caller = f"x-{name.replace('_', '-').lower()}-key"
    lines += ["", *section(("auth",), auth), f'# caller = ["{caller}"]'] if auth else []
    for key, tables in (("paging", tools.paging), ("shared", shared)):
        for item, values in tables.items():
            lines += ["", *section((key, item), values)]
    for tool in tools.made:
        lines += ["", *_tool_lines(tool)]
    notes = [*auth_notes, *tools.left_out]
    notes += [f"{tool.name}: {note}" for tool in tools.made for note in (*tool.inputs.notes, *tool.notes)]
    return Conversion("\n".join(lines) + "\n", len(tools.made), tuple(notes), len(tools.left_out))


def _introduction(
    document: OpenApiDocument, source: str, auth_notes: list[str], left_out: list[str]
) -> list[str]:
    info = node(document.raw.get("info"))
    titled = f"{text(info.get('title')) or 'an API'} {info.get('version') or ''}".strip()
    lines = comment(
        f"{titled}: generated from {source} by `toolyard openapi` {__version__}; edit it as you like."
    )
    lines += ["# docs/guides/rest.md describes the form of this file."]
    for heading, items in (
        ("To check:", auth_notes),
        (f"Operations without a tool ({len(left_out)}):", left_out),
    ):
        if items:
            lines += ["#", f"# {heading}", *(line for item in items for line in comment(f"- {item}"))]
    return [*lines, ""]


def _share(tools: list[ConvertedTool]) -> dict[str, Node]:
    """Move parameters that several tools share into `[shared]`."""
    counts = Counter(
        (name, _frozen(values)) for tool in tools for name, values in tool.inputs.parameters.items()
    )
    shared: dict[str, Node] = {}
    encoded: dict[str, bytes] = {}
    for (name, values), count in counts.most_common():
        if count >= _SHARED_BY and name not in shared:
            encoded[name] = values
            shared[name] = msgspec.json.decode(values)
    for tool in tools:
        own = tool.inputs.parameters
        used = [name for name in own if name in encoded and _frozen(own[name]) == encoded[name]]
        for name in used:
            del own[name]
        if used:
            tool.values["use"] = used
    return shared


def _frozen(values: Any) -> bytes:
    return msgspec.json.encode(values)


def _tool_lines(tool: ConvertedTool) -> list[str]:
    lines = comment(tool.heading)
    for note in (*tool.inputs.notes, *tool.notes):
        lines += comment(f"Note: {note}")
    values = {key: value for key, value in tool.values.items() if key != "output"}
    if tool.inputs.parameters:
        values["parameters"] = tool.inputs.parameters
    if "output" in tool.values:
        values["output"] = tool.values["output"]
    return [*lines, *section(("tools", tool.name), values)]
