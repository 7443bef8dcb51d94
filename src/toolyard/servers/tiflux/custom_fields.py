"""Custom fields by their names: the API knows ids only, of fields and of the options that can be chosen."""

from collections.abc import Iterable
from typing import Any, cast

from ...kit import ToolError
from ...rest.arguments import whole
from ...rest.engine import Fetch
from ...rest.lookups import folded
from ...rest.replies import at
from ...rest.wording import Words, shortened
from .wording import Own

Entry = dict[str, Any]
SENT = ("entity_field_id", "value", "entity_field_option_id", "country_code")
MOST = {"limit": 200}


class CustomFields:
    """What one call asks for; each list is fetched once."""

    def __init__(self, fetch: Fetch, words: Words, own: Own) -> None:
        self._fetch = fetch
        self._words = words
        self._own = own
        self._lists: dict[str, list[Any]] = {}

    async def by_id(self, entries: list[Entry]) -> list[Entry]:
        """The same entries as the API takes them."""
        plain = ({name: whole(value) for name, value in entry.items()} for entry in entries)
        return [await self._entry(index, entry) for index, entry in enumerate(plain)]

    async def _entry(self, index: int, entry: Entry) -> Entry:
        field = entry.get("entity_field_id")
        if field is None:
            field = await self._field(index, entry)
        found = {**entry, "entity_field_id": field}
        if entry.get("entity_field_option_id") is None and (option := entry.get("entity_field_option_name")):
            options = await self._list(f"/entity_fields/{field}/options")
            found["entity_field_option_id"] = self._only(self._own.option, options, option, "value")
        return {name: found[name] for name in SENT if found.get(name) is not None}

    async def _field(self, index: int, entry: Entry) -> Any:
        entity, field = entry.get("entity_name"), entry.get("entity_field_name")
        if not entity or not field:
            raise ToolError(self._own.field_unnamed.format(index=index))
        owner = self._only(self._own.entity, await self._list("/entities"), entity, "name")
        return self._only(self._own.field, await self._list(f"/entities/{owner}/fields"), field, "name")

    async def _list(self, path: str) -> list[Any]:
        if path not in self._lists:
            found = await self._fetch("GET", path, MOST)
            self._lists[path] = cast(list[Any], found) if isinstance(found, list) else []
        return self._lists[path]

    def _only(self, what: str, items: list[Any], name: str, label: str) -> Any:
        """The id of the one that has the name, else of the only one that contains it."""
        named = [(folded(str(at(item, label))), item) for item in items]
        wanted = folded(name)
        same = [item for known, item in named if known == wanted]
        like = same or [item for known, item in named if wanted and wanted in known]
        if len(like) == 1:
            return at(like[0], "id")
        told = {"what": what, "name": shortened(name)}
        if like:
            raise ToolError(self._words.ambiguous.format(**told, names=_shown(like, label)))
        hint = self._words.there_are.format(names=_shown(items, label)) if items else ""
        raise ToolError(self._words.not_found.format(**told) + hint)


def _shown(items: Iterable[Any], label: str) -> str:
    return ", ".join(f"{shortened(at(item, label), 60)} ({at(item, 'id')})" for item in list(items)[:10])
