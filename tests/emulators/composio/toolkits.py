"""`/toolkits`: the apps, and their categories."""

from .asked import Asked, Operation, Reply
from .catalogue import Toolkit, category_id
from .refusals import invalid
from .schemas import choice, closed, nullable, number, text, texts
from .world import World

SHORTEST_SEARCH = 3
SORTS = ("usage", "alphabetically")
MANAGERS = ("composio", "all", "project")


async def listed(asked: Asked) -> Reply:
    asked.flag("include_deprecated")
    asked.among("sort_by", SORTS)
    asked.among("type", ("native", "custom", "all"))
    kits = _chosen(
        asked.world,
        asked.one("search"),
        asked.one("category"),
        asked.among("managed_by", MANAGERS),
        asked.one("sort_by"),
    )
    return Reply(asked.page([asked.world.catalogue.toolkit_shown(kit) for kit in kits]))


async def several(asked: Asked) -> Reply:
    body = asked.body
    kits = _chosen(
        asked.world, "", body.get("category", ""), body.get("managed_by", ""), body.get("sort_by", "")
    )
    wanted = body.get("toolkits")
    shown = [kit for kit in kits if wanted is None or kit.slug in wanted]
    return Reply(asked.page([asked.world.catalogue.toolkit_shown(kit) for kit in shown]))


async def read(asked: Asked) -> Reply:
    return Reply(asked.world.catalogue.toolkit_details(asked.world.toolkit(asked.path["slug"])))


async def categories(asked: Asked) -> Reply:
    kits = asked.world.catalogue.toolkits.values()
    names = sorted({name for kit in kits for name in kit.categories})
    return Reply(asked.page([{"id": category_id(name), "name": name} for name in names], size=100))


def _chosen(world: World, search: str, category: str, managed_by: str, sort_by: str) -> list[Toolkit]:
    if search and len(search) < SHORTEST_SEARCH:
        raise invalid([f"query.search: at least {SHORTEST_SEARCH} characters, got {search!r}"])
    kits = list(world.catalogue.toolkits.values())
    if sort_by == "alphabetically":
        kits.sort(key=lambda kit: kit.name.lower())
    if category:
        kits = [kit for kit in kits if category_id(category) in map(category_id, kit.categories)]
    if managed_by == "composio":
        kits = [kit for kit in kits if kit.managed_schemes or kit.no_auth]
    elif managed_by == "project":
        kits = []
    return [kit for kit in kits if search.lower() in f"{kit.slug} {kit.name} {kit.description}".lower()]


FILTERS = ("category", "managed_by", "sort_by", "include_deprecated", "search", "limit", "cursor")
OPERATIONS = (
    Operation("toolkits.list", "GET", "/toolkits", listed, query=FILTERS, apis=("v3",)),
    Operation(
        "toolkits.list", "GET", "/toolkits", listed, query=(*FILTERS, "type", "user_id"), apis=("v3.1",)
    ),
    Operation("toolkits.categories", "GET", "/toolkits/categories", categories),
    Operation(
        "toolkits.multi",
        "POST",
        "/toolkits/multi",
        several,
        closed(
            toolkits=texts(),
            category=text(),
            managed_by=choice(*MANAGERS),
            sort_by=choice(*SORTS),
            limit=nullable(number()),
            cursor=text(),
        ),
    ),
    Operation("toolkits.read", "GET", "/toolkits/{slug}", read, query=("version",)),
)
