"""Suna's search for servers: the plain form that finds by name, and the fork's queries with a session."""

import asyncio
from contextlib import suppress
from typing import Any

from ....kit.content import ToolError
from ....search.documents import Query
from ....upstream.errors import UpstreamError
from ....wire.call import Call
from ....wire.types import CallToolResult
from ...meta.answers import Finding, Found
from ...meta.desk import Desk
from ..apps import App, apps_of, find_app, search_apps
from ..replies import json_reply
from ..sessions import session_named
from . import asked

TOOLS_EACH = 3
"""Tools looked for to find one app: several of the best are often of the same."""
MAX_TOOLS = 50


async def search(desk: Desk, call: Call, given: asked.Search) -> CallToolResult:
    if given.queries is not None:
        return json_reply(await _by_queries(desk, call, given.queries, given))
    found = [_item(app) for app in await _by_name(desk, call, given)]
    return json_reply(found, failed=not found)


async def search_for_agent(desk: Desk, call: Call, given: asked.SearchForAgent) -> CallToolResult:
    if given.queries is not None:
        return json_reply(await _by_queries(desk, call, given.queries, given))
    apps = await _by_name(desk, call, given)
    if not apps:
        return json_reply({"message": f"No MCP servers found matching {given.query!r}", "toolkits": []})
    toolkits = [
        {
            "name": app.name,
            "slug": app.slug,
            "description": app.toolkit.description,
            "categories": list(app.toolkit.categories),
        }
        for app in apps
    ]
    names = ", ".join(f"{app.name} ({app.slug})" for app in apps)
    message = f"MCP servers matching {given.query!r}: {names}. Next: create_credential_profile_for_agent."
    return json_reply({"message": message, "toolkits": toolkits, "total_found": len(toolkits)})


async def _by_name(desk: Desk, call: Call, given: asked.Search) -> list[App]:
    """Those called so; when there are none, those whose tools fit."""
    call = await desk.thread(call, session_named(call, given.session))
    apps = await search_apps(desk, call, given.query, given.category, given.limit)
    if given.query and not apps:
        limit = min(given.limit * TOOLS_EACH, MAX_TOOLS)
        answer = await desk.search(call, [Query(given.query, category=given.category, limit=limit)])
        apps = [app for app, _ in await apps_of(desk, call, answer.results[0])]
    return apps[: given.limit]


async def _by_queries(
    desk: Desk, call: Call, queries: list[asked.Query], given: asked.Search
) -> dict[str, Any]:
    named = session_named(call, given.session)
    limit = min(given.limit * TOOLS_EACH, MAX_TOOLS)
    wanted = [
        Query(one.use_case, one.known_fields, one.category, one.app_slug, limit=limit) for one in queries
    ]
    answer = await desk.search(call, wanted, named)
    call = await desk.thread(call, named)
    groups = await asyncio.gather(
        *(
            _group(desk, call, one, finding, given.limit)
            for one, finding in zip(queries, answer.findings, strict=True)
        )
    )
    return {
        "source": "composio" if "composio" in answer.source else "fallback",
        "session": answer.session.shown(),
        "results": groups,
        "total_results": sum(group["total_results"] for group in groups),
    }


async def _group(desk: Desk, call: Call, query: asked.Query, finding: Finding, limit: int) -> dict[str, Any]:
    apps = await apps_of(desk, call, finding.results)
    if query.app_slug:
        apps = [(app, tools) for app, tools in apps if app.slug == query.app_slug.lower()]
        with suppress(ToolError, UpstreamError):  # there is none: then this query finds nothing
            apps = apps or [(await find_app(desk, call, query.app_slug), [])]
    elif not apps:
        called_so = await search_apps(desk, call, query.use_case, query.category, limit)
        apps = [(app, list[Found]()) for app in called_so]
    asked_for = {"use_case": query.use_case, "category": query.category, "app_slug": query.app_slug}
    return {
        "query": {name: value for name, value in asked_for.items() if value},
        "results": [_recommended(app, tools) for app, tools in apps[:limit]],
        "total_results": len(apps[:limit]),
    }


def _item(app: App) -> dict[str, Any]:
    toolkit = app.toolkit
    return {
        "name": toolkit.name,
        "toolkit_slug": toolkit.slug,
        "description": toolkit.description,
        "logo_url": toolkit.logo,
        "auth_schemes": list(toolkit.auth_schemes),
        "tags": list(toolkit.tags),
        "categories": list(toolkit.categories),
    }


def _recommended(app: App, tools: list[Found]) -> dict[str, Any]:
    """The fork's fields, and which tools of the app fit: beyond Suna, so that the next step can be direct."""
    managed = list(app.toolkit.managed_auth_schemes)
    return {
        **_item(app),
        "managed_auth_schemes": managed,
        "supports_managed_auth": bool(managed),
        "tools": [tool.tool for tool in tools],
    }


async def app_details(desk: Desk, call: Call, given: asked.Details) -> CallToolResult:
    app = await find_app(desk, call, given.toolkit_slug)
    return json_reply(
        {
            "message": f"Retrieved details for {app.name}",
            "toolkit": _item(app),
            "supports_oauth": app.supports_oauth,
            "auth_schemes": list(app.toolkit.auth_schemes),
        }
    )


async def server_details(desk: Desk, call: Call, given: asked.Details) -> CallToolResult:
    app = await find_app(desk, call, given.toolkit_slug)
    toolkit: dict[str, Any] = _item(app)
    toolkit["slug"] = toolkit.pop("toolkit_slug")
    del toolkit["logo_url"]
    return json_reply(
        {
            "message": f"{app.name}: {app.toolkit.description} Next: create_credential_profile_for_agent "
            f"with the slug {app.slug!r}.",
            "toolkit": toolkit,
            "supports_oauth": app.supports_oauth,
        }
    )
