"""People on our side: users, who are attendants, administrators or clients, and technical groups."""

from ..asked import Asked, Reply, made
from ..bodies import Body, Kind
from ..lists import matching, page
from ..making import person
from ..shelves import brief
from ..ticketing import known
from .endpoint import Endpoint, get, pages, post, put

LICENCES: dict[str, Kind] = {
    "whatsapp_license": "bool",
    "tickets_license": "bool",
    "remote_access_license": "bool",
    "api_license": "bool",
    "splashtop_license": "bool",
}


def me(asked: Asked) -> Reply:
    return Reply(asked.tenant.me | {"enable_mcp": asked.tenant.enable_mcp})


def list_users(asked: Asked) -> Reply:
    same = {"active": "active", "type": "_type", "gauth_enabled": "gauth_enabled"}
    return page(asked, matching(asked, asked.tenant.users, same=same))


def get_user(asked: Asked) -> Reply:
    return Reply(asked.tenant.users.one(asked.ids["user"]))


def create_user(asked: Asked) -> Reply:
    tenant, body = asked.tenant, asked.body
    group = known(tenant.technical_groups, "technical_group_id", body["technical_group_id"])
    fields = person(tenant, "", body["email"], "attendant") | {"name": body["name"]}
    return made(tenant.users.put(**fields | {"technical_group_id": group["id"]} | _licences(asked)))


def update_user(asked: Asked) -> Reply:
    user = asked.tenant.users.one(asked.ids["user"])
    if "technical_group_id" in asked.body:
        known(asked.tenant.technical_groups, "technical_group_id", asked.body["technical_group_id"])
    for client in asked.body.get("client_ids", ()):
        known(asked.tenant.clients, "client_ids", client)
    user.update(asked.body)
    return Reply(user)


def _licences(asked: Asked) -> dict[str, bool]:
    return {name: asked.body[name] for name in LICENCES if name in asked.body}


def technical_users(asked: Asked) -> Reply:
    users = [user for user in asked.tenant.users if user["_type"] != "client" and user["active"]]
    if "desk_id" in asked.query:
        asked.tenant.desks.one(asked.query["desk_id"])
    if "client_id" in asked.query:
        asked.tenant.clients.one(asked.query["client_id"])
    found = matching(asked, users, holds={"name": "name", "email": "email"})
    return page(asked, (brief(user, "id", "name", "email") for user in found))


def list_groups(asked: Asked) -> Reply:
    return page(asked, asked.tenant.technical_groups)


def group_users(asked: Asked) -> Reply:
    group = asked.tenant.technical_groups.one(asked.ids["group"])
    return page(asked, (user for user in asked.tenant.users if user["technical_group_id"] == group["id"]))


NEW = Body("json", {"name": "text", "email": "text", "technical_group_id": "int"}, LICENCES)
CHANGES = Body(
    "json",
    optional={
        "name": "text",
        "email": "text",
        "technical_group_id": "int",
        "active": "bool",
        "extension": "text",
        "telephone": "text",
        "client_ids": "ints",
        "country_code": "text",
        **LICENCES,
    },
)

ENDPOINTS: list[Endpoint] = [
    get("/users/me", me),
    pages("/users", list_users, "active type gauth_enabled", admin=True),
    post("/users", create_user, NEW, admin=True),
    get("/users/{user}", get_user, admin=True),
    put("/users/{user}", update_user, CHANGES, admin=True),
    pages("/technical-users", technical_users, "name email desk_id client_id"),
    pages("/technical-groups", list_groups),
    pages("/technical-groups/{group}/users", group_users),
]
