"""The shape of a value as a compact schema: `{"id": "integer", "tags": ["string", "3 items"]}`."""

from typing import Any, cast

from .tables import LONGEST_NAME, cut, type_name

DEEPEST = 3
WIDEST = 15


def shape_of(value: Any, depth: int = DEEPEST) -> Any:
    if isinstance(value, dict):
        members = cast(dict[str, Any], value)
        return f"object of {len(members)}" if depth == 0 else _of_object(members, depth)
    if isinstance(value, list):
        items = cast(list[Any], value)
        if not items or depth == 0:
            return f"list of {len(items)}"
        return [shape_of(items[0], depth - 1), f"{len(items)} items"]
    return type_name(value)


def _of_object(members: dict[str, Any], depth: int) -> dict[str, Any]:
    first = list(members.items())[:WIDEST]
    shown = {cut(name, LONGEST_NAME): shape_of(item, depth - 1) for name, item in first}
    if len(members) > WIDEST:
        shown["…"] = f"{len(members) - WIDEST} more"
    return shown
