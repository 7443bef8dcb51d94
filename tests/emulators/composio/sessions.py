"""The life of a session: create, read, change, delete, and the history of its configuration."""

from typing import Any

from .asked import Asked, Operation, Reply
from .forms import CHANGES, V3, V31, config_shown, shown
from .refusals import Refusal
from .schemas import closed, free
from .world import Session, World, fresh, now


async def create(asked: Asked) -> Reply:
    body = dict(asked.body)
    session = Session(fresh("trs"), body.pop("user_id"), body, asked.api, mcp_url=asked.world.mcp_url)
    _check_names(asked.world, body)
    _remember(session)
    asked.world.sessions[session.id] = session
    return Reply(shown(session, asked.url, asked.api), 201)


async def read(asked: Asked) -> Reply:
    return Reply(shown(_session(asked), asked.url, asked.api))


async def change(asked: Asked) -> Reply:
    """What is not named stays, null takes a part away, and an expected version must be the present one."""
    session, body = _session(asked), dict(asked.body)
    expected = body.pop("expected_config_version", session.version)
    if expected != session.version:
        raise Refusal(409, f"Session {session.id} is at version {session.version}, not {expected}")
    _check_names(asked.world, body)
    session.config = {**session.config, **body}
    session.version += 1
    _remember(session)
    return Reply(shown(session, asked.url, asked.api))


async def delete(asked: Asked) -> Reply:
    session = _session(asked)
    del asked.world.sessions[session.id]
    return Reply({"session_id": session.id, "deleted": True})


async def attach(asked: Asked) -> Reply:
    """Custom tools of the caller run at the caller's; only their names are echoed."""
    reply = shown(_session(asked), asked.url, asked.api)
    return Reply(reply | {"experimental": _echoed(asked.body.get("experimental") or {})})


async def history(asked: Asked) -> Reply:
    session = _session(asked)
    items = [{**entry, "is_current": entry["version"] == session.version} for entry in session.history]
    return Reply(asked.page(items, most=100))


def _session(asked: Asked) -> Session:
    return asked.world.session(asked.path["session_id"])


def _check_names(world: World, body: dict[str, Any]) -> None:
    """Every toolkit, auth config and account that a configuration names must exist."""
    limits = body.get("toolkits") or {}
    configs, pinned = body.get("auth_configs") or {}, body.get("connected_accounts") or {}
    for slug in (
        *limits.get("enable", ()),
        *limits.get("disable", ()),
        *configs,
        *pinned,
        *(body.get("tools") or {}),
    ):
        world.toolkit(slug)
    for id in configs.values():
        world.auth_config(id)
    for ids in pinned.values():
        for id in [ids] if isinstance(ids, str) else ids:
            world.account(id)


def _remember(session: Session) -> None:
    entry = {"version": session.version, "config": config_shown(session, "v3.1"), "created_at": now()}
    session.history.insert(0, entry)


def _echoed(experimental: dict[str, Any]) -> dict[str, Any]:
    tools = [
        {**tool, "original_slug": tool["slug"], "slug": f"LOCAL_{tool['slug']}"}
        for tool in experimental.get("custom_tools", ())
    ]
    return {"custom_tools": tools, "custom_toolkits": []}


ROOT = "/tool_router/session"
ONE = ROOT + "/{session_id}"
OPERATIONS = (
    Operation("session.create", "POST", ROOT, create, closed(**V3), apis=("v3",)),
    Operation("session.create", "POST", ROOT, create, closed(**V31), apis=("v3.1",)),
    Operation("session.read", "GET", ONE, read),
    Operation("session.update", "PATCH", ONE, change, closed(**CHANGES), apis=("v3.1",)),
    Operation("session.delete", "DELETE", ONE, delete, apis=("v3.1",)),
    Operation("session.attach", "POST", ONE + "/attach", attach, closed(experimental=free()), apis=("v3.1",)),
    Operation(
        "session.history", "GET", ONE + "/config_history", history, query=("limit", "cursor"), apis=("v3.1",)
    ),
)
