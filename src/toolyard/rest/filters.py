"""Filters that the API does not have: of a list, the items in which a field has what was asked for."""

from collections.abc import Mapping
from typing import Any, cast

from .names import folded
from .plan import Plan
from .replies import at
from .requests import text


class Filter:
    """What the arguments ask for; false when they ask for nothing."""

    def __init__(self, plan: Plan, arguments: Mapping[str, Any]) -> None:
        self._wanted = [
            (arguments[name], fields)
            for name, fields in plan.tool.filters.items()
            if arguments.get(name) not in (None, "")
        ]

    def __bool__(self) -> bool:
        return bool(self._wanted)

    def fits(self, item: Any) -> bool:
        return all(any(_has(at(item, field), value) for field in fields) for value, fields in self._wanted)


def _has(found: Any, wanted: Any) -> bool:
    if isinstance(found, list):
        return any(_has(one, wanted) for one in cast(list[Any], found))
    if isinstance(wanted, str):
        return found is not None and folded(wanted) in folded(text(found))
    return (type(found) is not bool and found == wanted) or found is wanted
