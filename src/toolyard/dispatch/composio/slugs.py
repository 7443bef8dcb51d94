"""Tools that are named inside the arguments and the results of Composio's meta tools.

A tool that may not be used is unknown there too. What runs code in Composio's sandbox can call tools
without naming them to us; whoever denies tools has to deny COMPOSIO_REMOTE_* as well.
"""

from collections.abc import Callable, Iterator
from typing import Any, cast

import msgspec

Admits = Callable[[str], bool]

META = "COMPOSIO_"
SEARCH = ("COMPOSIO_SEARCH_TOOLS", "COMPOSIO_GET_TOOL_SCHEMAS")
_JSON = ("{", "[", '"')
"""How a text begins that can be a table or a list; what is in it may be written in escapes."""
MAX_DEPTH = 128
"""Requests that nest deeper do not get here."""


def may_use(slug: str, admits: Admits) -> bool:
    """Composio's names are in capitals, and it may not insist on that."""
    return admits(slug) and admits(slug.strip().upper())


def named(arguments: Any, depth: int = 0) -> Iterator[str]:
    """Every tool that arguments name, however deep: a meta tool can be handed another one's arguments."""
    if depth > MAX_DEPTH:
        return
    if isinstance(arguments, dict):
        for key, value in cast(dict[str, Any], arguments).items():
            if key == "tool_slug" and isinstance(value, str):
                yield value
            elif key.endswith("tool_slugs") and isinstance(value, list):
                yield from (slug for slug in cast(list[Any], value) if isinstance(slug, str))
            yield from named(value, depth + 1)
    elif isinstance(arguments, list):
        for value in cast(list[Any], arguments):
            yield from named(value, depth + 1)
    elif isinstance(arguments, str) and arguments.lstrip()[:1] in _JSON:
        yield from named(_decoded(arguments), depth + 1)


def _decoded(text: str) -> Any:
    """Models write objects as texts at times, and not every server minds."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None


def without_denied(data: Any, admits: Admits, depth: int = 0) -> Any:
    """A search's result without the tools that may not be used."""
    if depth > MAX_DEPTH:
        return data
    if isinstance(data, list):
        return [without_denied(value, admits, depth + 1) for value in cast(list[Any], data)]
    if not isinstance(data, dict):
        return data
    found: dict[str, Any] = {}
    for key, value in cast(dict[str, Any], data).items():
        if key.endswith("tool_slugs") and isinstance(value, list):
            slugs = cast(list[Any], value)
            value = [slug for slug in slugs if not isinstance(slug, str) or may_use(slug, admits)]
        elif key == "tool_schemas" and isinstance(value, dict):
            schemas = cast(dict[str, Any], value)
            value = {slug: schema for slug, schema in schemas.items() if may_use(slug, admits)}
        found[key] = without_denied(value, admits, depth + 1)
    return found
