"""Desks and what each has: stages, priorities, catalogs and their items. Departments too."""

from ..asked import Asked, Reply
from ..lists import matching, page
from ..shelves import Json, Shelf, brief
from .endpoint import Answer, Endpoint, get, pages

LISTED = ("id", "name", "display_name", "active", "appointment_type")


def list_desks(asked: Asked) -> Reply:
    desks = (brief(desk, *LISTED) for desk in asked.tenant.desks)
    found = matching(asked, desks, same={"active": "active"})
    wanted = asked.query.get("name", "").casefold()
    # The real one looks at the name that is shown, too.
    return page(asked, [d for d in found if wanted in f"{d['name']}\n{d['display_name']}".casefold()])


def get_desk(asked: Asked) -> Reply:
    return Reply(_desk(asked))


def _desk(asked: Asked) -> Json:
    return asked.tenant.desks.one(asked.ids["desk"])


def _parts(shelf: str) -> Answer:
    def parts(asked: Asked) -> Reply:
        things: Shelf = getattr(asked.tenant, shelf)
        return page(asked, things.of(_desk(asked)["id"]))

    return parts


def list_items(asked: Asked) -> Reply:
    catalogs = [catalog["id"] for catalog in asked.tenant.catalogs.of(_desk(asked)["id"])]
    items = (item for item in asked.tenant.items if item["catalog"]["id"] in catalogs)
    same = {"area_id": "area.id", "catalog_id": "catalog.id"}
    return page(asked, matching(asked, items, same=same, holds={"name": "name"}))


def list_departments(asked: Asked) -> Reply:
    return page(asked, matching(asked, asked.tenant.departments, holds={"name": "name"}))


ENDPOINTS: list[Endpoint] = [
    pages("/desks", list_desks, "active name"),
    get("/desks/{desk}", get_desk),
    pages("/desks/{desk}/stages", _parts("stages")),
    pages("/desks/{desk}/priorities", _parts("priorities")),
    pages("/desks/{desk}/services-catalogs", _parts("catalogs")),
    pages("/desks/{desk}/services-catalogs-items", list_items, "area_id catalog_id name"),
    pages("/departments", list_departments, "name"),
]
