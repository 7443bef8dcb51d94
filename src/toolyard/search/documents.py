"""What search knows of a tool, what it is asked, and what it answers.

Makes a document from a catalogue entry. Its words come from a stranger: anything may be missing or of
the wrong type, and every text is cut, so that no tool takes more than a fair share of the index.
"""

import re
from collections.abc import Iterator
from typing import Any, cast

import msgspec
from msgspec import Struct

from ..catalogue.catalogue import CatalogueEntry

MAX_TITLE = 200
MAX_DESCRIPTION = 4000
MAX_PARAMETER = 300
MAX_PARAMETERS = 64
MAX_DEPTH = 3
"""Of objects inside objects whose members are still called parameters."""


_DEPRECATED = re.compile(r"(?:^|[/.:])deprecated$", re.IGNORECASE)
"""A key of such a mark; those in `_meta` have a prefix."""


class ToolDocument(Struct, frozen=True):
    tool: str
    """The full name, under which it is called."""
    server: str
    name: str
    """The bare name, as its server calls it."""
    title: str = ""
    description: str = ""
    about: str = ""
    """What the configuration says of its server."""
    parameters: tuple[tuple[str, str], ...] = ()
    """(name, description) of each, members of nested objects too."""
    read_only: bool | None = None
    destructive: bool | None = None
    deprecated: bool = False
    """Marked so; one that says it in its description only is told by its words."""
    pinned: bool = False


class ToolQuery(Struct, frozen=True):
    use_case: str
    known_fields: str = ""
    category: str = ""
    server: str = ""
    limit: int | None = None


class ToolHit(Struct, frozen=True):
    tool: str
    server: str
    score: float
    """From 0 to 1; comparable between queries."""
    parts: dict[str, float] = {}
    """Where the score came from, for whoever asks why."""


def document_of(entry: CatalogueEntry, pinned: bool) -> ToolDocument:
    rest = cast(dict[str, Any], msgspec.json.decode(b"{" + entry.item.rest))
    hints = _members(rest.get("annotations"))
    return ToolDocument(
        tool=entry.name,
        server=entry.server,
        name=entry.bare,
        title=(_text(rest.get("title")) or _text(hints.get("title")))[:MAX_TITLE],
        description=_text(rest.get("description"))[:MAX_DESCRIPTION],
        about=entry.about,
        parameters=parameters_of(rest.get("inputSchema")),
        read_only=_flag(hints.get("readOnlyHint")),
        destructive=_flag(hints.get("destructiveHint")),
        deprecated=_is_marked_deprecated(rest),
        pinned=pinned,
    )


def _is_marked_deprecated(tool: dict[str, Any]) -> bool:
    """By a mark beside its words. MCP has none of its own, so servers put it where they can."""
    marks = (tool, *(_members(tool.get(key)) for key in ("annotations", "_meta", "inputSchema")))
    return any(
        value is True and _DEPRECATED.search(key) is not None for mark in marks for key, value in mark.items()
    )


def parameters_of(schema: Any) -> tuple[tuple[str, str], ...]:
    """The parameters that an input schema names, the outermost first."""
    found: dict[str, str] = {}
    level = [_members(schema)]
    for _ in range(MAX_DEPTH):
        inner: list[dict[str, Any]] = []
        for part in level:
            for name, member in _members(part.get("properties")).items():
                if len(found) >= MAX_PARAMETERS:
                    return tuple(found.items())
                described = _members(member)
                found.setdefault(name, _text(described.get("description"))[:MAX_PARAMETER])
                inner.extend(_shapes(described))
        level = inner
    return tuple(found.items())


def _shapes(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Where the members of a parameter are described: in itself, in its items, in its alternatives."""
    yield schema
    yield _members(schema.get("items"))
    for key in ("anyOf", "oneOf", "allOf"):
        choices = schema.get(key)
        if isinstance(choices, list):
            yield from map(_members, cast(list[Any], choices))


def _members(value: Any) -> dict[str, Any]:
    return cast(dict[str, Any], value) if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None
