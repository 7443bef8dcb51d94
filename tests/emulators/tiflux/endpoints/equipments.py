"""Equipment of clients, its groups and types, and what is installed on it."""

from ..asked import Asked, Reply, made
from ..bodies import Body, Kind
from ..lists import matching, page
from ..refusals import invalid
from ..shelves import Json, brief
from ..ticketing import known
from .endpoint import Endpoint, get, pages, post, put


def list_equipments(asked: Asked) -> Reply:
    found = matching(asked, asked.tenant.equipments, same={"client_id": "client.id"})
    more: Json = {}
    if asked.query.get("include_manufacturer"):
        more["manufacturer"] = {"name": asked.tenant.text("Fábrica"), "model": "M1", "serial": "S1"}
    if asked.query.get("include_system"):
        more["system"] = {"name": asked.tenant.text("Sistema")}
    return page(asked, (equipment | more for equipment in found))


def get_equipment(asked: Asked) -> Reply:
    equipment = asked.tenant.equipments.one(asked.ids["equipment"])
    more: Json = {"entities": []} if asked.query.get("show_entities") else {}
    return Reply(equipment | more)


def create_equipment(asked: Asked) -> Reply:
    client = known(asked.tenant.clients, "client_id", asked.body["client_id"])
    links = _links(asked)
    plain = {name: asked.body.get(name) for name in ("name", "acquisition_date", "warranty_date")}
    group = {"equipment_group": None, "online": False, "client": brief(client)}
    return made(asked.tenant.equipments.put(**plain, **group | links))


def update_equipment(asked: Asked) -> Reply:
    equipment = asked.tenant.equipments.one(asked.ids["equipment"])
    links = _links(asked)
    equipment.update({n: v for n, v in asked.body.items() if not n.endswith("_id")} | links)
    return Reply(equipment)


def _links(asked: Asked) -> Json:
    found: Json = {}
    tenant, body = asked.tenant, asked.body
    if "equipment_type_id" in body:
        kind = known(tenant.equipment_types, "equipment_type_id", body["equipment_type_id"])
        found["equipment_type"] = brief(kind)
    if "equipment_group_id" in body:
        group = known(tenant.equipment_groups, "equipment_group_id", body["equipment_group_id"])
        found["equipment_group"] = brief(group)
    if body.get("warranty_date", "9") < body.get("acquisition_date", ""):
        raise invalid("warranty_date", "must not be before acquisition_date")
    return found


def list_softwares(asked: Asked) -> Reply:
    equipment = asked.tenant.equipments.one(asked.ids["equipment"])
    return Reply(asked.tenant.softwares.of(equipment["id"]))


def list_groups(asked: Asked) -> Reply:
    return page(asked, matching(asked, asked.tenant.equipment_groups, same={"client_id": "client.id"}))


def list_types(asked: Asked) -> Reply:
    return page(asked, matching(asked, asked.tenant.equipment_types, holds={"name": "name"}))


NAMES: dict[str, Kind] = {"name": "text", "equipment_type_id": "int"}
MORE: dict[str, Kind] = {"equipment_group_id": "int", "acquisition_date": "text", "warranty_date": "text"}
ONE = "/equipments/{equipment}"

ENDPOINTS: list[Endpoint] = [
    pages("/equipments", list_equipments, "client_id include_manufacturer include_system"),
    post("/equipments", create_equipment, Body("json", {**NAMES, "client_id": "int"}, MORE)),
    get(ONE, get_equipment, "show_entities"),
    put(ONE, update_equipment, Body("json", {}, NAMES | MORE)),
    get(f"{ONE}/softwares", list_softwares),
    pages("/equipment-groups", list_groups, "client_id"),
    pages("/equipment-types", list_types, "name"),
]
