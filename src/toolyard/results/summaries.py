"""A summary with as much of its detail as there is room for."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

from .cutting import size_of
from .tables import short

Summary = dict[str, Any]
SHORTER_EXAMPLE = 16
FEWER_COLUMNS = (8, 4)
_EXAMPLES = ("example", "values", "min", "max")
_DETAILS = ("example", "values", "min", "max", "distinct", "nulls")
"""Of columns: what goes first is named first."""
_PARTS = (
    *("around", "shape", "last_lines", "headings", "first_lines", "columns", "items", "levels", "keys"),
    *("sample_columns", "item_types", "title", "uri", "path"),
)
_ALWAYS = ("approx_size_bytes", "kind")


def fitted(summary: Summary, room: int) -> Summary:
    """Its size and kind at the worst."""
    found = dict(summary)
    for reduce in _steps():
        if size_of(found) <= room:
            return found
        found = reduce(found)
    return found if size_of(found) <= room else {name: found[name] for name in _ALWAYS if name in found}


def _steps() -> Iterator[Callable[[Summary], Summary]]:
    yield partial(_changed, _with_shorter_examples)
    for detail in _DETAILS:
        yield partial(_changed, partial(_without, detail))
    for most in FEWER_COLUMNS:
        yield partial(_with_fewer_columns, most)
    for part in _PARTS:
        yield partial(_without, part)


def _changed(change: Callable[[dict[str, Any]], dict[str, Any]], summary: Summary) -> Summary:
    """Each of its columns."""
    columns = cast(list[dict[str, Any]], summary.get("columns", []))
    return {**summary, "columns": [change(column) for column in columns]} if columns else summary


def _with_shorter_examples(column: dict[str, Any]) -> dict[str, Any]:
    return {name: _shorter(value) if name in _EXAMPLES else value for name, value in column.items()}


def _shorter(value: Any) -> Any:
    if isinstance(value, list):
        return [short(one, SHORTER_EXAMPLE) for one in cast(list[Any], value)]
    return short(value, SHORTER_EXAMPLE)


def _without(name: str, members: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in members.items() if key != name}


def _with_fewer_columns(most: int, summary: Summary) -> Summary:
    columns = summary.get("columns")
    return summary if columns is None else {**summary, "columns": columns[:most]}
