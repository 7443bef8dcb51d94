"""The whole of it: operations become tools, and the tools a text."""

from collections import Counter
from typing import Any

import msgspec
from msgspec import Struct

from ... import __version__
from ..words import TOOL_NAME
from . import names, security
from .addresses import base_url
from .document import Document, DocumentError, Node, node, text
from .operations import DrawnTool, drawn
from .schemas import short
from .writing import comment, pair, section

_SHARED_BY = 3


class Wishes(Struct, frozen=True, kw_only=True):
    only: tuple[str, ...] = ()
    """Tags, paths (`/pets*`) or operationIds; all when there are none."""
    name: str = ""
    base_url: str = ""
    found_at: str = ""
    """The URL of the document, which addresses without a host are below."""


class Made(Struct, frozen=True):
    text: str
    tools: int
    notes: tuple[str, ...]
    """What was left out or guessed, one line each."""
    left_out: int = 0
    """Operations that no tool was made of."""


def convert(document: Document, wishes: Wishes, source: str) -> Made:
    info = node(document.raw.get("info"))
    name = wishes.name or names.server_name(text(info.get("title")))
    if not TOOL_NAME.fullmatch(name):
        raise DocumentError(f"{name!r} is no name of a server", "letters, digits, '_' and '-', 64 at most")
    auth, said = security.auth(document, name)
    tools = drawn(document, wishes.only, security.keys(document, auth))
    if not tools.made:
        told = tools.left_out[0] if tools.left_out else "it has no operations"
        raise DocumentError(f"nothing of the document can become a tool: {told}")
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
    return Made("\n".join(lines) + "\n", len(tools.made), tuple(notes), len(tools.left_out))


def _introduction(document: Document, source: str, said: list[str], left_out: list[str]) -> list[str]:
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


def _share(tools: list[DrawnTool]) -> dict[str, Node]:
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


def _written(tool: DrawnTool) -> list[str]:
    lines = comment(tool.heading)
    for note in (*tool.drawing.notes, *tool.notes):
        lines += comment(f"Note: {note}")
    values = {key: value for key, value in tool.values.items() if key != "output"}
    if tool.drawing.parameters:
        values["parameters"] = tool.drawing.parameters
    if "output" in tool.values:
        values["output"] = tool.values["output"]
    return [*lines, *section(("tools", tool.name), values)]
