"""Entities: custom fields of tickets, clients and requestors, and their options."""

from typing import Any

from ..asked import Asked, Reply
from ..lists import matching, page
from ..refusals import invalid
from ..shelves import Json, brief
from ..tenant import Tenant
from ..ticketing import known
from .endpoint import Endpoint, pages

MEMBERS = {"entity_field_id", "value", "entity_field_option_id", "country_code"}


def written(asked: Asked, thing: Json, applied: str) -> Json:
    """Write what came into the custom fields of a thing, all or nothing; ids only, the API knows no names."""
    entries = [(_field(asked.tenant, entry, applied), entry) for entry in asked.body["entities"]]
    new = {field["id"]: {"name": field["name"], "value": _value(asked, entry)} for field, entry in entries}
    kept = [value for value in thing.get("entities", ()) if value["entity_field_id"] not in new]
    thing["entities"] = kept + [{"entity_field_id": id, **value} for id, value in new.items()]
    return {"entities": filled(asked.tenant, thing, applied)}


def _field(tenant: Tenant, entry: Any, applied: str) -> Json:
    if not isinstance(entry, dict) or set(entry) - MEMBERS or "value" not in entry:
        raise invalid("entities", f"each needs entity_field_id and value, of {', '.join(sorted(MEMBERS))}")
    field = known(tenant.entity_fields, "entity_field_id", entry.get("entity_field_id"))
    if tenant.entities.one(tenant.entity_fields.owner(field["id"]))["applied_in"] != applied:
        raise invalid("entity_field_id", f"is no field of {applied}")
    return field


def _value(asked: Asked, entry: Json) -> Any:
    option = entry.get("entity_field_option_id")
    if option is None:
        return entry["value"]
    owner = entry["entity_field_id"]
    return known(asked.tenant.options, "entity_field_option_id", option, owner)["value"]


def filled(tenant: Tenant, thing: Json, applied: str) -> list[Json]:
    """The entities of that kind of thing, with what this one has in them."""
    values = {value["entity_field_id"]: value["value"] for value in thing.get("entities", [])}
    entities = [entity for entity in tenant.entities if entity["applied_in"] == applied]
    return [{**brief(entity), "entity_fields": _fields(tenant, entity, values)} for entity in entities]


def _fields(tenant: Tenant, entity: Json, values: dict[int, Any]) -> list[Json]:
    return [
        {
            "entity_field_id": field["id"],
            **brief(field, "name", "field_type", "required"),
            "value": values.get(field["id"]),
            "options": [brief(option, "id", "value") for option in tenant.options.of(field["id"])],
        }
        for field in tenant.entity_fields.of(entity["id"])
    ]


def list_entities(asked: Asked) -> Reply:
    same = {"active": "active", "applied_in": "applied_in"}
    return page(asked, matching(asked, asked.tenant.entities, same=same, holds={"name": "name"}))


def list_fields(asked: Asked) -> Reply:
    entity = asked.tenant.entities.one(asked.ids["entity"])
    fields = asked.tenant.entity_fields.of(entity["id"])
    same = {"field_type": "field_type", "required": "required"}
    return page(asked, matching(asked, fields, same=same, holds={"name": "name"}))


def list_options(asked: Asked) -> Reply:
    field = asked.tenant.entity_fields.one(asked.ids["field"])
    options = asked.tenant.options.of(field["id"])
    return page(asked, matching(asked, options, holds={"value": "value"}))


ENDPOINTS: list[Endpoint] = [
    pages("/entities", list_entities, "active applied_in name"),
    pages("/entities/{entity}/fields", list_fields, "field_type required name"),
    pages("/entity_fields/{field}/options", list_options, "value"),
]
