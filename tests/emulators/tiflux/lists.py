"""Lists: filters by query parameters, and pages, whose number the API calls `offset`."""

from collections.abc import Iterable
from typing import Any

from .asked import Asked, Reply
from .shelves import Json

Fields = dict[str, str]
"""From query parameters to the dotted paths of what they are about."""


def value_at(thing: Any, path: str) -> Any:
    for name in path.split("."):
        thing = thing.get(name) if isinstance(thing, dict) else None
    return thing


def matching(
    asked: Asked,
    things: Iterable[Json],
    *,
    same: Fields | None = None,
    holds: Fields | None = None,
    among: Fields | None = None,
    since: Fields | None = None,
    until: Fields | None = None,
) -> list[Json]:
    """Those that have what the query says; parameters that were not given say nothing."""
    tests = [
        (same, lambda value, wanted: value == wanted),
        (holds, lambda value, wanted: wanted.casefold() in str(value or "").casefold()),
        (among, lambda value, wanted: value in wanted),
        (since, lambda value, wanted: bool(value) and value >= wanted),
        (until, lambda value, wanted: bool(value) and value[: len(wanted)] <= wanted),
    ]
    kept = list(things)
    for fields, test in tests:
        for name, path in (fields or {}).items():
            if (wanted := asked.query.get(name)) is not None:
                kept = [thing for thing in kept if test(value_at(thing, path), wanted)]
    return kept


def page(asked: Asked, things: Iterable[Json]) -> Reply:
    every = list(things)
    size = asked.query.get("limit", 20)
    begin = (asked.query.get("offset", 1) - 1) * size
    return Reply(every[begin : begin + size], total=len(every))
