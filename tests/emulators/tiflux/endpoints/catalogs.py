"""Services catalogs, their areas and the items of these; what is removed takes its parts with it."""

import re

from ..asked import GONE, Asked, Reply, made
from ..bodies import Body
from ..lists import matching, page
from ..refusals import invalid
from ..shelves import Json, brief
from .endpoint import Endpoint, delete, pages, post, put

TIME = re.compile(r"\d{1,3}:[0-5]\d")


def _catalog(asked: Asked) -> Json:
    return asked.tenant.catalogs.one(asked.ids["catalog"])


def _area(asked: Asked) -> Json:
    return asked.tenant.areas.one(asked.ids["area"])


def list_catalogs(asked: Asked) -> Reply:
    return page(asked, matching(asked, asked.tenant.catalogs, holds={"name": "name"}))


def create_catalog(asked: Asked) -> Reply:
    if any(catalog["name"] == asked.body["name"] for catalog in asked.tenant.catalogs):
        raise invalid("name", "has already been taken")
    return made(asked.tenant.catalogs.put(**asked.body))


def update_catalog(asked: Asked) -> Reply:
    catalog = _catalog(asked)
    catalog.update(asked.body)
    return Reply(catalog)


def delete_catalog(asked: Asked) -> Reply:
    catalog = _catalog(asked)
    for area in asked.tenant.areas.of(catalog["id"]):
        _drop_area(asked, area)
    asked.tenant.catalogs.drop(catalog["id"])
    return GONE


def _drop_area(asked: Asked, area: Json) -> None:
    for item in asked.tenant.items.of(area["id"]):
        asked.tenant.items.drop(item["id"])
    asked.tenant.areas.drop(area["id"])


def list_areas(asked: Asked) -> Reply:
    areas = asked.tenant.areas.of(_catalog(asked)["id"])
    return page(asked, matching(asked, areas, holds={"name": "name"}))


def create_area(asked: Asked) -> Reply:
    catalog = _catalog(asked)
    return made(asked.tenant.areas.put(catalog["id"], services_catalog=brief(catalog), **asked.body))


def update_area(asked: Asked) -> Reply:
    area = asked.tenant.areas.one(asked.ids["id"], _catalog(asked)["id"])
    area.update(asked.body)
    return Reply(area)


def delete_area(asked: Asked) -> Reply:
    _drop_area(asked, asked.tenant.areas.one(asked.ids["id"], _catalog(asked)["id"]))
    return GONE


def list_items(asked: Asked) -> Reply:
    items = matching(asked, asked.tenant.items.of(_area(asked)["id"]), holds={"name": "name"})
    return page(asked, map(_shown, items))


def _shown(item: Json) -> Json:
    """Here the same things go by longer names than in the list of a desk."""
    names = {"area": "services_catalogs_area", "catalog": "services_catalog"}
    return {names.get(name, name): value for name, value in item.items()}


def create_item(asked: Asked) -> Reply:
    area = _area(asked)
    _check_times(asked.body, asked.body)
    catalog = area["services_catalog"]
    return made(_shown(asked.tenant.items.put(area["id"], **asked.body, area=brief(area), catalog=catalog)))


def update_item(asked: Asked) -> Reply:
    item = asked.tenant.items.one(asked.ids["id"], _area(asked)["id"])
    _check_times(asked.body, item | asked.body)
    item.update(asked.body)
    return Reply(_shown(item))


def _check_times(given: Json, whole: Json) -> None:
    for name in {"start_time", "end_time"} & set(given):
        if not TIME.fullmatch(given[name]):
            raise invalid(name, "is not hours and minutes such as 120:30")
    start, end = ([int(part) for part in whole[name].split(":")] for name in ("start_time", "end_time"))
    if end < start:
        raise invalid("end_time", "must not be less than start_time")


def delete_item(asked: Asked) -> Reply:
    asked.tenant.items.drop(asked.ids["id"], _area(asked)["id"])
    return GONE


CATALOG = Body("json", {"name": "text"}, wrap="services_catalog")
AREA = Body("json", {"name": "text"}, wrap="area")
ITEM = Body("json", {"name": "text", "start_time": "text", "end_time": "text"}, wrap="item")
ITEM_CHANGES = Body("json", {}, ITEM.required, wrap="item")
EVERY = "/services-catalogs"
ONE = f"{EVERY}/{{catalog}}"
AREAS = f"{ONE}/areas"
ITEMS = "/services-catalogs-areas/{area}/items"

ENDPOINTS: list[Endpoint] = [
    pages(EVERY, list_catalogs, "name"),
    post(EVERY, create_catalog, CATALOG),
    put(ONE, update_catalog, CATALOG),
    delete(ONE, delete_catalog),
    pages(AREAS, list_areas, "name"),
    post(AREAS, create_area, AREA),
    put(f"{AREAS}/{{id}}", update_area, AREA),
    delete(f"{AREAS}/{{id}}", delete_area),
    pages(ITEMS, list_items, "name"),
    post(ITEMS, create_item, ITEM),
    put(f"{ITEMS}/{{id}}", update_item, ITEM_CHANGES),
    delete(f"{ITEMS}/{{id}}", delete_item),
]
