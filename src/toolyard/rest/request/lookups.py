"""Resolves names to ids: reads a list of the API, in which exactly one item must have the name.

A name that is missing or ambiguous is an error that lists the names.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from msgspec import UNSET

from ...kit import ToolError
from ...wire.text import without_marks
from ..definition.model import ApiDefinition, Lookup, ParameterDefinition, ResultDefinition, ToolDefinition
from ..definition.plan import ToolPlan, placeholders
from ..response.result import RestResult, aside, at, tidy
from ..texts import RestTexts, shortened
from .arguments import id_list
from .builder import text

MAX_SHOWN = 10


class NameMatcher:
    """Finds names in the lists of a lookup; errors list the names."""

    def __init__(self, lookup: Lookup, texts: RestTexts) -> None:
        self._lookup = lookup
        self._texts = texts

    def one(self, items: list[Any], wanted: str, *, truncated: bool = False) -> Any:
        """The id of the item with the name; else of the only one that contains it, unless the list is
        `truncated`."""
        same, like = self._matching(items, wanted)
        found = same or like
        if truncated and not same:
            raise self._incomplete(items, wanted, like)
        if not found:
            raise self._not_found(items, wanted)
        ids = self._ids(found)
        if len(ids) > 1:
            raise ToolError(
                self._texts.ambiguous.format(**self._message_fields(wanted), names=self._listed(found))
            )
        return self._known_ids(ids, wanted)[0]

    def all(self, items: list[Any], wanted: str, *, truncated: bool = False) -> list[Any]:
        """The ids of all items that contain the name."""
        _, like = self._matching(items, wanted)
        if truncated:
            raise self._incomplete(items, wanted, like)
        if not like:
            raise self._not_found(items, wanted)
        return self._known_ids(self._ids(like), wanted)

    def _ids(self, found: list[Any]) -> list[Any]:
        """Each id once: an item may be on two pages of a list that grows while it is read."""
        ids: dict[str, Any] = {}
        for item in found:
            id = at(item, self._lookup.id)
            ids.setdefault(text(id), id)
        return list(ids.values())

    def _known_ids(self, ids: list[Any], wanted: str) -> list[Any]:
        known = [id for id in ids if id is not None]
        if not known:
            raise ToolError(self._texts.without_id.format(**self._message_fields(wanted), id=self._lookup.id))
        return known

    def _matching(self, items: list[Any], wanted: str) -> tuple[list[Any], list[Any]]:
        """The items that have the name, and those that contain it."""
        key = folded(wanted)
        if not key:  # only accents, which every name would contain
            return [], []
        names = [(item, [folded(text(at(item, field))) for field in self._lookup.match]) for item in items]
        same = [item for item, known in names if key in known]
        return same, [item for item, known in names if any(key in name for name in known)]

    def _not_found(self, items: list[Any], wanted: str) -> ToolError:
        named = [item for item in items if self._label(item)]
        if items and not named:
            return self.unreadable(wanted)
        hint = self._texts.there_are.format(names=self._listed(named)) if named else ""
        return ToolError(self._texts.not_found.format(**self._message_fields(wanted)) + hint)

    def _incomplete(self, items: list[Any], wanted: str, like: list[Any]) -> ToolError:
        hint = self._texts.found_so_far.format(names=self._listed(like)) if like else ""
        return ToolError(self._texts.list_cut.format(**self._message_fields(wanted), count=len(items)) + hint)

    def unreadable(self, wanted: str) -> ToolError:
        """There is no list, or no item in it has a name."""
        fields = ", ".join(map(repr, self._lookup.match))
        return ToolError(self._texts.no_list.format(**self._message_fields(wanted), fields=fields))

    def _message_fields(self, wanted: str) -> dict[str, str]:
        return {"what": self._lookup.what or "item", "name": shortened(wanted.strip())}

    def _listed(self, items: list[Any]) -> str:
        shown = [
            f"{tidy(self._label(item), 60)} ({tidy(text(at(item, self._lookup.id)), 40) or '?'})"
            for item in items[:MAX_SHOWN]
        ]
        return ", ".join(shown) + (", …" if len(items) > MAX_SHOWN else "")

    def _label(self, item: Any) -> str:
        return next((name for field in self._lookup.match if (name := text(at(item, field)))), "")


def folded(name: str) -> str:
    """The name without case and accents, and with single spaces."""
    return " ".join(without_marks(name).casefold().split())


Read = Callable[[ToolPlan, dict[str, Any]], Awaitable[RestResult]]
"""Takes the plan of a list and the values of its path; returns the list."""
DefaultOf = Callable[[str], Any]
"""The default of a parameter; None if it has none."""


class Lookups:
    """Looks up the names in a call's arguments one after the other: one may need the id of another."""

    def __init__(self, definition: ApiDefinition, texts: RestTexts) -> None:
        self._definition = definition
        self._texts = texts

    async def resolve(
        self, plan: ToolPlan, arguments: dict[str, Any], default_of: DefaultOf, read: Read
    ) -> None:
        """Adds the ids to the arguments. An id that the caller gave is not looked up."""
        pending = {
            name: parameter
            for name, parameter in plan.parameters.items()
            if parameter.lookup and name in arguments and arguments.get(parameter.gives) is None
        }
        while pending:
            name = self._next(pending)
            parameter = pending.pop(name)
            await self._resolve(plan, name, parameter, arguments, default_of, read)

    def _next(self, pending: Mapping[str, ParameterDefinition]) -> str:
        """A parameter that does not need the id of another one."""
        pending_ids = {parameter.gives for parameter in pending.values()}
        for name, parameter in pending.items():
            if not pending_ids & set(placeholders(self._definition.lookups[parameter.lookup].path)):
                return name
        return next(iter(pending))

    async def _resolve(
        self,
        plan: ToolPlan,
        name: str,
        parameter: ParameterDefinition,
        arguments: dict[str, Any],
        default_of: DefaultOf,
        read: Read,
    ) -> None:
        lookup = self._definition.lookups[parameter.lookup]
        target = plan.parameters.get(parameter.gives)
        wanted = str(arguments[name])
        values = self._values(plan, lookup, wanted, arguments, default_of)
        if target is None or not target.ids:
            arguments[parameter.gives] = await self._find(lookup, values, wanted, read)
            return
        names = dict.fromkeys(part.strip() for part in wanted.split(",") if part.strip())
        find = self._find_all if lookup.several else self._find
        found: list[Any] = []
        for one in names:
            result = await find(lookup, values, one, read)
            found += cast(list[Any], result) if lookup.several else [result]
        arguments[parameter.gives] = id_list(parameter.gives, found, target.ids, self._texts)

    def _values(
        self, plan: ToolPlan, lookup: Lookup, wanted: str, arguments: Mapping[str, Any], default_of: DefaultOf
    ) -> dict[str, Any]:
        """The values for the path of the list."""
        values: dict[str, Any] = {}
        fields = {"what": lookup.what, "name": shortened(wanted)}
        for needed in placeholders(lookup.path):
            value = arguments.get(needed)
            if value is None:
                value = default_of(needed)
            if value is None:
                raise ToolError(self._texts.looking_needs.format(**fields, needs=needed))
            parameter = plan.parameters.get(needed)
            if parameter is not None and parameter.ids and "," in str(value):
                raise ToolError(self._texts.looking_one.format(**fields, needs=needed))
            values[needed] = value
        return values

    async def _find(self, lookup: Lookup, values: dict[str, Any], wanted: str, read: Read) -> Any:
        result = await read(self._list_plan(lookup, wanted), dict(values))
        names = NameMatcher(lookup, self._texts)
        items = _items(result, lookup, names, wanted)
        return await aside(result.size, names.one, items, wanted, truncated=result.truncated)

    async def _find_all(self, lookup: Lookup, values: dict[str, Any], wanted: str, read: Read) -> list[Any]:
        result = await read(self._list_plan(lookup, wanted), dict(values))
        names = NameMatcher(lookup, self._texts)
        items = _items(result, lookup, names, wanted)
        return await aside(result.size, names.all, items, wanted, truncated=result.truncated)

    def _list_plan(self, lookup: Lookup, wanted: str) -> ToolPlan:
        """The plan of a tool that reads the list, with all its pages."""
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
        return ToolPlan(lookup.what, tool, self._definition)


def _items(result: RestResult, lookup: Lookup, names: NameMatcher, wanted: str) -> list[Any]:
    """The items of the list; a missing list is empty, another value is an error."""
    if result.items is None and at(result.value, lookup.items) not in (None, UNSET):
        raise names.unreadable(wanted)
    return result.items or []
