"""From names to ids: a list of the API is asked for, and exactly one of its items must have the name."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from msgspec import UNSET

from ..kit import ToolError
from .arguments import ids
from .names import Names
from .placeholders import placeholders
from .plan import Plan
from .replies import at
from .results import Part
from .table import Lookup, Parameter, Result, Table, Tool
from .wording import Words, shortened

Read = Callable[[Plan, dict[str, Any]], Awaitable[Part]]
"""A list and what its path needs, to what the API says there."""
Known = Callable[[str], Any]
"""A parameter's value if the caller gives none; None when there is none either."""


class Lookups:
    """The names among a call's arguments, looked up one after the other: one may need what another gives."""

    def __init__(self, table: Table, words: Words) -> None:
        self._table = table
        self._words = words

    async def resolve(self, plan: Plan, arguments: dict[str, Any], known: Known, read: Read) -> None:
        """Puts the ids among the arguments. An id that the caller gave itself is not looked up."""
        pending = {
            name: parameter
            for name, parameter in plan.parameters.items()
            if parameter.lookup and name in arguments and arguments.get(parameter.gives) is None
        }
        while pending:
            name = self._next(pending)
            parameter = pending.pop(name)
            await self._resolve(plan, name, parameter, arguments, known, read)

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
        read: Read,
    ) -> None:
        lookup = self._table.lookups[parameter.lookup]
        target = plan.parameters.get(parameter.gives)
        wanted = str(arguments[name])
        values = self._values(plan, lookup, wanted, arguments, known)
        if target is None or not target.ids:
            arguments[parameter.gives] = await self._find(lookup, values, wanted, read)
            return
        names = dict.fromkeys(part.strip() for part in wanted.split(",") if part.strip())
        find = self._find_several if lookup.several else self._find
        found: list[Any] = []
        for one in names:
            result = await find(lookup, values, one, read)
            found += cast(list[Any], result) if lookup.several else [result]
        arguments[parameter.gives] = ids(parameter.gives, found, target.ids, self._words)

    def _values(
        self, plan: Plan, lookup: Lookup, wanted: str, arguments: Mapping[str, Any], known: Known
    ) -> dict[str, Any]:
        """What the path of the list needs."""
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
        return values

    async def _find(self, lookup: Lookup, values: dict[str, Any], wanted: str, read: Read) -> Any:
        part = await read(self._looking(lookup, wanted), dict(values))
        names = Names(lookup, self._words)
        return names.only(_items(part, lookup, names, wanted), wanted, cut=part.truncated)

    async def _find_several(
        self, lookup: Lookup, values: dict[str, Any], wanted: str, read: Read
    ) -> list[Any]:
        part = await read(self._looking(lookup, wanted), dict(values))
        names = Names(lookup, self._words)
        return names.several(_items(part, lookup, names, wanted), wanted, cut=part.truncated)

    def _looking(self, lookup: Lookup, wanted: str) -> Plan:
        """The list as a tool would read it, with all its pages where it has them."""
        query = {
            name: value.replace("{name}", wanted) if isinstance(value, str) else value
            for name, value in lookup.query.items()
        }
        tool = Tool(
            description=lookup.what,
            path=lookup.path,
            fixed=query,
            paging=lookup.paging,
            all_pages=bool(lookup.paging),
            result=Result(items=lookup.items),
        )
        return Plan(lookup.what, tool, self._table)


def _items(part: Part, lookup: Lookup, names: Names, wanted: str) -> list[Any]:
    """The list that was read; nothing at its place is an empty one, anything else is none."""
    if part.items is None and at(part.value, lookup.items) not in (None, UNSET):
        raise names.unreadable(wanted)
    return part.items or []
