"""Composio's search of its tools by use case: a plain keyword score, and both known forms of the reply."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from .catalogue import Catalogue, Tool
from .world import Session, World

PRIMARY, RELATED = 3, 4
ALIKE: dict[str, str] = {
    word: meaning
    for meaning, alike in {
        "email": "mail emails e-mail inbox",
        "issue": "issues bug ticket",
        "event": "meeting meetings appointment events",
        "googlecalendar": "calendar agenda",
        "message": "messages dm",
        "slack": "channel",
        "repository": "repo repos repositories",
        "trello": "board",
        "notion": "wiki",
        "execute": "run",
        "code": "python script",
        "web": "website internet",
        "search": "find look",
        "news": "articles headlines",
    }.items()
    for word in alike.split()
}
IDLE = {*"a an and as at by for from in into is it me my new of on or the this to use using with".split()}  # noqa: SIM905


def words(text: str) -> set[str]:
    found: list[str] = re.findall(r"[a-z0-9][a-z0-9-]*", text.lower().replace("_", " "))
    return {ALIKE.get(word, word.removesuffix("s") if len(word) > 4 else word) for word in found} - IDLE


def ranked(catalogue: Catalogue, use_case: str, allowed: Iterable[Tool]) -> list[Tool]:
    """The tools that share words with the use case, best first."""
    wanted = words(use_case)
    scored = [(_score(catalogue, tool, wanted), tool) for tool in allowed if not tool.is_deprecated]
    kept = [(score, tool) for score, tool in scored if score > 0]
    return [tool for _, tool in sorted(kept, key=lambda pair: (-pair[0], pair[1].slug))]


def _score(catalogue: Catalogue, tool: Tool, wanted: set[str]) -> float:
    slug = words(tool.slug)
    about = words(tool.name + " " + tool.description)
    fields = words(" ".join(tool.input.get("properties", {})))
    kit = words(catalogue.kit_of(tool).name + " " + tool.toolkit)
    hits = (
        3 * len(wanted & slug)
        + 1.5 * len(wanted & about)
        + 2 * len(wanted & kit)
        + 0.5 * len(wanted & fields)
    )
    return hits + 0.4 * tool.important - 0.02 * len(slug) if hits else 0.0


def allowed(world: World, session: Session) -> list[Tool]:
    """What this session's configuration lets through."""
    return [
        tool
        for tool in world.catalogue.tools.values()
        if session.allows_toolkit(tool.toolkit) and session.allows_tool(tool.slug, tool.toolkit, tool.tags)
    ]


def search(
    world: World, session: Session, queries: list[dict[str, Any]], *, is_empty: bool = False
) -> dict[str, Any]:
    """The reply of `/session/{id}/search` in its 2026 form."""
    tools = [] if is_empty else allowed(world, session)
    found = [ranked(world.catalogue, query["use_case"], tools) for query in queries]
    results = [
        {
            "index": index,
            "use_case": query["use_case"],
            "primary_tool_slugs": [tool.slug for tool in best[:PRIMARY]],
            "related_tool_slugs": [tool.slug for tool in best[PRIMARY : PRIMARY + RELATED]],
            "toolkits": _kits(best[: PRIMARY + RELATED]),
            "difficulty": "easy",
            "execution_guidance": "Check the connections, then execute the primary tools in order.",
            "known_pitfalls": [],
        }
        for index, (query, best) in enumerate(zip(queries, found, strict=True), 1)
    ]
    shown = [tool for best in found for tool in best[: PRIMARY + RELATED]]
    primary = {tool.slug for best in found for tool in best[:PRIMARY]}
    return {
        "success": True,
        "error": None,
        "results": results,
        "tool_schemas": {tool.slug: _schema(tool, tool.slug in primary) for tool in shown},
        "toolkit_connection_statuses": [_status(world, session, slug) for slug in _kits(shown)],
        "time_info": _time(),
        "session": {
            "id": session.id,
            "generate_id": False,
            "instructions": f"Pass session_id {session.id!r} to the meta tools that follow.",
        },
        "next_steps_guidance": ["Connect what has no active connection.", "Then execute the primary tools."],
    }


def older(reply: dict[str, Any]) -> dict[str, Any]:
    """The same in the form of November 2025, as the meta tool gave it inside `data`."""
    results = [
        {
            "use_case": result["use_case"],
            "main_tool_slugs": result["primary_tool_slugs"],
            "related_tool_slugs": result["related_tool_slugs"],
            "toolkits": result["toolkits"],
            "reasoning": "The names and descriptions of these tools have words of the use case.",
            "task_difficulty": result["difficulty"],
            "successful": True,
        }
        for result in reply["results"]
    ]
    statuses = [
        {
            "toolkit": status["toolkit"],
            "description": status["description"],
            "active_connection": status["has_active_connection"],
            "message": status["status_message"],
        }
        for status in reply["toolkit_connection_statuses"]
    ]
    guidance = {"call_create_plan": False, "next_steps_guidance": reply["next_steps_guidance"]}
    schemas = {
        slug: {**schema, "usage_guidelines": [], "input_schema": schema.get("input_schema", {})}
        for slug, schema in reply["tool_schemas"].items()
    }
    moment = reply["time_info"]
    return {
        "results": results,
        "tool_schemas": schemas,
        "toolkit_connection_statuses": statuses,
        "time_info": {
            "current_time": moment["current_time_utc"],
            "current_time_epoch_in_seconds": moment["current_time_utc_epoch_seconds"],
            "message": moment["message"],
        },
        "best_practices": [],
        "next_steps": guidance,
        "session": reply["session"],
    }


def _kits(tools: Iterable[Tool]) -> list[str]:
    return list(dict.fromkeys(tool.toolkit for tool in tools))


def _schema(tool: Tool, is_whole: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "tool_slug": tool.slug,
        "toolkit": tool.toolkit,
        "description": tool.description,
        "hasFullSchema": is_whole,
    }
    if is_whole:
        return shown | {"input_schema": tool.input}
    return shown | {
        "schemaRef": {
            "tool": "COMPOSIO_GET_TOOL_SCHEMAS",
            "args": {"tool_slugs": [tool.slug]},
            "message": "Fetch the whole schema before you execute this tool.",
        }
    }


def _status(world: World, session: Session, slug: str) -> dict[str, Any]:
    kit = world.toolkit(slug)
    accounts = world.accounts_of(session.user_id, slug)
    status: dict[str, Any] = {
        "toolkit": slug,
        "description": kit.description,
        "has_active_connection": kit.no_auth or bool(accounts),
        "status_message": _sentence(kit.no_auth, bool(accounts), kit.name),
    }
    if accounts:
        status["connection_details"] = {
            "auth_config_id": accounts[0].auth_config.id,
            "connected_account_id": accounts[0].id,
        }
        status["current_user_info"] = {"email": f"{session.user_id}@example.com"}
    return status


def _sentence(no_auth: bool, is_connected: bool, name: str) -> str:
    if no_auth:
        return f"{name} needs no connection."
    if is_connected:
        return f"Connection to {name} is active and ready to use."
    return f"No active connection to {name}. Call COMPOSIO_MANAGE_CONNECTIONS to create one."


def _time() -> dict[str, Any]:
    moment = datetime.now(UTC)
    return {
        "current_time_utc": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "current_time_utc_epoch_seconds": int(moment.timestamp()),
        "message": "This is UTC; ask for the user's time zone where it matters.",
    }
