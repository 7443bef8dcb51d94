"""Resolves names to ids: asks the API for a list, in which exactly one item must have the name.

A name that is not found or not unique is an error that shows what there is.
"""

import unicodedata
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from msgspec import UNSET

from ...kit import ToolError
from ..definition.model import ApiDefinition, Lookup, ParameterDefinition, ResultDefinition, ToolDefinition
from ..definition.plan import ToolPlan, placeholders
from ..response.result import RestResult, at, tidy
from ..texts import RestTexts, shortened
from .arguments import id_list
from .builder import text

MOST_SHOWN = 10


class NameMatcher:
    """The names in the lists of a lookup. What is not found, or is not clear, is told with what there is."""

    def __init__(self, lookup: Lookup, words: RestTexts) -> None:
        self._lookup = lookup
        self._words = words

    def only(self, items: list[Any], wanted: str, *, cut: bool = False) -> Any:
        """The id of the item that has the name; else of the only one that contains it, which nobody knows
        of a list that was `cut`."""
        same, like = self._matching(items, wanted)
        found = same or like
        if cut and not same:
            raise self._cut(items, wanted, like)
        if not found:
            raise self._not_found(items, wanted)
        known = self._ids(found)
        if len(known) > 1:
            raise ToolError(self._words.ambiguous.format(**self._told(wanted), names=self._listed(found)))
        return self._told_ids(known, wanted)[0]

    def several(self, items: list[Any], wanted: str, *, cut: bool = False) -> list[Any]:
        """The ids of all that contain the name."""
        _, like = self._matching(items, wanted)
        if cut:
            raise self._cut(items, wanted, like)
        if not like:
            raise self._not_found(items, wanted)
        return self._told_ids(self._ids(like), wanted)

    def _ids(self, found: list[Any]) -> list[Any]:
        """Each once: a list that grows while its pages are read shows an item on two of them."""
        known: list[Any] = []
        for item in found:
            if (id := at(item, self._lookup.id)) not in known:
                known.append(id)
        return known

    def _told_ids(self, known: list[Any], wanted: str) -> list[Any]:
        told = [id for id in known if id is not None]
        if not told:
            raise ToolError(self._words.without_id.format(**self._told(wanted), id=self._lookup.id))
        return told

    def _matching(self, items: list[Any], wanted: str) -> tuple[list[Any], list[Any]]:
        """The items that have the name, and those that contain it."""
        key = folded(wanted)
        if not key:  # nothing but accents, which would be in every name
            return [], []
        names = [(item, [folded(text(at(item, field))) for field in self._lookup.match]) for item in items]
        same = [item for item, known in names if key in known]
        return same, [item for item, known in names if any(key in name for name in known)]

    def _not_found(self, items: list[Any], wanted: str) -> ToolError:
        named = [item for item in items if self._label(item)]
        if items and not named:
            return self.unreadable(wanted)
        hint = self._words.there_are.format(names=self._listed(named)) if named else ""
        return ToolError(self._words.not_found.format(**self._told(wanted)) + hint)

    def _cut(self, items: list[Any], wanted: str, like: list[Any]) -> ToolError:
        hint = self._words.found_so_far.format(names=self._listed(like)) if like else ""
        return ToolError(self._words.list_cut.format(**self._told(wanted), count=len(items)) + hint)

    def unreadable(self, wanted: str) -> ToolError:
        """There is no list, or nothing in it has a name."""
        fields = ", ".join(map(repr, self._lookup.match))
        return ToolError(self._words.no_list.format(**self._told(wanted), fields=fields))

    def _told(self, wanted: str) -> dict[str, str]:
        return {"what": self._lookup.what or "item", "name": shortened(wanted.strip())}

    def _listed(self, items: list[Any]) -> str:
        shown = [
            f"{tidy(self._label(item), 60)} ({tidy(text(at(item, self._lookup.id)), 40) or '?'})"
            for item in items[:MOST_SHOWN]
        ]
        return ", ".join(shown) + (", …" if len(items) > MOST_SHOWN else "")

    def _label(self, item: Any) -> str:
        return next((name for field in self._lookup.match if (name := text(at(item, field)))), "")


def folded(name: str) -> str:
    """A name as people compare names: without case and accents, and with single blanks."""
    plain = unicodedata.normalize("NFKD", name)
    return " ".join("".join(mark for mark in plain if not unicodedata.combining(mark)).casefold().split())


Read = Callable[[ToolPlan, dict[str, Any]], Awaitable[RestResult]]
"""A list and what its path needs, to what the API says there."""
Known = Callable[[str], Any]
"""A parameter's value if the caller gives none; None when there is none either."""


class Lookups:
    """The names among a call's arguments, looked up one after the other: one may need what another gives."""

    def __init__(self, table: ApiDefinition, words: RestTexts) -> None:
        self._table = table
        self._words = words

    async def resolve(self, plan: ToolPlan, arguments: dict[str, Any], known: Known, read: Read) -> None:
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

    def _next(self, pending: Mapping[str, ParameterDefinition]) -> str:
        """One that does not wait for what another of them gives."""
        coming = {parameter.gives for parameter in pending.values()}
        for name, parameter in pending.items():
            if not coming & set(placeholders(self._table.lookups[parameter.lookup].path)):
                return name
        return next(iter(pending))

    async def _resolve(
        self,
        plan: ToolPlan,
        name: str,
        parameter: ParameterDefinition,
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
        arguments[parameter.gives] = id_list(parameter.gives, found, target.ids, self._words)

    def _values(
        self, plan: ToolPlan, lookup: Lookup, wanted: str, arguments: Mapping[str, Any], known: Known
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
        names = NameMatcher(lookup, self._words)
        return names.only(_items(part, lookup, names, wanted), wanted, cut=part.truncated)

    async def _find_several(
        self, lookup: Lookup, values: dict[str, Any], wanted: str, read: Read
    ) -> list[Any]:
        part = await read(self._looking(lookup, wanted), dict(values))
        names = NameMatcher(lookup, self._words)
        return names.several(_items(part, lookup, names, wanted), wanted, cut=part.truncated)

    def _looking(self, lookup: Lookup, wanted: str) -> ToolPlan:
        """The list as a tool would read it, with all its pages where it has them."""
        query = {
            name: value.replace("{name}", wanted) if isinstance(value, str) else value
            for name, value in lookup.query.items()
        }
        tool = ToolDefinition(
            description=lookup.what,
            path=lookup.path,
            fixed=query,
            paging=lookup.paging,
            all_pages=bool(lookup.paging),
            result=ResultDefinition(items=lookup.items),
        )
        return ToolPlan(lookup.what, tool, self._table)


def _items(part: RestResult, lookup: Lookup, names: NameMatcher, wanted: str) -> list[Any]:
    """The list that was read; nothing at its place is an empty one, anything else is none."""
    if part.items is None and at(part.value, lookup.items) not in (None, UNSET):
        raise names.unreadable(wanted)
    return part.items or []
