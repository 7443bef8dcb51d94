"""Clients, the organisations that are served, with their addresses, contacts, desks and portal users."""

from ..asked import GONE, Asked, Reply, made
from ..bodies import Body, Kind
from ..lists import matching, page
from ..making import new_client, person
from ..refusals import invalid
from ..shelves import Json, Shelf, brief
from ..ticketing import known
from .endpoint import Endpoint, delete, get, pages, post, put
from .entities import filled, written

BILLING = ("detailed_with_appointment", "detailed", "synthetic", "")


def list_clients(asked: Asked) -> Reply:
    clients = (_shown(client) for client in asked.tenant.clients)
    same = {"active": "status", "social_revenue": "social_revenue"}
    return page(asked, matching(asked, clients, same=same, holds={"name": "name"}))


def _shown(client: Json) -> Json:
    return {name: value for name, value in client.items() if name != "entities"}


def _client(asked: Asked) -> Json:
    return asked.tenant.clients.one(asked.ids["client"])


def get_client(asked: Asked) -> Reply:
    client = _client(asked)
    shown = _shown(client)
    shown["desks"] = _linked(asked, client, "desks", "desk_ids")
    shown["technical_groups"] = _linked(asked, client, "technical_groups", "technical_group_ids")
    if asked.query.get("show_entities"):
        shown["entities"] = filled(asked.tenant, client, "clients")
    return Reply(shown)


def _linked(asked: Asked, client: Json, shelf: str, member: str) -> list[Json]:
    """Those that it names, or all of them when it names none."""
    things: Shelf = getattr(asked.tenant, shelf)
    return [thing for thing in things if not client[member] or thing["id"] in client[member]]


def _checked(asked: Asked) -> Json:
    for desk in asked.body.get("desk_ids", ()):
        known(asked.tenant.desks, "desk_ids", desk)
    for group in asked.body.get("technical_group_ids", ()):
        known(asked.tenant.technical_groups, "technical_group_ids", group)
    if asked.body.get("billing_report_type", "") not in BILLING:
        raise invalid("billing_report_type", "is not included in the list")
    return asked.body


def create_client(asked: Asked) -> Reply:
    body = _checked(asked)
    return made(asked.tenant.clients.put(**new_client(asked.tenant, "", "") | body))


def update_client(asked: Asked) -> Reply:
    client = _client(asked)
    client.update(_checked(asked))
    return Reply(_shown(client))


def update_entities(asked: Asked) -> Reply:
    return Reply(written(asked, _client(asked), "clients"))


def client_desks(asked: Asked) -> Reply:
    desks = _linked(asked, _client(asked), "desks", "desk_ids")
    return page(asked, (brief(desk, "id", "name", "display_name", "active") for desk in desks))


def client_groups(asked: Asked) -> Reply:
    return page(asked, _linked(asked, _client(asked), "technical_groups", "technical_group_ids"))


def create_portal_user(asked: Asked) -> Reply:
    client, body = _client(asked), asked.body
    fields = person(asked.tenant, "", body["email"], "client") | body | {"client_ids": [client["id"]]}
    return made(asked.tenant.users.put(**fields))


def allow_address(asked: Asked) -> Reply:
    return made(asked.tenant.permissions.put(_client(asked)["id"], address=asked.body["address"]))


def _crud(
    name: str, shelf: str, fields: dict[str, Kind], optional: dict[str, Kind], shown_as: dict[str, str]
) -> list[Endpoint]:
    """Parts of a client that are listed, read, made, changed and removed in the same way."""

    def members(asked: Asked) -> Json:
        return {shown_as.get(name, name): value for name, value in asked.body.items()}

    def things(asked: Asked) -> Shelf:
        _client(asked)
        return getattr(asked.tenant, shelf)

    def every(asked: Asked) -> Reply:
        return page(asked, things(asked).of(asked.ids["client"]))

    def one(asked: Asked) -> Reply:
        return Reply(things(asked).one(asked.ids["id"], asked.ids["client"]))

    def create(asked: Asked) -> Reply:
        return made(things(asked).put(asked.ids["client"], **members(asked)))

    def change(asked: Asked) -> Reply:
        thing = things(asked).one(asked.ids["id"], asked.ids["client"])
        thing.update(members(asked))
        return Reply(thing)

    def remove(asked: Asked) -> Reply:
        things(asked).drop(asked.ids["id"], asked.ids["client"])
        return GONE

    path = f"/clients/{{client}}/{shelf}"
    new, changes = Body("json", fields, optional, wrap=name), Body("json", {}, fields | optional, wrap=name)
    return [
        pages(path, every),
        post(path, create, new),
        get(f"{path}/{{id}}", one),
        put(f"{path}/{{id}}", change, changes),
        delete(f"{path}/{{id}}", remove),
    ]


OPTIONAL: dict[str, Kind] = {
    "social_revenue": "text",
    "desk_ids": "ints",
    "add_all_desks": "bool",
    "technical_group_ids": "ints",
    "add_all_technical_groups": "bool",
    "status": "bool",
    "max_agents": "int",
    "email_financial": "text",
    "sms_financial": "text",
    "municipal_registration": "text",
    "estadual_registration": "text",
    "anotations": "text",
    "visible_to_clients": "bool",
    "authorization_flow": "bool",
    "billing_report_type": "text",
}
NAMES: dict[str, Kind] = {"name": "text", "social": "text"}
USER: dict[str, Kind] = {
    "extension": "text",
    "authorization_flow": "bool",
    "telephone": "text",
    "country_code": "text",
}
ADDRESS: dict[str, Kind] = {
    "cep": "text",
    "city": "text",
    "neighborhood": "text",
    "number": "int",
    "state": "text",
    "street": "text",
}
CONTACT: dict[str, Kind] = {"use": "text", "number": "text", "owner": "text", "email": "text"}
ONE = "/clients/{client}"

ENDPOINTS: list[Endpoint] = [
    pages("/clients", list_clients, "active name social_revenue"),
    post("/clients", create_client, Body("json", NAMES, OPTIONAL)),
    get(ONE, get_client, "show_entities"),
    put(ONE, update_client, Body("json", {}, NAMES | OPTIONAL)),
    put(f"{ONE}/entities", update_entities, Body("json", {"entities": "list"})),
    pages(f"{ONE}/desks", client_desks),
    pages(f"{ONE}/technical-groups", client_groups),
    post(f"{ONE}/users", create_portal_user, Body("json", {"name": "text", "email": "text"}, USER, "user")),
    post(f"{ONE}/email_tickets_permissions", allow_address, Body("json", {"address": "text"})),
    *_crud("address", "addresses", ADDRESS, {"complement": "text"}, {}),
    *_crud("contact", "contacts", CONTACT, {"country": "text"}, {"number": "telephone"}),
]
