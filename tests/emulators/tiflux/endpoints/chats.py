"""Chats: those that nobody has taken, mine, everybody's, archived ones; and the templates of messages."""

from ..asked import Asked, Reply, made
from ..bodies import Body
from ..clock import NOW
from ..lists import matching, page
from ..refusals import invalid
from ..shelves import Json, brief
from ..ticketing import known
from .endpoint import Endpoint, get, pages, post, put

FILTERS = "department_id client_id requestor_id number origins started_by created_at_start created_at_end"
STATUSES = ("APPROVED", "MISSING_VARS", "REJECTED", "PENDING")


def _list(asked: Asked, chats: list[Json]) -> Reply:
    found = matching(
        asked,
        chats,
        same={
            "department_id": "department.id",
            "client_id": "client.id",
            "requestor_id": "requestor.id",
            "user_id": "responsible.id",
            "number": "number",
            "started_by": "started_by",
            "canceled": "canceled",
        },
        since={"created_at_start": "created_at", "finished_at_start": "finished_at"},
        until={"created_at_end": "created_at", "finished_at_end": "finished_at"},
    )
    origins = asked.query.get("origins", "").split(",")
    return page(asked, [chat for chat in found if origins == [""] or chat["origin"] in origins])


def _going_on(asked: Asked) -> list[Json]:
    return [chat for chat in asked.tenant.chats if not chat["archived"]]


def inbox(asked: Asked) -> Reply:
    return _list(asked, [chat for chat in _going_on(asked) if chat["responsible"] is None])


def mine(asked: Asked) -> Reply:
    me = brief(asked.tenant.me)
    return _list(asked, [chat for chat in _going_on(asked) if chat["responsible"] == me])


def in_attendance(asked: Asked) -> Reply:
    return _list(asked, [chat for chat in _going_on(asked) if chat["responsible"] is not None])


def archived(asked: Asked) -> Reply:
    return _list(asked, [chat for chat in asked.tenant.chats if chat["archived"]])


def get_chat(asked: Asked) -> Reply:
    return Reply(asked.tenant.chats.one(asked.ids["chat"]))


def update_chat(asked: Asked) -> Reply:
    chat, body = asked.tenant.chats.one(asked.ids["chat"]), asked.body
    if not body:
        raise invalid("chat", "can't be blank")
    new: Json = {"updated_at": NOW}
    if "user_id" in body:
        new["responsible"] = brief(known(asked.tenant.users, "user_id", body["user_id"]))
    if "department_id" in body:
        new["department"] = brief(known(asked.tenant.departments, "department_id", body["department_id"]))
    if "ticket_number" in body:
        new["ticket"] = _ticket(asked)
    chat.update(new)
    return Reply(chat)


def _ticket(asked: Asked) -> Json:
    for ticket in asked.tenant.tickets:
        if ticket["ticket_number"] == asked.body["ticket_number"]:
            return brief(ticket, "ticket_number", "title")
    raise invalid("ticket_number", "does not exist")


def archive_chat(asked: Asked) -> Reply:
    chat = asked.tenant.chats.one(asked.ids["chat"])
    if "services_catalogs_item_id" in asked.body:
        known(asked.tenant.items, "services_catalogs_item_id", asked.body["services_catalogs_item_id"])
    chat.update(archived=True, finished_at=NOW, updated_at=NOW)
    return Reply(chat, 202)


def list_messages(asked: Asked) -> Reply:
    chat = asked.tenant.chats.one(asked.ids["chat"])
    return page(asked, asked.tenant.messages.of(chat["id"]))


def send_message(asked: Asked) -> Reply:
    tenant, body = asked.tenant, asked.body
    if not body.get("message", "").strip() and "template_id" not in body:
        raise invalid("message", "or template_id must be present")
    if "template_id" in body:
        templates = {template["id"] for template in (*tenant.gupshup, *tenant.whatsapp)}
        if body["template_id"] not in templates:
            raise invalid("template_id", "does not exist")
    blank = tenant.chats.first() | {"client": None, "requestor": None, "responsible": brief(tenant.me)}
    if "client_id" in body:
        blank["client"] = brief(known(tenant.clients, "client_id", body["client_id"]))
    if "ticket_number" in body:
        blank["ticket"] = _ticket(asked)
    new = {"number": body["number"], "started_by": "attendant", "archived": body.get("archive", False)}
    del blank["id"]
    chat = tenant.chats.put(
        **blank | new | {"room": f"room-{tenant.mark}-{body['number']}", "created_at": NOW}
    )
    words = body.get("message") or tenant.text(f"Template {body['template_id']}")
    tenant.messages.put(chat["id"], text=words, type="text", author=brief(tenant.me), created_at=NOW)
    return made(chat)


def gupshup(asked: Asked) -> Reply:
    same = {"integration_id": "integration_id"}
    return page(asked, matching(asked, asked.tenant.gupshup, same=same))


def whatsapp_cloud(asked: Asked) -> Reply:
    if asked.query.get("status", "APPROVED") not in STATUSES:
        raise invalid("status", f"must be one of {', '.join(STATUSES)}")
    same = {"integration_id": "integration_id", "status": "status"}
    return page(asked, matching(asked, asked.tenant.whatsapp, same=same))


CHANGES = Body("json", optional={"user_id": "int", "department_id": "int", "ticket_number": "int"})
MESSAGE = Body(
    "json",
    {"number": "int", "integration_id": "int"},
    {
        "message": "text",
        "template_id": "int",
        "country_code": "text",
        "name": "text",
        "department_id": "int",
        "ticket_number": "int",
        "client_id": "int",
        "parameters": "texts",
        "header_parameters": "texts",
        "archive": "bool",
    },
)

ENDPOINTS: list[Endpoint] = [
    pages("/chats/inbox", inbox, FILTERS),
    pages("/chats/mine", mine, FILTERS),
    pages("/chats/in_attendance", in_attendance, f"{FILTERS} user_id status"),
    pages("/chats/archived", archived, f"{FILTERS} canceled finished_at_start finished_at_end"),
    post("/chats/send_message", send_message, MESSAGE),
    get("/chats/{chat}", get_chat),
    put("/chats/{chat}", update_chat, CHANGES),
    put("/chats/{chat}/archive", archive_chat, Body("json", optional={"services_catalogs_item_id": "int"})),
    pages("/chats/{chat}/messages", list_messages),
    pages("/templates/gupshup", gupshup, "integration_id"),
    pages("/templates/whatsapp_cloud", whatsapp_cloud, "integration_id status"),
]
