"""The two endpoints as the Suna fork calls them. Its forms, not Composio's: see the seed's facts."""

from datetime import UTC, datetime, timedelta
from typing import Any

from . import searching
from .asked import Asked, Operation, Reply
from .catalogue import Toolkit
from .refusals import Refusal
from .schemas import boolean, closed, either, free, integer, listing, opened, text
from .world import Session, fresh

TTL = 3600
USER = "fork"
"""The fork names no user; its sessions are all of this one."""


def _begin(asked: Asked) -> Session:
    session = Session(fresh("trs"), USER, {}, "labs")
    asked.world.sessions[session.id] = session
    return session


async def session(asked: Asked) -> Reply:
    if "user_id" in asked.body:
        _check_new(asked)
        made = Session(fresh("trs"), asked.body["user_id"], _config(asked.body), "legacy")
        asked.world.sessions[made.id] = made
        url = f"{asked.url}/tool_router/{made.id}/mcp"
        reply = {"session_id": made.id, "chat_session_mcp_url": url, "tool_router_instance_mcp_url": url}
        return Reply(reply, 201)
    return Reply({"session": _lease(_begin(asked), True)}, 201)


def _check_new(asked: Asked) -> None:
    wanted = (asked.body["user_id"], _config(asked.body), "legacy")
    for held in asked.world.sessions.values():
        if (held.user_id, held.config, held.api) == wanted and held.expired_with is None:
            raise Refusal(409, f"Session {held.id} has this configuration already")


async def search(asked: Asked) -> Reply:
    wanted = asked.body.get("session") or {}
    is_new = "id" not in wanted
    held = _begin(asked) if is_new else asked.world.session(wanted["id"])
    groups = []
    for query in asked.body["queries"]:
        tools = searching.ranked(
            asked.world.catalogue, query["use_case"], searching.allowed(asked.world, held)
        )
        kits = dict.fromkeys(tool.toolkit for tool in ([] if asked.is_empty else tools))
        items = [_item(asked.world.toolkit(slug)) for slug in list(kits)[: asked.body.get("limit", 10)]]
        groups.append({"query": query, "results": items, "total_results": len(kits)})
    reply = {"results": groups, "session": _lease(held, is_new)}
    if asked.shape == "2025":
        reply["results"] = [item for group in groups for item in group["results"]]
    return Reply(reply)


def _lease(session: Session, is_new: bool) -> dict[str, Any]:
    until = datetime.now(UTC) + timedelta(seconds=TTL)
    return {"id": session.id, "ttl": TTL, "expires_at": until.isoformat(), "generated": is_new}


def _item(kit: Toolkit) -> dict[str, Any]:
    return {
        "toolkit": {"slug": kit.slug, "name": kit.name, "logo": kit.logo},
        "toolkit_slug": kit.slug,
        "description": kit.description,
        "tags": list(kit.categories),
        "categories": [name.lower() for name in kit.categories],
        "auth_schemes": list(kit.schemes),
        "composio_managed_auth_schemes": kit.managed_schemes,
        "supports_managed_auth": bool(kit.managed_schemes),
    }


def _config(body: dict[str, Any]) -> dict[str, Any]:
    named = [entry["toolkit"] for entry in (body.get("config") or {}).get("toolkits", ())]
    return {"toolkits": {"enable": named}} if named else {}


SESSION = either(
    closed(generate_id_={"const": True}),
    closed(
        user_id_=text(minLength=1),
        config=closed(
            manually_manage_connections=boolean(),
            toolkits=listing(closed(toolkit_=text(minLength=1), auth_config_id=text())),
        ),
    ),
)
SEARCH = closed(
    queries_=listing(opened(use_case_=text(minLength=1)), minItems=1),
    limit=integer(minimum=1, maximum=100),
    cursor=text(),
    session=either(closed(generate_id_=boolean()), closed(id_=text())),
    filters=free(),
)
ROOT = "/labs/tool_router"
OPERATIONS = (
    Operation("labs.session", "POST", ROOT + "/session", session, SESSION, apis=("v3",)),
    Operation("labs.search", "POST", ROOT + "/search-tools", search, SEARCH, apis=("v3",)),
)
