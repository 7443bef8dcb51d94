"""Requestors: who asks for help on a client's side."""

from ..asked import Asked, Reply, made
from ..bodies import Body, Kind
from ..clock import NOW
from ..lists import matching, page
from ..shelves import Json, brief
from .endpoint import Endpoint, get, pages, post, put
from .entities import filled, written

HOLDS = {"name": "name", "email": "email", "telephone": "telephone"}


def list_all(asked: Asked) -> Reply:
    everyone = (_shown(requestor) for requestor in asked.tenant.requestors)
    return page(asked, matching(asked, everyone, same={"can_open_ticket": "can_open_ticket"}, holds=HOLDS))


def list_of_client(asked: Asked) -> Reply:
    client = asked.tenant.clients.one(asked.ids["client"])
    same = {"can_open_ticket": "can_open_ticket", "extension": "extension"}
    found = matching(asked, asked.tenant.requestors.of(client["id"]), same=same, holds=HOLDS)
    if not asked.query.get("include_entity_fields"):
        return page(asked, map(_shown, found))
    return page(asked, (_shown(who) | {"entity_fields": who.get("entities", [])} for who in found))


def _shown(requestor: Json) -> Json:
    return {name: value for name, value in requestor.items() if name != "entities"}


def _requestor(asked: Asked) -> Json:
    client = asked.tenant.clients.one(asked.ids["client"])
    return asked.tenant.requestors.one(asked.ids["id"], client["id"])


def get_requestor(asked: Asked) -> Reply:
    requestor = _requestor(asked)
    if not asked.query.get("include_entity_fields"):
        return Reply(_shown(requestor))
    return Reply(requestor | {"entities": filled(asked.tenant, requestor, "requestors")})


def create_requestor(asked: Asked) -> Reply:
    client = asked.tenant.clients.one(asked.ids["client"])
    blank = {"telephone": "", "extension": "", "can_open_ticket": True, "client": brief(client)}
    times = {"created_at": NOW, "updated_at": NOW}
    return made(asked.tenant.requestors.put(client["id"], **blank | times | asked.body))


def update_requestor(asked: Asked) -> Reply:
    requestor = _requestor(asked)
    requestor.update(asked.body, updated_at=NOW)
    return Reply(_shown(requestor))


def update_entities(asked: Asked) -> Reply:
    return Reply(written(asked, _requestor(asked), "requestors"))


NAMES: dict[str, Kind] = {"name": "text", "email": "text"}
MORE: dict[str, Kind] = {"telephone": "text", "can_open_ticket": "bool", "extension": "text"}
EVERY = "/clients/{client}/requestors"
ONE = f"{EVERY}/{{id}}"
FILTERS = "name email telephone can_open_ticket"

ENDPOINTS: list[Endpoint] = [
    pages("/requestors", list_all, FILTERS),
    pages(EVERY, list_of_client, f"{FILTERS} extension include_entity_fields"),
    post(EVERY, create_requestor, Body("json", NAMES, {**MORE, "country": "text"})),
    get(ONE, get_requestor, "include_entity_fields"),
    put(ONE, update_requestor, Body("json", {}, NAMES | MORE)),
    put(f"{ONE}/entities", update_entities, Body("json", {"entities": "list"})),
]
