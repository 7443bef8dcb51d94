"""Custom fields by their names: the API knows ids only, of fields and of the options that can be chosen."""

from typing import Any, cast

from ...kit import ToolError
from ...rest.arguments import whole
from ...rest.engine import Fetch
from ...rest.names import Names
from ...rest.table import Lookup
from ...rest.wording import Words
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
            found["entity_field_option_id"] = self._names(self._own.option, "value").only(options, option)
        return {name: found[name] for name in SENT if found.get(name) is not None}

    async def _field(self, index: int, entry: Entry) -> Any:
        entity, field = entry.get("entity_name"), entry.get("entity_field_name")
        if not entity or not field:
            raise ToolError(self._own.field_unnamed.format(index=index))
        owner = self._names(self._own.entity).only(await self._list("/entities"), entity)
        return self._names(self._own.field).only(await self._list(f"/entities/{owner}/fields"), field)

    async def _list(self, path: str) -> list[Any]:
        if path not in self._lists:
            found = await self._fetch("GET", path, MOST)
            self._lists[path] = cast(list[Any], found) if isinstance(found, list) else []
        return self._lists[path]

    def _names(self, what: str, label: str = "name") -> Names:
        return Names(Lookup(path="", match=(label,), what=what), self._words)
