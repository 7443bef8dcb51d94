"""The knowledge base, and pre-tickets, which wait for somebody to make tickets of them."""

from ..asked import Asked, Reply, made
from ..bodies import MIB, Body
from ..clock import NOW
from ..lists import matching, page
from ..shelves import Json, brief
from ..ticketing import known
from .endpoint import Endpoint, get, pages, post


def list_knowledges(asked: Asked) -> Reply:
    found = matching(asked, asked.tenant.knowledges, holds={"search": "title"})
    folders = set(asked.query.get("knowledge_folder_ids", ()))
    kept = (k for k in found if not folders or folders & set(k["knowledge_folder_ids"]))
    return page(asked, ({n: v for n, v in thing.items() if n != "description"} for thing in kept))


def get_knowledge(asked: Asked) -> Reply:
    return Reply(asked.tenant.knowledges.one(asked.ids["knowledge"]))


def create_knowledge(asked: Asked) -> Reply:
    shelves = {
        "knowledge_folder_ids": asked.tenant.folders,
        "client_ids": asked.tenant.clients,
        "technical_group_ids": asked.tenant.technical_groups,
        "services_catalogs_item_ids": asked.tenant.items,
    }
    for name, shelf in shelves.items():
        for id in asked.body.get(name, ()):
            known(shelf, name, id)
    blank: Json = {"tags": [], "private": False, "created_at": NOW, "updated_at": NOW}
    return made(asked.tenant.knowledges.put(**blank | asked.body))


def list_folders(asked: Asked) -> Reply:
    return page(asked, matching(asked, asked.tenant.folders, holds={"search": "title"}))


def list_pre_tickets(asked: Asked) -> Reply:
    found = matching(
        asked,
        asked.tenant.pre_tickets,
        same={"archived": "archived", "client_id": "client.id"},
        since={"created_after": "created_at"},
        until={"created_before": "created_at"},
    )
    hidden = () if asked.query.get("include_description") else ("description",)
    return page(asked, ({n: v for n, v in thing.items() if n not in hidden} for thing in found))


def create_pre_ticket(asked: Asked) -> Reply:
    fields = {name: value for name, value in asked.body.items() if name != "client_id"}
    fields |= {"client": None, "archived": False, "created_at": NOW, "files_count": len(asked.files)}
    if "client_id" in asked.body:
        fields["client"] = brief(known(asked.tenant.clients, "client_id", asked.body["client_id"]))
    return made(asked.tenant.pre_tickets.put(**fields))


KNOWLEDGE = Body(
    "json",
    {"title": "text", "description": "text", "knowledge_folder_ids": "ints"},
    {
        "tags": "texts",
        "private": "bool",
        "client_ids": "ints",
        "technical_group_ids": "ints",
        "services_catalogs_item_ids": "ints",
    },
)
PRE_TICKET = Body(
    "multipart",
    {
        "title": "text",
        "description": "text",
        "requestor_name": "text",
        "requestor_email": "text",
        "requestor_telephone": "text",
    },
    {"requestor_ramal": "int", "requestor_country": "text", "client_id": "int"},
    files=25 * MIB,
)

ENDPOINTS: list[Endpoint] = [
    pages("/knowledges", list_knowledges, "search knowledge_folder_ids"),
    post("/knowledges", create_knowledge, KNOWLEDGE),
    get("/knowledges/{knowledge}", get_knowledge),
    pages("/knowledge-folders", list_folders, "search"),
    pages(
        "/pre-tickets",
        list_pre_tickets,
        "archived client_id created_after created_before include_description",
    ),
    post("/pre-tickets", create_pre_ticket, PRE_TICKET),
]
