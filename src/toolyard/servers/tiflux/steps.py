"""Steps between a tool's arguments and its request that the table cannot express.

Finds custom fields by name, the period before a period, and the desk of a ticket. Texts are in both
languages.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from msgspec import Struct

from ...kit import ToolError
from ...languages import Locale
from ...rest.definition.model import Lookup
from ...rest.engine import Fetch, Prepare
from ...rest.request.arguments import whole_number
from ...rest.request.builder import filled_path
from ...rest.request.lookups import NameMatcher
from ...rest.response.result import at
from ...rest.texts import RestTexts, texts_for


class TifluxTexts(Struct, frozen=True, kw_only=True):
    entity: str
    field: str
    option: str
    field_unnamed: str
    no_period: str
    half_period: str


ENGLISH = TifluxTexts(
    entity="entity",
    field="custom field",
    option="option",
    field_unnamed="entities[{index}] needs entity_field_id, or entity_name and entity_field_name.",
    no_period="{name!r} must be an ISO 8601 time, and the end must be after the start.",
    half_period="Pass both 'compare_start_datetime' and 'compare_end_datetime', or neither.",
)

PORTUGUESE = TifluxTexts(
    entity="entidade",
    field="campo personalizado",
    option="opção",
    field_unnamed="entities[{index}] precisa de entity_field_id, ou de entity_name e entity_field_name.",
    no_period="{name!r} deve ser um instante em ISO 8601, e o fim deve ser depois do início.",
    half_period="Informe 'compare_start_datetime' e 'compare_end_datetime', ou nenhum dos dois.",
)


def texts_of(locale: Locale) -> TifluxTexts:
    return PORTUGUESE if locale == "pt" else ENGLISH


FieldEntry = dict[str, Any]
SENT = ("entity_field_id", "value", "entity_field_option_id", "country_code")
PAGE_SIZE = {"limit": 200}


class CustomFields:
    """Resolves the custom fields of one call; fetches each list once."""

    def __init__(self, fetch: Fetch, rest_texts: RestTexts, texts: TifluxTexts) -> None:
        self._fetch = fetch
        self._rest_texts = rest_texts
        self._texts = texts
        self._lists: dict[str, list[Any]] = {}

    async def by_id(self, entries: list[FieldEntry]) -> list[FieldEntry]:
        """Returns the entries with ids, as the API takes them."""
        plain = ({name: whole_number(value) for name, value in entry.items()} for entry in entries)
        return [await self._entry(index, entry) for index, entry in enumerate(plain)]

    async def _entry(self, index: int, entry: FieldEntry) -> FieldEntry:
        field = entry.get("entity_field_id")
        if field is None:
            field = await self._field(index, entry)
        found = {**entry, "entity_field_id": field}
        if entry.get("entity_field_option_id") is None and (option := entry.get("entity_field_option_name")):
            options = await self._list(f"/entity_fields/{field}/options")
            found["entity_field_option_id"] = self._names(self._texts.option, "value").one(options, option)
        return {name: found[name] for name in SENT if found.get(name) is not None}

    async def _field(self, index: int, entry: FieldEntry) -> Any:
        entity, field = entry.get("entity_name"), entry.get("entity_field_name")
        if not entity or not field:
            raise ToolError(self._texts.field_unnamed.format(index=index))
        owner = self._names(self._texts.entity).one(await self._list("/entities"), entity)
        return self._names(self._texts.field).one(await self._list(f"/entities/{owner}/fields"), field)

    async def _list(self, path: str) -> list[Any]:
        if path not in self._lists:
            found = await self._fetch("GET", path, PAGE_SIZE)
            self._lists[path] = cast(list[Any], found) if isinstance(found, list) else []
        return self._lists[path]

    def _names(self, what: str, label: str = "name") -> NameMatcher:
        return NameMatcher(Lookup(path="", match=(label,), what=what), self._rest_texts)


class PeriodError(ValueError):
    """The message names the argument at fault."""


def previous_period(start: str, end: str) -> tuple[str, str]:
    """A period of the same length that ends one second before this one starts."""
    first, last = _moment("start_datetime", start), _moment("end_datetime", end)
    if last <= first:
        raise PeriodError("end_datetime")
    try:
        end_before = first - timedelta(seconds=1)
        return (end_before - (last - first)).isoformat(), end_before.isoformat()
    except OverflowError:  # before the year 1
        raise PeriodError("start_datetime") from None


def _moment(name: str, text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise PeriodError(name) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


Arguments = dict[str, Any]
DESK_NAMES = ("stage_name", "priority_name", "catalog_item_name")
"""Names that depend on the desk."""


def steps(locale: Locale) -> Mapping[str, Prepare]:
    rest_texts, texts = texts_for(locale), texts_of(locale)

    async def custom_fields(arguments: Arguments, fetch: Fetch) -> Arguments:
        entries = await CustomFields(fetch, rest_texts, texts).by_id(arguments["entities"])
        return {**arguments, "entities": entries}

    async def comparison(arguments: Arguments, fetch: Fetch) -> Arguments:
        names = ("compare_start_datetime", "compare_end_datetime")
        given = [name for name in names if arguments.get(name)]
        if len(given) == 1:
            raise ToolError(texts.half_period)
        if given:
            return arguments
        try:
            other = previous_period(arguments["start_datetime"], arguments["end_datetime"])
        except PeriodError as error:
            raise ToolError(texts.no_period.format(name=str(error))) from None
        return {**arguments, **dict(zip(names, other, strict=True))}

    async def desk_of_ticket(arguments: Arguments, fetch: Fetch) -> Arguments:
        """Without a desk, resolves names at the desk of the ticket."""
        named = any(arguments.get(name) for name in DESK_NAMES)
        if not named or arguments.get("desk_id") or arguments.get("desk_name"):
            return arguments
        ticket = await fetch("GET", filled_path("/tickets/{ticket_number}", arguments, rest_texts), None)
        desk = at(ticket, "desk.id")
        return arguments if desk is None else {**arguments, "desk_id": desk}

    return {
        "update_ticket": desk_of_ticket,
        "get_tickets_comparison": comparison,
        "update_ticket_entities": custom_fields,
        "update_client_entities": custom_fields,
        "update_requestor_entities": custom_fields,
    }
