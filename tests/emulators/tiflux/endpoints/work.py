"""The work on a ticket: appointments and what they may be billed by, checklists, stages passed, histories."""

import re
from collections.abc import Iterable

from ..asked import Asked, Reply, made
from ..bodies import Body
from ..clock import NOW
from ..lists import matching, page
from ..refusals import invalid
from ..shelves import Json, brief
from ..ticketing import known
from .endpoint import Endpoint, get, pages, post, put

ONE = "/tickets/{ticket}"
TIME = re.compile(r"([01]\d|2[0-3]):[0-5]\d")


def _ticket(asked: Asked) -> int:
    return asked.tenant.tickets.one(asked.ids["ticket"])["ticket_number"]


def list_appointments(asked: Asked) -> Reply:
    found = asked.tenant.appointments.of(_ticket(asked))
    return page(asked, _within(asked, found, {"user_id": "user.id"}, {}))


def list_everywhere(asked: Asked) -> Reply:
    for name in ("start_date", "end_date"):
        if name not in asked.query:
            raise invalid(name, "can't be blank")
    among = {"user_ids": "user.id", "desk_ids": "desk.id"}
    found = _within(asked, asked.tenant.appointments, {}, among)
    hidden = () if asked.query.get("include_valorization") else ("valorization",)
    return page(asked, ({n: v for n, v in thing.items() if n not in hidden} for thing in found))


def _within(asked: Asked, things: Iterable[Json], same: dict[str, str], among: dict[str, str]) -> list[Json]:
    dates = {"since": {"start_date": "date"}, "until": {"end_date": "date"}}
    return matching(asked, things, same=same, among=among, **dates)


def create_appointment(asked: Asked) -> Reply:
    ticket = asked.tenant.tickets.one(asked.ids["ticket"])
    _check_appointment(asked)
    fields = {"user": brief(asked.tenant.me), "desk": brief(ticket["desk"]), "created_at": NOW}
    number = ticket["ticket_number"]
    return made(asked.tenant.appointments.put(number, **fields, ticket_number=number, **asked.body))


def _check_appointment(asked: Asked) -> None:
    body, tenant = asked.body, asked.tenant
    for name in ("init_time", "end_time"):
        if not TIME.fullmatch(body[name]):
            raise invalid(name, "is not a time such as 09:30")
    if body["end_time"] < body["init_time"]:
        raise invalid("end_time", "must not be before init_time")
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", body["date"]):
        raise invalid("date", "is not a date in ISO form")
    if body.get("attendance", 1) not in (1, 2, 3) or body.get("attendance_kind", 1) not in (1, 2):
        raise invalid("attendance", "is not included in the list")
    if body.get("attendance_kind") == 1:
        known(tenant.loose_services, "loose_service_id", body.get("loose_service_id"))
    if body.get("attendance_kind") == 2:
        known(tenant.riders, "contract_rider_id", body.get("contract_rider_id"))
    if "value" in body and body.get("attendance_kind") != 1:
        raise invalid("value", "needs attendance_kind 1")
    if "shift_id" in body:
        known(tenant.shifts, "shift_id", body["shift_id"])


def list_pre_appointments(asked: Asked) -> Reply:
    return page(asked, asked.tenant.pre_appointments.of(_ticket(asked)))


def service_types(asked: Asked) -> Reply:
    _ticket(asked)
    tenant = asked.tenant
    return Reply({"contract_riders": list(tenant.riders), "loose_services": list(tenant.loose_services)})


def shifts(asked: Asked) -> Reply:
    _ticket(asked)
    return Reply(matching(asked, asked.tenant.shifts, same={"contract_id": "contract.id"}))


def list_checklists(asked: Asked) -> Reply:
    return page(asked, asked.tenant.checklists.of(_ticket(asked)))


def fill_checklist(asked: Asked) -> Reply:
    checklist = asked.tenant.checklists.one(asked.ids["checklist"], _ticket(asked))
    item = next((field for field in checklist["fields"] if field["index"] == asked.ids["index"]), None)
    if item is None:
        raise invalid("index", "does not exist")
    wanted = "options" if item["type"] == "checkbox" else "value"
    if set(asked.body) != {wanted}:
        raise invalid(wanted, f"must be the only member for a field of type {item['type']}")
    if wanted == "value":
        item.update(value=asked.body["value"], filled=asked.body["value"] is not None)
    else:
        _tick(item, asked.body["options"])
    checklist["pending"] = not all(field["filled"] for field in checklist["fields"])
    return Reply(checklist)


def _tick(item: Json, options: list[Json]) -> None:
    by_id = {option["id"]: option for option in item["options"]}
    for option in options:
        if set(option) != {"id", "checked"} or option["id"] not in by_id:
            raise invalid("options", "each needs a known id, and checked")
        by_id[option["id"]]["checked"] = option["checked"]
    item["filled"] = any(option["checked"] for option in item["options"])


def list_stages(asked: Asked) -> Reply:
    ticket = asked.tenant.tickets.one(asked.ids["ticket"])
    who = brief(asked.tenant.me)
    passed = {"duration_in_expedient": "02:00", "sla_attended": True, "created_by": who, "attended_by": who}
    times = {"created_at": ticket["created_at"], "expiration": NOW, "attended_at": NOW}
    return page(asked, [{"stage": brief(ticket["stage"]), "desk": brief(ticket["desk"]), **passed, **times}])


def list_histories(asked: Asked) -> Reply:
    area = asked.query.get("history_of")
    if area not in (0, 1):
        raise invalid("history_of", "must be 0 or 1")
    if "operation" in asked.query and area != 1:
        raise invalid("operation", "is only for history_of 1")
    same = {"history_of": "history_of", "operation": "_operation", "type_id_attr": "_type"}
    return page(asked, matching(asked, asked.tenant.histories.of(_ticket(asked)), same=same))


NEW = Body(
    "json",
    {"date": "text", "init_time": "text", "end_time": "text", "description": "text"},
    {
        "attendance": "int",
        "attendance_kind": "int",
        "contract_rider_id": "int",
        "loose_service_id": "int",
        "shift_id": "int",
        "shift_owner_ticket_number": "int",
        "guarantee": "bool",
        "value": "number",
        "external_user_name": "text",
    },
)
FILLED = Body("json", optional={"value": "any", "options": "list"})

ENDPOINTS: list[Endpoint] = [
    pages(f"{ONE}/appointments", list_appointments, "user_id start_date end_date"),
    post(f"{ONE}/appointments", create_appointment, NEW),
    pages("/appointments", list_everywhere, "start_date end_date user_ids desk_ids include_valorization"),
    pages(f"{ONE}/pre-appointments", list_pre_appointments),
    get(f"{ONE}/service-types", service_types, "date"),
    get(f"{ONE}/shifts", shifts, "contract_id"),
    pages(f"{ONE}/checklists", list_checklists),
    put(f"{ONE}/checklists/{{checklist}}/items/{{index}}", fill_checklist, FILLED),
    pages(f"{ONE}/stages-slas", list_stages),
    pages(f"{ONE}/histories", list_histories, "history_of type_id_attr operation"),
]
