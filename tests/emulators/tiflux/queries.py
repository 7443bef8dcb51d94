"""Query parameters: which kind each is, by its name, and what is refused.

The same name is of the same kind everywhere, except for `status`, which the endpoints look at themselves.
"""

from datetime import date, datetime
from typing import Any

from multidict import MultiMapping

from .refusals import invalid

PAGES = ("offset", "limit")
LARGEST_PAGE = 200
MOST_IDS = 15
BOOLEANS = frozenset(
    {
        "active",
        "show_entities",
        "include_filled_entity",
        "is_closed",
        "include_valorization",
        "canceled",
        "include_entity_fields",
        "can_open_ticket",
        "required",
        "include_manufacturer",
        "include_system",
        "archived",
        "include_description",
        "chats_list",
        "tickets_list",
        "gauth_enabled",
    }
)
NUMBERS = frozenset(
    {
        "client_id",
        "department_id",
        "requestor_id",
        "number",
        "user_id",
        "desk_id",
        "area_id",
        "catalog_id",
        "contract_id",
        "type_id_attr",
        "nfe_number",
        "ticket_number",
        "integration_id",
        "history_of",
    }
)
DATES = frozenset(
    {
        "date",
        "start_date",
        "end_date",
        "billing_start_date",
        "billing_end_date",
        "due_start_date",
        "due_end_date",
    }
)
MOMENTS = frozenset(
    {
        "start_datetime",
        "end_datetime",
        "sla_expiring_before",
        "created_after",
        "created_before",
        "created_at_start",
        "created_at_end",
        "finished_at_start",
        "finished_at_end",
    }
)
CHOICES = {
    "filter_by": ("open", "closed", "canceled", "all"),
    "date_type": ("created_at", "solved_in_time"),
    "group_by": ("day", "week", "month", "desk"),
    "type": ("client", "attendant", "admin"),
    "operation": ("created", "updated", "deleted"),
    "_type": ("billed", "reversed", "paid"),
}


def checked(query: MultiMapping[str], known: tuple[str, ...]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, text in query.items():
        if name not in known:
            raise invalid(name, "is not a known parameter")
        if name in values:
            raise invalid(name, "was given twice")
        values[name] = _value(name, text)
    return values


def _value(name: str, text: str) -> Any:
    if name in PAGES:
        return _page(name, text)
    if name in BOOLEANS:
        return _boolean(name, text)
    if name in NUMBERS:
        return number(name, text)
    if name.endswith("_ids"):
        return _ids(name, text)
    if name in DATES or name in MOMENTS:
        return _moment(name, text)
    if name in CHOICES and text not in CHOICES[name]:
        raise invalid(name, f"must be one of {', '.join(CHOICES[name])}")
    return text


def _page(name: str, text: str) -> int:
    value = number(name, text)
    if value < 1 or (name == "limit" and value > LARGEST_PAGE):
        raise invalid(name, f"must be 1 or more, a limit at most {LARGEST_PAGE}")
    return value


def _boolean(name: str, text: str) -> bool:
    if text not in ("true", "false"):
        raise invalid(name, "must be true or false")
    return text == "true"


def number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise invalid(name, "must be an integer")
    return int(text)


def _ids(name: str, text: str) -> list[int]:
    ids = [number(name, part) for part in text.split(",")]
    if len(ids) > MOST_IDS:
        raise invalid(name, f"cannot have more than {MOST_IDS} items")
    if len(set(ids)) < len(ids):
        raise invalid(name, "cannot have the same item twice")
    return ids


def _moment(name: str, text: str) -> str:
    """The same text: as all are in ISO form, days and moments compare by their beginnings."""
    try:
        date.fromisoformat(text) if name in DATES else datetime.fromisoformat(text)
    except ValueError:
        raise invalid(name, "is not a date in ISO form") from None
    return text
