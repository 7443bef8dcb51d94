"""Tickets themselves: lists, counts, one of them, opening, changing, closing."""

from collections import Counter

from ..asked import Asked, Reply, made
from ..bodies import MIB, Body
from ..clock import NOW
from ..lists import matching, page
from ..making import stored
from ..refusals import Refusal, invalid
from ..shelves import Json
from ..ticketing import CANCELED, CLOSED, OPEN, change, known, opened
from .endpoint import Answer, Endpoint, get, pages, post, put
from .entities import filled, written

FILTERS = (
    "filter_by is_closed requestor_email date_type group_by sla_expiring_before start_datetime end_datetime "
    "services_catalogs_item_ids priority_ids desk_ids client_ids stage_ids responsible_ids requestor_ids"
)
AMONG = {
    "desk_ids": "desk.id",
    "client_ids": "client.id",
    "stage_ids": "stage.id",
    "responsible_ids": "responsible.id",
    "requestor_ids": "requestor.id",
    "priority_ids": "priority.id",
    "services_catalogs_item_ids": "services_catalog.id",
}
STATES = {"open": OPEN, "closed": CLOSED, "canceled": CANCELED}
DATES = {"created_at": "created_at", "solved_in_time": "closed_at"}


def list_tickets(asked: Asked) -> Reply:
    if "is_closed" in asked.query and "filter_by" in asked.query:
        raise invalid("is_closed", "cannot be given beside filter_by")
    when = DATES[asked.query.get("date_type", "created_at")]
    found = matching(
        asked,
        (_listed(ticket) for ticket in asked.tenant.tickets),
        same={"is_closed": "is_closed", "requestor_email": "requestor.email"},
        among=AMONG,
        since={"start_datetime": when},
        until={"end_datetime": when, "sla_expiring_before": "sla_info.solve_expiration"},
    )
    state = asked.query.get("filter_by", "all")
    if state != "all":
        found = [ticket for ticket in found if ticket["status"] == STATES[state]]
    if "group_by" in asked.query:
        return _counted(asked, found, when)
    return page(asked, found)


def _listed(ticket: Json) -> Json:
    return {name: value for name, value in ticket.items() if name not in ("description", "entities")}


def _counted(asked: Asked, found: list[Json], when: str) -> Reply:
    by = asked.query["group_by"]
    length = {"day": 10, "week": 10, "month": 7}.get(by, 0)
    periods = (ticket["desk"]["name"] if by == "desk" else (ticket[when] or "")[:length] for ticket in found)
    buckets = [{"period": period, "count": count} for period, count in sorted(Counter(periods).items())]
    dates = asked.query.get("date_type", "created_at")
    return Reply({"group_by": by, "date_type": dates, "total": len(found), "buckets": buckets})


def get_ticket(asked: Asked) -> Reply:
    ticket = asked.tenant.tickets.one(asked.ids["ticket"])
    shown = {name: value for name, value in ticket.items() if name != "entities"}
    if asked.query.get("show_entities"):
        shown["entities"] = filled(asked.tenant, ticket, "tickets")
    if asked.query.get("include_filled_entity"):
        shown["entity_fields"] = ticket.get("entities", [])
    return Reply(shown)


def create_ticket(asked: Asked) -> Reply:
    if asked.body.get("ticket_reference_number"):
        tickets = {ticket["ticket_number"] for ticket in asked.tenant.tickets}
        if asked.body["ticket_reference_number"] not in tickets:
            raise invalid("ticket_reference_number", "does not exist")
    known(asked.tenant.clients, "client_id", asked.body["client_id"])
    ticket = opened(asked.tenant, asked.body, NOW)
    ticket["followers"] = asked.body.get("followers", "")
    for file in asked.files:
        asked.tenant.files.put(
            ticket["ticket_number"],
            **stored(asked.tenant, file.filename, file.content_type, len(file.content)),
        )
    return made({"ticket": ticket})


def update_ticket(asked: Asked) -> Reply:
    ticket = asked.tenant.tickets.one(asked.ids["ticket"])
    if not asked.body:
        raise invalid("ticket", "can't be blank")
    ticket = change(asked.tenant, ticket, asked.body)
    ticket["updated_at"] = NOW
    return Reply(ticket)


def _ending(status: Json, said: str) -> Answer:
    def end(asked: Asked) -> Reply:
        ticket = asked.tenant.tickets.one(asked.ids["ticket"])
        if ticket["status"] != OPEN:
            raise Refusal(422, f"Ticket {ticket['ticket_number']} is not open", code=42202)
        ticket.update(status=status, is_closed=True, closed_at=NOW, is_canceled=status is CANCELED)
        return Reply({"message": f"Ticket {ticket['ticket_number']} {said}"})

    return end


def reopen_ticket(asked: Asked) -> Reply:
    ticket = asked.tenant.tickets.one(asked.ids["ticket"])
    if ticket["status"] == OPEN:
        raise Refusal(422, f"Ticket {ticket['ticket_number']} is open", code=42202)
    ticket.update(status=OPEN, is_closed=False, closed_at=None, last_reopen_date=NOW)
    ticket["reopen_count"] += 1
    return Reply({"message": f"Ticket {ticket['ticket_number']} was reopened"})


def update_entities(asked: Asked) -> Reply:
    ticket = asked.tenant.tickets.one(asked.ids["ticket"])
    return Reply(written(asked, ticket, "tickets"))


FORM = Body(
    "multipart",
    required={"title": "text", "description": "text", "client_id": "int", "desk_id": "int"},
    optional={
        "priority_id": "int",
        "services_catalogs_item_id": "int",
        "status_id": "int",
        "requestor_id": "int",
        "requestor_name": "text",
        "requestor_email": "text",
        "requestor_telephone": "text",
        "responsible_id": "int",
        "followers": "text",
        "ticket_reference_number": "int",
    },
    files=25 * MIB,
)
CHANGES = Body(
    "json",
    optional={
        "title": "text",
        "description": "text",
        "client_id": "int",
        "desk_id": "int",
        "priority_id": "int",
        "priority_change_reason": "text",
        "status_id": "int",
        "stage_id": "int",
        "services_catalogs_item_id": "int",
        "followers": "text",
        "requestor_id": "int",
        "responsible_id": "int",
    },
)
ENTITIES = Body("json", required={"entities": "list"})
ONE = "/tickets/{ticket}"

ENDPOINTS: list[Endpoint] = [
    pages("/tickets", list_tickets, FILTERS),
    post("/tickets", create_ticket, FORM),
    get(ONE, get_ticket, "show_entities include_filled_entity"),
    put(ONE, update_ticket, CHANGES),
    put(f"{ONE}/cancel", _ending(CANCELED, "was canceled")),
    put(f"{ONE}/close", _ending(CLOSED, "was closed")),
    put(f"{ONE}/reopen", reopen_ticket, Body("json", optional={"disapproval_reason": "text"})),
    put(f"{ONE}/entities", update_entities, ENTITIES),
]
