"""Tickets as things: how one comes to be and how it changes, whichever endpoint or seed wants it."""

from typing import Any

from .refusals import invalid
from .shelves import Json, Shelf, brief
from .tenant import Tenant

OPEN: Json = {"id": 1, "name": "Opened", "default_open": True}
CLOSED: Json = {"id": 2, "name": "Closed", "default_open": False}
CANCELED: Json = {"id": 3, "name": "Canceled", "default_open": False}
STATUSES = {status["id"]: status for status in (OPEN, CLOSED, CANCELED)}


def opened(tenant: Tenant, fields: Json, at: str) -> Json:
    desk = known(tenant.desks, "desk_id", fields["desk_id"])
    who = brief(tenant.me)
    blank: Json = {
        "title": fields["title"], "description": fields["description"], "status": OPEN, "tags": [],
        "priority": brief(tenant.priorities.first(desk["id"])),
        "stage": _stage(tenant.stages.first(desk["id"])),
        "services_catalog": None, "requestor": None, "responsible": None, "followers": "",
        "created_by": {"name": who["name"]}, "created_by_id": who["id"], "created_by_way_of": "api",
        "updated_by": {"name": who["name"]}, "updated_by_id": who["id"], "worked_hours": "00:00",
        "reopen_count": 0, "last_reopen_date": None, "is_closed": False, "is_canceled": False,
        "is_grouped": False, "is_revised": False, "closed_at": None, "created_at": at, "updated_at": at,
        "sla_info": {"attend_sla": "08:00", "attend_expiration": at, "solve_expiration": at,
                     "solved_in_time": True, "stage_expiration": at, "stopped": False},
    }  # fmt: skip
    links = _links(tenant, fields, desk)
    ticket = tenant.tickets.put(**blank | links)
    number = ticket["ticket_number"]
    base = f"https://app.example/{tenant.mark}/tickets/{number}"
    paths = {"url_internal_path": base, "url_external_path": f"{base}/view"}
    return _into(ticket, {"id": 20000 + number, **paths})


def change(tenant: Tenant, ticket: Json, fields: Json) -> Json:
    desk = known(tenant.desks, "desk_id", fields.get("desk_id") or ticket["desk"]["id"])
    plain = {name: fields[name] for name in ("title", "description", "followers") if name in fields}
    moved = {}
    if fields.get("desk_id", ticket["desk"]["id"]) != ticket["desk"]["id"]:
        moved = {"stage": _stage(tenant.stages.first(desk["id"]))}
    return _into(ticket, plain | moved | _links(tenant, fields, desk))


def known(shelf: Shelf, name: str, id: Any, owner: int | None = None) -> Json:
    """What a field refers to; that it is not there is a mistake in the request, no 404."""
    things = list(shelf) if owner is None else shelf.of(owner)
    for thing in things:
        if thing["id"] == id:
            return thing
    raise invalid(name, "does not exist")


def _links(tenant: Tenant, fields: Json, desk: Json) -> Json:
    """The other things that the fields name by id, as a ticket shows them."""
    found: Json = {}
    if fields.get("client_id"):
        client = known(tenant.clients, "client_id", fields["client_id"])
        found["client"] = brief(client, "id", "name", "social", "status")
    if fields.get("desk_id"):
        found["desk"] = brief(desk, "id", "name", "display_name", "active")
    if fields.get("stage_id"):
        found["stage"] = _stage(known(tenant.stages, "stage_id", fields["stage_id"], desk["id"]))
    if fields.get("priority_id"):
        found["priority"] = brief(known(tenant.priorities, "priority_id", fields["priority_id"], desk["id"]))
    if fields.get("status_id"):
        found["status"] = _status(fields["status_id"])
    return found | _people(tenant, fields) | _catalog(tenant, fields)


def _people(tenant: Tenant, fields: Json) -> Json:
    found: Json = {}
    if fields.get("responsible_id"):
        user = known(tenant.users, "responsible_id", fields["responsible_id"])
        found["responsible"] = brief(user, "id", "name", "email", "_type", "active", "technical_group_id")
    if fields.get("requestor_id"):
        requestor = known(tenant.requestors, "requestor_id", fields["requestor_id"])
        found["requestor"] = brief(requestor, "id", "name", "email", "telephone")
    elif fields.get("requestor_name") or fields.get("requestor_email"):
        parts = ("name", "email", "telephone")
        found["requestor"] = {part: fields.get(f"requestor_{part}") for part in parts}
    return found


def _catalog(tenant: Tenant, fields: Json) -> Json:
    if not fields.get("services_catalogs_item_id"):
        return {}
    item = known(tenant.items, "services_catalogs_item_id", fields["services_catalogs_item_id"])
    area, catalog = item["area"], item["catalog"]
    names = {"item_name": item["name"], "area_name": area["name"], "catalog_name": catalog["name"]}
    ids = {"id": item["id"], "area_id": area["id"], "catalog_id": catalog["id"]}
    return {"services_catalog": ids | names}


def _stage(stage: Json) -> Json:
    return brief(stage, "id", "name", "first_stage", "last_stage", "max_time")


def _status(id: int) -> Json:
    if id not in STATUSES:
        raise invalid("status_id", "does not exist")
    return STATUSES[id]


def _into(ticket: Json, fields: Json) -> Json:
    ticket.update(fields)
    return ticket
