"""What the table cannot say: steps between the arguments and the request, by the names of tools."""

from collections.abc import Mapping
from typing import Any

from ...kit import ToolError
from ...kit.languages import Locale
from ...rest.engine import Fetch, Prepare
from ...rest.replies import at
from ...rest.requests import filled_path
from ...rest.wording import words
from .custom_fields import CustomFields
from .periods import NoPeriod, before
from .wording import own

Arguments = dict[str, Any]
OF_THE_DESK = ("stage_name", "priority_name", "catalog_item_name")
"""Names that mean something at one desk only."""


def steps(locale: Locale) -> Mapping[str, Prepare]:
    said, ours = words(locale), own(locale)

    async def custom_fields(arguments: Arguments, fetch: Fetch) -> Arguments:
        entries = await CustomFields(fetch, said, ours).by_id(arguments["entities"])
        return {**arguments, "entities": entries}

    async def comparison(arguments: Arguments, fetch: Fetch) -> Arguments:
        names = ("compare_start_datetime", "compare_end_datetime")
        given = [name for name in names if arguments.get(name)]
        if len(given) == 1:
            raise ToolError(ours.half_period)
        if given:
            return arguments
        try:
            other = before(arguments["start_datetime"], arguments["end_datetime"])
        except NoPeriod as error:
            raise ToolError(ours.no_period.format(name=str(error))) from None
        return {**arguments, **dict(zip(names, other, strict=True))}

    async def desk_of_ticket(arguments: Arguments, fetch: Fetch) -> Arguments:
        """Where no desk is named, its names are looked for at the one that the ticket is at."""
        named = any(arguments.get(name) for name in OF_THE_DESK)
        if not named or arguments.get("desk_id") or arguments.get("desk_name"):
            return arguments
        ticket = await fetch("GET", filled_path("/tickets/{ticket_number}", arguments, said), None)
        desk = at(ticket, "desk.id")
        return arguments if desk is None else {**arguments, "desk_id": desk}

    return {
        "update_ticket": desk_of_ticket,
        "get_tickets_comparison": comparison,
        "update_ticket_entities": custom_fields,
        "update_client_entities": custom_fields,
        "update_requestor_entities": custom_fields,
    }
