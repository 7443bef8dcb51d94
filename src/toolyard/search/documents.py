"""The data of search: tool documents, queries and hits.

Makes a document from a catalogue entry. The entry is untrusted: anything may be missing or of the wrong
type, and every text is cut, so that no tool takes more than a fair share of the index.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, cast

import msgspec
from msgspec import Struct

from ..catalogue.catalogue import CatalogueEntry

MAX_TITLE = 200
MAX_DESCRIPTION = 4000
MAX_PARAMETER = 300
MAX_PARAMETERS = 64
MAX_DEPTH = 3
"""Levels of nested objects whose members count as parameters."""


_DEPRECATED = re.compile(r"(?:^|[/.:])deprecated$", re.IGNORECASE)
"""A key that marks a tool as deprecated; keys in `_meta` have a prefix."""


_IDENTIFIER = re.compile(
    r"(?:^|_|-)(?:id|ids|key|uuid|guid|iid|sid|slug)$|(?<=[a-z])(?:Id|Ids|ID|Key|Uuid|Slug)$"
)


class ToolDocument(Struct, frozen=True):
    tool: str
    """The full name, by which clients call it."""
    server: str
    name: str
    """The bare name, as its server calls it."""
    title: str = ""
    description: str = ""
    about: str = ""
    """The description of its server in the configuration."""
    parameters: tuple[tuple[str, str], ...] = ()
    """(name, description) of each, including members of nested objects."""
    needs_id: bool = False
    """Whether it has to be told the identifier of one thing."""
    read_only: bool | None = None
    destructive: bool | None = None
    deprecated: bool = False
    """Set by a mark; `ranking` also looks for the word in the description."""
    pinned: bool = False


class ToolQuery(Struct, frozen=True):
    use_case: str
    known_fields: str = ""
    category: str = ""
    server: str = ""
    limit: int | None = None


LEAST_FIT = 0.15
"""The score below which the best tool found does not fit well: fitted to the public sets, with and without
the tools that were needed. Of ten answers below it, eight hold nothing of use."""


class ToolHit(Struct, frozen=True):
    tool: str
    server: str
    score: float
    """From 0 to 1; comparable between queries. The best one's says how likely it is right."""
    parts: dict[str, float] = {}
    """The parts of the score, to explain it."""


def fits_well(scores: Iterable[float]) -> bool:
    """Tell whether anything found for a use case fits it well."""
    return max(scores, default=0.0) >= LEAST_FIT


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
        needs_id=needs_id(rest.get("inputSchema")),
        read_only=_flag(hints.get("readOnlyHint")),
        destructive=_flag(hints.get("destructiveHint")),
        deprecated=_is_marked_deprecated(rest),
        pinned=pinned,
    )


def _is_marked_deprecated(tool: dict[str, Any]) -> bool:
    """Looks for a deprecation mark. MCP defines none, so servers put it in various places."""
    marks = (tool, *(_members(tool.get(key)) for key in ("annotations", "_meta", "inputSchema")))
    return any(
        value is True and _DEPRECATED.search(key) is not None for mark in marks for key, value in mark.items()
    )


def parameters_of(schema: Any) -> tuple[tuple[str, str], ...]:
    """Returns the parameters in an input schema, the outermost first."""
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


def needs_id(schema: Any) -> bool:
    """Tell whether an input schema requires an identifier, by its name (`issue_key`, `pageId`)."""
    required = _members(schema).get("required")
    names = cast(list[Any], required)[:MAX_PARAMETERS] if isinstance(required, list) else []
    return any(isinstance(name, str) and _IDENTIFIER.search(name) is not None for name in names)


def _shapes(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the schemas that may describe a parameter's members: its own, its items', its alternatives'."""
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
