"""From names to ids: a list of the API is asked for, and exactly one of its items must have the name."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from ..kit import ToolError
from .arguments import ids
from .names import Names
from .plan import Plan, placeholders
from .replies import at
from .requests import filled_path
from .table import Lookup, Parameter, Table
from .wording import Words, shortened

Fetch = Callable[[str, Mapping[str, Any]], Awaitable[Any]]
"""Path and query to what the API says there."""
Known = Callable[[str], Any]
"""A parameter's value if the caller gives none; None when there is none either."""


class Lookups:
    """The names among a call's arguments, looked up one after the other: one may need what another gives."""

    def __init__(self, table: Table, words: Words) -> None:
        self._table = table
        self._words = words

    async def resolve(self, plan: Plan, arguments: dict[str, Any], known: Known, fetch: Fetch) -> None:
        """Puts the ids among the arguments. An id that the caller gave itself is not looked up."""
        pending = {
            name: parameter
            for name, parameter in plan.parameters.items()
            if parameter.lookup and name in arguments and arguments.get(parameter.gives) is None
        }
        while pending:
            name = self._next(pending)
            parameter = pending.pop(name)
            await self._resolve(plan, name, parameter, arguments, known, fetch)

    def _next(self, pending: Mapping[str, Parameter]) -> str:
        """One that does not wait for what another of them gives."""
        coming = {parameter.gives for parameter in pending.values()}
        for name, parameter in pending.items():
            if not coming & set(placeholders(self._table.lookups[parameter.lookup].path)):
                return name
        return next(iter(pending))

    async def _resolve(
        self,
        plan: Plan,
        name: str,
        parameter: Parameter,
        arguments: dict[str, Any],
        known: Known,
        fetch: Fetch,
    ) -> None:
        lookup = self._table.lookups[parameter.lookup]
        target = plan.parameters.get(parameter.gives)
        wanted = str(arguments[name])
        path = self._path(plan, lookup, wanted, arguments, known)
        if target is None or not target.ids:
            arguments[parameter.gives] = await self._find(lookup, path, wanted, fetch)
            return
        names = dict.fromkeys(part.strip() for part in wanted.split(",") if part.strip())
        find = self._find_several if lookup.several else self._find
        found: list[Any] = []
        for one in names:
            result = await find(lookup, path, one, fetch)
            found += cast(list[Any], result) if lookup.several else [result]
        arguments[parameter.gives] = ids(parameter.gives, found, target.ids, self._words)

    def _path(
        self, plan: Plan, lookup: Lookup, wanted: str, arguments: Mapping[str, Any], known: Known
    ) -> str:
        values: dict[str, Any] = {}
        told = {"what": lookup.what, "name": shortened(wanted)}
        for needed in placeholders(lookup.path):
            value = arguments.get(needed)
            if value is None:
                value = known(needed)
            if value is None:
                raise ToolError(self._words.looking_needs.format(**told, needs=needed))
            parameter = plan.parameters.get(needed)
            if parameter is not None and parameter.ids and "," in str(value):
                raise ToolError(self._words.looking_one.format(**told, needs=needed))
            values[needed] = value
        return filled_path(lookup.path, values, self._words)

    async def _find(self, lookup: Lookup, path: str, wanted: str, fetch: Fetch) -> Any:
        items = await self._items(lookup, path, wanted, fetch)
        return Names(lookup, self._words).only(items, wanted)

    async def _find_several(self, lookup: Lookup, path: str, wanted: str, fetch: Fetch) -> list[Any]:
        items = await self._items(lookup, path, wanted, fetch)
        return Names(lookup, self._words).several(items, wanted)

    async def _items(self, lookup: Lookup, path: str, wanted: str, fetch: Fetch) -> list[Any]:
        query = {
            name: value.replace("{name}", wanted) if isinstance(value, str) else value
            for name, value in lookup.query.items()
        }
        found = at(await fetch(path, query), lookup.items)
        return cast(list[Any], found) if isinstance(found, list) else []
