"""A session in words: what it may be asked for in each API version, and how it is shown in replies."""

from typing import Any

from .schemas import (
    Schema,
    boolean,
    choice,
    closed,
    either,
    free,
    integer,
    mapping,
    nullable,
    number,
    text,
    texts,
)
from .world import Session

HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
NEWER_HINTS = (*HINTS, "createHint", "updateHint")
FILLED = text(minLength=1)


def _tags(hints: tuple[str, ...]) -> Schema:
    some = {"type": "array", "items": {"enum": list(hints)}}
    return either(some, closed(enable=some, disable=some))


def _tools(hints: tuple[str, ...]) -> Schema:
    return mapping(either(closed(enable_=texts()), closed(disable_=texts()), closed(tags_=_tags(hints))))


TOOLKITS = either(closed(enable_=texts()), closed(disable_=texts()))
V3 = {
    "user_id_": FILLED,
    "toolkits": TOOLKITS,
    "auth_configs": mapping(text(pattern="^ac_")),
    "connected_accounts": mapping(text(pattern="^ca_")),
    "manage_connections": closed(enable=nullable(boolean()), callback_url=text(format="uri")),
    "tools": _tools(HINTS),
    "tags": _tags(HINTS),
    "workbench": closed(enable_proxy_execution=boolean(), auto_offload_threshold=number(exclusiveMinimum=0)),
}
V31 = {
    "user_id_": FILLED,
    "toolkits": TOOLKITS,
    "auth_configs": mapping(text(pattern="^ac_")),
    "connected_accounts": mapping(texts()),
    "manage_connections": closed(
        enable=nullable(boolean()),
        callback_url=text(format="uri"),
        enable_connection_removal=nullable(boolean()),
        enable_wait_for_connections=nullable(boolean()),
    ),
    "tools": _tools(NEWER_HINTS),
    "tags": _tags(NEWER_HINTS),
    "workbench": closed(
        enable=boolean(),
        enable_proxy_execution=boolean(),
        auto_offload_threshold=number(exclusiveMinimum=0),
        sandbox_size=choice("standard", "medium", "large", "xlarge"),
        enable_tool_execution=boolean(),
    ),
    "multi_account": closed(
        enable=boolean(), max_accounts_per_toolkit=integer(minimum=1), require_explicit_selection=boolean()
    ),
    "search": closed(enable=boolean()),
    "execute": closed(enable_multi_execute=boolean()),
    "preload": closed(tools=either(texts(), {"const": "all"})),
    "proxy_execute": closed(enable_=boolean()),
    "instant": either({"const": False}, free()),
    "experimental": free(),
}
CHANGES = {name: either(schema, {"type": "null"}) for name, schema in V31.items() if name != "user_id_"}
CHANGES["expected_config_version"] = integer(minimum=1)


def shown(session: Session, url: str, api: str) -> dict[str, Any]:
    """A session as the API replies with it."""
    reply: dict[str, Any] = {
        "session_id": session.id,
        "mcp": {"type": "http", "url": session.mcp_url or f"{url}/tool_router/{session.id}/mcp"},
        "tool_router_tools": meta_tools(session),
        "config": config_shown(session, api),
    }
    return reply if api == "v3" else reply | {"config_version": session.version, "warnings": []}


def meta_tools(session: Session) -> list[str]:
    """The meta tools that its configuration leaves switched on."""
    config = session.config
    connections = config.get("manage_connections") or {}
    workbench = config.get("workbench") or {}
    switched = {
        "COMPOSIO_SEARCH_TOOLS": (config.get("search") or {}).get("enable", True),
        "COMPOSIO_GET_TOOL_SCHEMAS": (config.get("search") or {}).get("enable", True),
        "COMPOSIO_MULTI_EXECUTE_TOOL": (config.get("execute") or {}).get("enable_multi_execute", True),
        "COMPOSIO_MANAGE_CONNECTIONS": connections.get("enable") is not False,
        "COMPOSIO_WAIT_FOR_CONNECTIONS": bool(connections.get("enable_wait_for_connections")),
        "COMPOSIO_REMOTE_WORKBENCH": workbench.get("enable", True),
        "COMPOSIO_REMOTE_BASH_TOOL": workbench.get("enable", True),
    }
    return [slug for slug, is_on in switched.items() if is_on]


def config_shown(session: Session, api: str) -> dict[str, Any]:
    """The configuration in the words of a reply, where `enable` has become `enabled`."""
    asked = {name: value for name, value in session.config.items() if value is not None}
    config: dict[str, Any] = {"user_id": session.user_id}
    for name in ("auth_configs", "connected_accounts"):
        if name in asked:
            config[name] = asked[name]
    if "toolkits" in asked:
        config["toolkits"] = _enabled(asked["toolkits"])
    if "tags" in asked:
        config["tags"] = _tag_limits(asked["tags"])
    if "tools" in asked:
        config["tools"] = {slug: _tool_limits(limits) for slug, limits in asked["tools"].items()}
    connections = dict(asked.get("manage_connections") or {})
    config["manage_connections"] = {"enabled": connections.pop("enable", None) is not False, **connections}
    workbench = dict(asked.get("workbench") or {})
    config["workbench"] = {
        "proxy_execution_enabled": workbench.pop("enable_proxy_execution", True),
        **({"enable": workbench.pop("enable", True)} if api != "v3" else {}),
        **workbench,
    }
    return config if api == "v3" else config | _newer(asked)


def _newer(asked: dict[str, Any]) -> dict[str, Any]:
    newer = {
        "search": {"enable": True, **asked.get("search", {})},
        "execute": {"enable_multi_execute": True, **asked.get("execute", {})},
        "preload": {"tools": asked.get("preload", {}).get("tools", [])},
        "instant": False,
    }
    for name in ("multi_account", "proxy_execute"):
        if name in asked:
            newer[name] = asked[name]
    return newer


def _enabled(limits: dict[str, Any]) -> dict[str, Any]:
    return {name.replace("able", "abled"): value for name, value in limits.items()}


def _tag_limits(tags: Any) -> dict[str, Any]:
    return {"enabled": tags} if isinstance(tags, list) else _enabled(tags)


def _tool_limits(limits: dict[str, Any]) -> dict[str, Any]:
    return {"tags": _tag_limits(limits["tags"])} if "tags" in limits else _enabled(limits)
