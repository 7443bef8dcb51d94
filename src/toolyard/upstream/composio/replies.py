"""Reads Composio's replies leniently: members that are missing or of the wrong type are left out.

A search has two known forms. The later one has `primary_tool_slugs` and `has_active_connection`; the older
one is wrapped in `data` and has `main_tool_slugs` and `active_connection`.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from ...composio import items, members, text
from .api import (
    AppAccount,
    ComposioAnswer,
    ComposioSession,
    Toolkit,
    ToolRecord,
)

_STATUSES = {
    "active": "active",
    "initiated": "initiated",
    "initializing": "initiated",
    "requires_parameters": "requires_parameters",
    "failed": "failed",
    "expired": "failed",
    "inactive": "failed",
}
_MCP_URLS = ("chat_session_mcp_url", "tool_router_instance_mcp_url")


def texts(value: Any) -> tuple[str, ...]:
    return tuple(item for item in items(value) if isinstance(item, str))


def schema(value: Any) -> dict[str, Any] | None:
    return members(value) or None


# Sessions


def session(reply: dict[str, Any], api: str) -> ComposioSession | None:
    """Read a session in the tool router's form or in those of the Suna fork; None without an id."""
    found = members(reply.get("session")) or reply
    id = text(found.get("id"), found.get("session_id"), found.get("sessionId"))
    if not id:
        return None
    url = text(members(found.get("mcp")).get("url"), *(found.get(key) for key in _MCP_URLS))
    return ComposioSession(id, url if url.startswith(("https://", "http://")) else "", api, ttl(found))


def ttl(found: Mapping[str, Any]) -> float | None:
    for key in ("ttl", "ttl_seconds", "ttlSeconds", "expires_in"):
        seconds = found.get(key)
        if isinstance(seconds, int | float) and seconds > 0:
            return float(seconds)
    try:
        until = datetime.fromisoformat(text(found.get("expires_at"), found.get("expiresAt")))
    except ValueError:
        return None
    left = (until if until.tzinfo else until.replace(tzinfo=UTC)) - datetime.now(UTC)
    return left.total_seconds() if left.total_seconds() > 0 else None


# Search


def answer(reply: dict[str, Any], count: int) -> ComposioAnswer:
    """Read the tool router's answer to `count` queries."""
    found = members(reply.get("data")) if "results" not in reply else reply
    schemas = {slug: members(one) for slug, one in members(found.get("tool_schemas")).items()}
    rows = [members(row) for row in items(found.get("results"))]
    # `index` counts from one; without it, the rows are in order.
    by_index = {row.get("index", number): row for number, row in enumerate(rows, 1)}
    tools = tuple(_tools(by_index.get(number, {}), schemas) for number in range(1, count + 1))
    statuses = [_status(members(one)) for one in items(found.get("toolkit_connection_statuses"))]
    steps = members(found.get("next_steps"))
    guidance = texts(found.get("next_steps_guidance")) or texts(steps.get("next_steps_guidance"))
    return ComposioAnswer(tools, {one.toolkit: one for one in statuses if one.toolkit}, guidance)


def defined(found: dict[str, Any]) -> list[ToolRecord]:
    """Read the tools that the data of a meta tool defines."""
    schemas = members(found.get("tool_schemas"))
    return [_found(slug, members(details), False) for slug, details in schemas.items()]


def _tools(row: dict[str, Any], schemas: Mapping[str, dict[str, Any]]) -> tuple[ToolRecord, ...]:
    primary = texts(row.get("primary_tool_slugs")) or texts(row.get("main_tool_slugs"))
    slugs = dict.fromkeys((*primary, *texts(row.get("related_tool_slugs"))))
    return tuple(_found(slug, schemas.get(slug, {}), slug in primary) for slug in slugs)


def _found(slug: str, details: dict[str, Any], primary: bool) -> ToolRecord:
    return ToolRecord(
        slug,
        text(details.get("toolkit")) or slug.partition("_")[0].lower(),
        description=text(details.get("description")),
        input_schema=None if details.get("hasFullSchema") is False else schema(details.get("input_schema")),
        output_schema=schema(details.get("output_schema")),
        primary=primary,
    )


def _status(found: dict[str, Any]) -> AppAccount:
    active = found.get("has_active_connection", found.get("active_connection")) is True
    details = members(found.get("connection_details"))
    return AppAccount(
        text(found.get("toolkit")),
        "active" if active else "none",
        text(details.get("connected_account_id")),
        message=text(found.get("status_message"), found.get("message")),
    )


# Lists


def page(reply: dict[str, Any]) -> tuple[list[dict[str, Any]], str]:
    """Return the items of a page, and the cursor of the next."""
    return [members(item) for item in items(reply.get("items"))], text(reply.get("next_cursor"))


def tool(found: dict[str, Any]) -> ToolRecord | None:
    slug = text(found.get("slug"))
    if not slug or found.get("is_deprecated") is True:
        return None
    kit = members(found.get("toolkit"))
    return ToolRecord(
        slug,
        text(kit.get("slug")) or slug.partition("_")[0].lower(),
        text(found.get("name")),
        text(found.get("description")),
        schema(found.get("input_parameters")),
        schema(found.get("output_parameters")),
        found.get("no_auth") is True,
        texts(found.get("tags")),
    )


def toolkit(found: dict[str, Any]) -> Toolkit | None:
    """Read an app in the form of the API's list, or of the Suna fork's search."""
    inner = members(found.get("toolkit")) or members(found.get("app"))
    slug = text(inner.get("slug"), found.get("toolkit_slug"), found.get("app_slug"), found.get("slug"))
    if not slug:
        return None
    meta = members(found.get("meta"))
    categories = [members(one) for one in items(meta.get("categories"))]
    names = tuple(text(one.get("name")) for one in categories)
    ids = tuple(text(one.get("id"), one.get("slug")) for one in categories)
    details = [text(members(one).get("mode")) for one in items(found.get("auth_config_details"))]
    managed = texts(found.get("managed_auth_schemes")) or texts(found.get("composio_managed_auth_schemes"))
    return Toolkit(
        slug,
        text(found.get("name"), inner.get("name"), found.get("toolkit_name")) or slug,
        text(found.get("description"), meta.get("description"), inner.get("description")),
        text(found.get("logo_url"), found.get("logo"), meta.get("logo"), inner.get("logo")),
        texts(found.get("tags")) or tuple(filter(None, names)),
        texts(found.get("categories")) or tuple(filter(None, ids)),
        texts(found.get("auth_schemes")) or tuple(filter(None, details)),
        managed,
    )


def groups(reply: dict[str, Any], count: int) -> list[list[dict[str, Any]]]:
    """Read the Suna fork's search: grouped by query, one flat list, or a single entry."""
    found: Any = reply.get("results")
    rows = [members(row) for row in items(found)] or [row for row in [members(found)] if row]
    if any("results" in row for row in rows):
        grouped = [[members(item) for item in items(row.get("results"))] for row in rows]
        return [*grouped, *([[]] * count)][:count]
    return [rows, *([[]] * (count - 1))]


# Accounts


def account(found: dict[str, Any]) -> AppAccount:
    """Read an account from a session's list of apps."""
    held = members(found.get("connected_account"))
    needs_none = found.get("is_no_auth") is True
    status = "active" if needs_none else status_of(held.get("status")) if held else "none"
    message = "it needs no account" if needs_none else ""
    return AppAccount(text(found.get("slug")), status, text(held.get("id")), "", message, (), needs_none)


def status_of(value: Any) -> str:
    return _STATUSES.get(text(value).lower(), "failed" if value else "none")


def managed(toolkit: str, found: dict[str, Any]) -> AppAccount:
    """Read an account from the result of COMPOSIO_MANAGE_CONNECTIONS."""
    active = members(found.get("active_connection"))
    id = text(found.get("connection_id"), active.get("id"), active.get("connection_id"))
    message = text(found.get("error_message"), found.get("instruction"))
    required = tuple(_parameter(one) for one in items(found.get("required_parameters")))
    link = text(found.get("redirect_url"))
    return AppAccount(
        toolkit, status_of(found.get("status")), id, link, message, tuple(filter(None, required))
    )


def _parameter(value: Any) -> str:
    return text(value) or text(members(value).get("name"))
