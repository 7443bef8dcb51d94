"""`/mcp/servers`: MCP servers with a fixed set of tools, for many users, as Suna's integrations use them."""

from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

from .asked import Asked, Operation, Reply
from .refusals import invalid, not_found
from .schemas import boolean, closed, text, texts
from .world import Session, World, now

NOTHING_META: dict[str, Any] = {
    "search": {"enable": False},
    "execute": {"enable_multi_execute": False},
    "manage_connections": {"enable": False},
    "workbench": {"enable": False},
}


async def create(asked: Asked) -> Reply:
    configs = [asked.world.auth_config(id) for id in asked.body["auth_config_ids"]]
    kits = [config.toolkit for config in configs] + asked.body.get("no_auth_apps", [])
    return Reply(_shown(asked, _made(asked, kits)), 201)


async def create_custom(asked: Asked) -> Reply:
    configs = [asked.world.auth_config(id) for id in asked.body.get("auth_config_ids", ())]
    kits = [config.toolkit for config in configs] + asked.body.get("toolkits", [])
    shown = _shown(asked, _made(asked, kits))
    names = ("id", "name", "allowed_tools", "auth_config_ids", "mcp_url", "commands")
    return Reply({name: shown[name] for name in names}, 201)


async def generate(asked: Asked) -> Reply:
    body = asked.body
    server = _server(asked.world, body["mcp_server_id"])
    base = _url(asked, server)
    accounts, users = body.get("connected_account_ids", []), body.get("user_ids", [])
    for id in accounts:
        asked.world.account(id)
    return Reply(
        {
            "mcp_url": base,
            "connected_account_urls": [
                f"{base}?{urlencode({'connected_account_id': id})}" for id in accounts
            ],
            "user_ids_url": [f"{base}?{urlencode({'user_id': user})}" for user in users],
        }
    )


async def listed(asked: Asked) -> Reply:
    servers = [
        _shown(asked, server)
        for server in asked.world.mcp_servers.values()
        if asked.one("name").lower() in server["name"].lower()
    ]
    reply = asked.page(servers, size=10)
    return Reply({name: reply[name] for name in ("items", "total_pages", "current_page")})


async def read(asked: Asked) -> Reply:
    server = _server(asked.world, asked.path["id"])
    return Reply(_shown(asked, server) | {"deleted": False})


async def delete(asked: Asked) -> Reply:
    server = _server(asked.world, asked.path["id"])
    del asked.world.mcp_servers[server["id"]]
    return Reply({"id": server["id"], "deleted": True})


def seat(world: World, id: str, query: dict[str, list[str]]) -> Session:
    """What a request to a server's MCP endpoint is about, in the terms of a session."""
    server = _server(world, id)
    if "connected_account_id" in query:
        user = world.account(query["connected_account_id"][-1]).user_id
    elif "user_id" in query:
        user = query["user_id"][-1]
    else:
        raise invalid(["query: user_id or connected_account_id is needed"])
    config = {**NOTHING_META, "toolkits": {"enable": server["toolkits"]}}
    return Session(id, user, {**config, "preload": {"tools": server["tools"]}}, "v3")


def _made(asked: Asked, kits: list[str]) -> dict[str, Any]:
    for slug in kits:
        asked.world.toolkit(slug)
    known, allowed = asked.world.catalogue.tools, asked.body.get("allowed_tools", [])
    for slug in allowed:
        if slug not in known or known[slug].toolkit not in kits:
            raise not_found("Tool", slug)
    every = [tool.slug for tool in known.values() if tool.toolkit in kits and not tool.is_deprecated]
    server = {
        "id": str(uuid4()),
        "name": asked.body["name"],
        "auth_config_ids": asked.body.get("auth_config_ids", []),
        "toolkits": list(dict.fromkeys(kits)),
        "allowed_tools": allowed,
        "tools": allowed or every,
        "managed": asked.body.get("managed_auth_via_composio", False),
        "made": now(),
    }
    asked.world.mcp_servers[server["id"]] = server
    return server


def _server(world: World, id: str) -> dict[str, Any]:
    if id not in world.mcp_servers:
        raise not_found("MCP server", id)
    return world.mcp_servers[id]


def _url(asked: Asked, server: dict[str, Any]) -> str:
    return f"{asked.url}/v3/mcp/{server['id']}"


def _shown(asked: Asked, server: dict[str, Any]) -> dict[str, Any]:
    url = _url(asked, server)
    return {
        "id": server["id"],
        "name": server["name"],
        "auth_config_ids": server["auth_config_ids"],
        "allowed_tools": server["allowed_tools"],
        "mcp_url": url,
        "toolkits": server["toolkits"],
        "toolkit_icons": {slug: asked.world.toolkit(slug).logo for slug in server["toolkits"]},
        "commands": {client: f"connect {client} to {url}" for client in ("cursor", "claude", "windsurf")},
        "updated_at": server["made"],
        "created_at": server["made"],
        "server_instance_count": 0,
        "managed_auth_via_composio": server["managed"],
    }


NAME = text(minLength=4, maxLength=30, pattern="^[a-zA-Z0-9- ]+$")
OPERATIONS = (
    Operation(
        "mcp_servers.create",
        "POST",
        "/mcp/servers",
        create,
        closed(
            name_=NAME,
            auth_config_ids_=texts(),
            no_auth_apps=texts(),
            allowed_tools=texts(),
            managed_auth_via_composio=boolean(),
        ),
    ),
    Operation(
        "mcp_servers.create_custom",
        "POST",
        "/mcp/servers/custom",
        create_custom,
        closed(
            name_=NAME,
            auth_config_ids=texts(),
            toolkits=texts(),
            allowed_tools=texts(),
            custom_tools=texts(),
            managed_auth_via_composio=boolean(),
        ),
    ),
    Operation(
        "mcp_servers.generate",
        "POST",
        "/mcp/servers/generate",
        generate,
        closed(
            mcp_server_id_=text(),
            managed_auth_by_composio=boolean(),
            user_ids=texts(),
            connected_account_ids=texts(),
        ),
    ),
    Operation(
        "mcp_servers.list",
        "GET",
        "/mcp/servers",
        listed,
        query=("name", "toolkits", "auth_config_ids", "order_by", "order_direction", "page_no", "limit"),
    ),
    Operation("mcp_servers.read", "GET", "/mcp/{id}", read),
    Operation("mcp_servers.delete", "DELETE", "/mcp/{id}", delete),
)
