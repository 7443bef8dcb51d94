"""The handlers of Suna's tools: search for servers, credential profiles, a profile's tools.

The remote has the account behind a profile and says whether it is connected; the profile stores its id.
"""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from ....dispatch.remote import AppConnection
from ....kit.calls.content import ToolError
from ....search.documents import ToolQuery
from ....sessions.profile_errors import ProfileError
from ....sessions.profiles import CredentialProfile, ProfileStore
from ....state.store import StateError
from ....upstream.errors import UpstreamError
from ....wire.call import Call
from ....wire.types import CallToolResult
from ...meta.service import MetaToolService
from ...meta.tools import QueryMatches, ToolMatch
from ..apps import App, AppTool, apps_of, connection_of, find_app, search_apps, server_apps, tools_of
from ..definitions import json_reply, session_named
from . import enabled_tools, requests

TOOLS_PER_APP = 3
"""Tools to search for each app wanted: several of the best often belong to the same app."""
MAX_TOOLS = 50


async def search(
    service: MetaToolService, call: Call, given: requests.SearchServersRequest
) -> CallToolResult:
    if given.queries is not None:
        return json_reply(await _by_queries(service, call, given.queries, given))
    found = [_item(app) for app in await _by_name(service, call, given)]
    return json_reply(found, failed=not found)


async def search_for_agent(
    service: MetaToolService, call: Call, given: requests.SearchForAgentRequest
) -> CallToolResult:
    if given.queries is not None:
        return json_reply(await _by_queries(service, call, given.queries, given))
    apps = await _by_name(service, call, given)
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


async def _by_name(service: MetaToolService, call: Call, given: requests.SearchServersRequest) -> list[App]:
    """Find apps by name; if there are none, by their tools."""
    call = await service.thread(call, session_named(call, given.session))
    apps = await search_apps(service, call, given.query, given.category, given.limit)
    if given.query and not apps:
        limit = min(given.limit * TOOLS_PER_APP, MAX_TOOLS)
        answer = await service.search(call, [ToolQuery(given.query, category=given.category, limit=limit)])
        apps = [app for app, _ in await apps_of(service, call, answer.results[0])]
    return apps[: given.limit]


async def _by_queries(
    service: MetaToolService,
    call: Call,
    queries: list[requests.SunaQuery],
    given: requests.SearchServersRequest,
) -> dict[str, Any]:
    named = session_named(call, given.session)
    limit = min(given.limit * TOOLS_PER_APP, MAX_TOOLS)
    wanted = [
        ToolQuery(one.use_case, one.known_fields, one.category, one.app_slug, limit=limit) for one in queries
    ]
    answer = await service.search(call, wanted, named)
    call = await service.thread(call, named)
    marks = await _enabled_by_app(service, call)
    groups = await asyncio.gather(
        *(
            _group(service, call, one, finding, given.limit, marks)
            for one, finding in zip(queries, answer.findings, strict=True)
        )
    )
    return {
        "source": "composio" if "composio" in answer.source else "fallback",
        "session": answer.session.shown(),
        "results": groups,
        "total_results": sum(group["total_results"] for group in groups),
    }


async def _enabled_by_app(service: MetaToolService, call: Call) -> dict[str, list[str]]:
    """Return the names of the enabled tools by app, for the mark that Suna's interface has."""
    found: dict[str, list[str]] = {}
    with suppress(StateError, ProfileError):  # the search is of use without marks
        for profile in await enabled_tools.enabled(service, call):
            for tool in profile.tools:
                found.setdefault(tool.server, []).append(tool.own)
    return found


async def _group(
    service: MetaToolService,
    call: Call,
    query: requests.SunaQuery,
    finding: QueryMatches,
    limit: int,
    marks: dict[str, list[str]],
) -> dict[str, Any]:
    apps = await apps_of(service, call, finding.results)
    if query.app_slug:
        apps = [(app, tools) for app, tools in apps if app.slug == query.app_slug.lower()]
        with suppress(ToolError, UpstreamError):  # no such app: the query finds nothing
            apps = apps or [(await find_app(service, call, query.app_slug), [])]
    elif not apps:
        named = await search_apps(service, call, query.use_case, query.category, limit)
        apps = [(app, list[ToolMatch]()) for app in named]
    asked = {"use_case": query.use_case, "category": query.category, "app_slug": query.app_slug}
    return {
        "query": {name: value for name, value in asked.items() if value},
        "results": [_recommended(app, tools, marks) for app, tools in apps[:limit]],
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


def _recommended(app: App, tools: list[ToolMatch], marks: dict[str, list[str]]) -> dict[str, Any]:
    """Return the fork's fields, and tools, which Suna itself does not return: the matching, the enabled."""
    managed = list(app.toolkit.managed_auth_schemes)
    found: dict[str, Any] = {
        **_item(app),
        "managed_auth_schemes": managed,
        "supports_managed_auth": bool(managed),
        "tools": [tool.tool for tool in tools],
    }
    if app.name in marks:
        found["enabled_tools"] = list(dict.fromkeys(marks[app.name]))
    return found


async def app_details(
    service: MetaToolService, call: Call, given: requests.ToolkitDetailsRequest
) -> CallToolResult:
    app = await find_app(service, call, given.toolkit_slug)
    return json_reply(
        {
            "message": f"Retrieved details for {app.name}",
            "toolkit": _item(app),
            "supports_oauth": app.supports_oauth,
            "auth_schemes": list(app.toolkit.auth_schemes),
        }
    )


async def server_details(
    service: MetaToolService, call: Call, given: requests.ToolkitDetailsRequest
) -> CallToolResult:
    app = await find_app(service, call, given.toolkit_slug)
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


KIND = "composio"
"""Suna's type of every profile, and its prefix of qualified names."""


async def listed(service: MetaToolService, call: Call, given: requests.ListProfilesRequest) -> CallToolResult:
    slug = given.toolkit_slug.lower()
    found = [one for one in await _profiles(service, call) if slug in ("", slug_of(one))]
    toolkits = {slug_of(one) for one in found}
    connections = {toolkit: await _connection(service, call, toolkit) for toolkit in toolkits}
    shown = [await _shown_profile(service, call, one, connections[slug_of(one)]) for one in found]
    return json_reply(
        {
            "message": f"Found {len(shown)} credential profiles",
            "profiles": shown,
            "total_count": len(shown),
        }
    )


async def _shown_profile(
    service: MetaToolService, call: Call, one: CredentialProfile, connection: AppConnection | None
) -> dict[str, Any]:
    return {
        "profile_id": one.profile_id,
        "connected_account_id": one.config.get("connected_account_id"),
        "account_id": call.caller.owner,
        "profile_name": one.profile_name,
        "display_name": one.display_name,
        "toolkit_slug": slug_of(one),
        "toolkit_name": toolkit_name(one),
        "is_connected": await is_connected(service, call, one, connection),
        "is_default": one.is_default,
    }


async def create(
    service: MetaToolService, call: Call, given: requests.CreateProfileRequest
) -> CallToolResult:
    app, linked, profile = await _created(service, call, given)
    shown: dict[str, Any] = {
        "profile_id": profile.profile_id,
        "profile_name": profile.profile_name,
        "display_name": profile.display_name,
        "toolkit_slug": app.slug,
        "toolkit_name": app.name,
        "is_connected": linked.is_active,
        "auth_required": linked.link is not None,
    }
    reply: dict[str, Any] = {
        "message": f"Successfully created credential profile {profile.profile_name!r} for {app.name}",
        "profile": shown,
    }
    if linked.link is not None:
        reply["connection_link"] = linked.link
        reply["instructions"] = (
            f"Show the user this link and wait until they have authorised {app.name}: "
            f"[toolkit:{app.slug}:{app.name}] Authentication: {linked.link}"
        )
    else:
        reply["instructions"] = f"This {app.name} profile is ready: discover_user_mcp_servers is next."
    return json_reply(reply)


async def create_for_agent(
    service: MetaToolService, call: Call, given: requests.CreateProfileRequest
) -> CallToolResult:
    app, linked, profile = await _created(service, call, given)
    step = (
        f"Show the user this link and wait until they have authorised it: {linked.link} "
        if linked.link
        else ""
    )
    return json_reply(
        {
            "message": f"Created the profile {profile.profile_name!r} for {app.name}. {step}"
            "Next: discover_mcp_tools_for_agent.",
            "authentication_url": linked.link,
            "profile_id": profile.profile_id,
            "profile_name": profile.profile_name,
            "toolkit_name": app.name,
            "toolkit_slug": app.slug,
            "requires_authentication": linked.link is not None,
        }
    )


async def _created(
    service: MetaToolService, call: Call, given: requests.CreateProfileRequest
) -> tuple[App, AppConnection, CredentialProfile]:
    store = profile_store(service)
    app = await find_app(service, call, given.toolkit_slug)
    linked = await connection_of(service, call, app)
    if app.remote is not None and not (linked.is_active and linked.account is None):
        # Each profile has its own account, unless the app needs none.
        linked = await service.context.link(call, app.remote, app.slug, given.profile_name)
    if linked.status in ("failed", "requires_parameters"):
        reason = f"it needs {', '.join(linked.required)}" if linked.required else linked.message
        raise ToolError(f"Cannot create a profile for {app.slug!r}: {reason}")
    config = {
        "type": KIND,
        "toolkit_slug": app.slug,
        "toolkit_name": app.name,
        "redirect_url": linked.link,
        "connected_account_id": linked.account,
        "connected": linked.is_active,
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    profile = await store.create(
        call.caller.owner,
        f"{KIND}.{app.slug}",
        given.profile_name,
        config,
        display_name=given.display_name,
    )
    return app, linked, profile


async def delete(service: MetaToolService, call: Call, given: requests.ProfileRequest) -> CallToolResult:
    profile = await named(service, call, given)
    await profile_store(service).delete(call.caller.owner, profile.profile_id)
    enabled_tools.notify_changed(service, call)
    return json_reply(
        {
            "message": f"Successfully deleted credential profile {profile.display_name!r} for "
            f"{toolkit_name(profile)}",
            "deleted_profile": {
                "profile_name": profile.profile_name,
                "toolkit_name": toolkit_name(profile),
            },
        }
    )


def profile_store(service: MetaToolService) -> ProfileStore:
    if service.context.profiles is None:
        raise ToolError("Credential profiles are not available here")
    return service.context.profiles


async def named(service: MetaToolService, call: Call, given: requests.ProfileRequest) -> CredentialProfile:
    """Find a profile by its id, or by its name, which profiles of two toolkits may share."""
    profiles = await _profiles(service, call)
    name = given.profile_id or given.profile_name
    found = [one for one in profiles if name == (one.profile_id if given.profile_id else one.profile_name)]
    if len(found) == 1:
        return found[0]
    fault = "is ambiguous; pass its profile_id" if found else "not found"
    raise ToolError(f"Credential profile {name!r} {fault}: get_credential_profiles lists all profiles")


async def _profiles(service: MetaToolService, call: Call) -> list[CredentialProfile]:
    """Return the profiles of apps that the caller may know of: others of its tenant may know more."""
    profiles = await profile_store(service).list(call.caller.owner)
    catalogue = service.context.view_context.catalogue
    if service.context.view_context.visible(call) is catalogue:
        return profiles
    visible = {app.slug.lower() for app in server_apps(service, call)}
    hidden = {name.lower() for name in catalogue.servers} - visible
    has_remote = bool(service.context.remotes_of(call))
    slugs = [(one, slug_of(one).lower()) for one in profiles]
    return [one for one, slug in slugs if slug in visible or (has_remote and slug not in hidden)]


def slug_of(profile: CredentialProfile) -> str:
    return str(profile.config.get("toolkit_slug", ""))


def toolkit_name(profile: CredentialProfile) -> str:
    return str(profile.config.get("toolkit_name") or slug_of(profile))


async def _connection(service: MetaToolService, call: Call, slug: str) -> AppConnection | None:
    """Return the connection of an app; None if it cannot be found out now."""
    try:
        return await connection_of(service, call, await find_app(service, call, slug))
    except (ToolError, UpstreamError):
        return None


async def is_connected(
    service: MetaToolService, call: Call, profile: CredentialProfile, connection: AppConnection | None
) -> bool:
    """Whether a profile's account is connected.

    A remote reports one account of an app. For a profile with another, the last known state is returned.
    """
    if connection is None:
        return False
    account, known = profile.config.get("connected_account_id"), bool(profile.config.get("connected"))
    if None not in (account, connection.account) and connection.account != account:
        return known
    if account is not None and connection.is_active != known:
        config = {**profile.config, "connected": connection.is_active}
        await profile_store(service).update(call.caller.owner, profile.profile_id, config=config)
    return connection.is_active


async def discover(service: MetaToolService, call: Call, given: requests.ProfileRequest) -> CallToolResult:
    profile, _, tools = await _discovered(service, call, given)
    return json_reply(
        {
            "message": f"Found {len(tools)} MCP tools available for {toolkit_name(profile)} profile "
            f"{profile.profile_name!r}",
            "profile_info": {
                "profile_name": profile.profile_name,
                "toolkit_name": toolkit_name(profile),
                "toolkit_slug": slug_of(profile),
                "is_connected": True,
            },
            "tools": [_shown_tool(tool) for tool in tools],
            "total_tools": len(tools),
        }
    )


async def discover_for_agent(
    service: MetaToolService, call: Call, given: requests.ProfileRequest
) -> CallToolResult:
    profile, _, tools = await _discovered(service, call, given)
    return json_reply(
        {
            "message": f"{len(tools)} tools of {toolkit_name(profile)}. Next: configure_agent_integration.",
            "profile_name": profile.profile_name,
            "toolkit_name": toolkit_name(profile),
            "toolkit_slug": slug_of(profile),
            "tools": [_shown_tool(tool) for tool in tools],
            "tool_names": [tool.own for tool in tools],
            "total_tools": len(tools),
            "is_connected": True,
        }
    )


def _shown_tool(tool: AppTool) -> dict[str, Any]:
    return {"name": tool.own, "description": tool.description, "inputSchema": tool.input_schema}


async def _discovered(
    service: MetaToolService, call: Call, given: requests.ProfileRequest
) -> tuple[CredentialProfile, App, list[AppTool]]:
    profile = await named(service, call, given)
    app = await find_app(service, call, slug_of(profile))
    if not await is_connected(service, call, profile, await connection_of(service, call, app)):
        link = profile.config.get("redirect_url")
        raise ToolError(
            f"Profile {profile.profile_name!r} is not connected yet. Please connect the profile first"
            + (f": {link}" if link else "")
        )
    return profile, app, await tools_of(service, call, app)


async def configure(
    service: MetaToolService, call: Call, given: requests.ConfigureProfileRequest
) -> CallToolResult:
    profile, tools = await _enabled(service, call, given, enabled_tools.conversation(call))
    return json_reply(
        {
            "message": f"Profile {profile.profile_name!r} configured with {len(tools)} tools and registered "
            "in current runtime",
            "enabled_tools": given.enabled_tools,
            "total_tools": len(tools),
            "runtime_registration": "success",
            "callable_as": await _callable_as(service, call, tools),
        }
    )


async def configure_agent(
    service: MetaToolService, call: Call, given: requests.ConfigureProfileRequest
) -> CallToolResult:
    agent = given.agent_id or enabled_tools.DEFAULT_AGENT
    profile, tools = await _enabled(service, call, given, enabled_tools.agent(call, agent))
    return json_reply(
        {
            "message": f"{toolkit_name(profile)} is configured for agent {agent!r} with {len(tools)} tools",
            "agent_id": agent,
            "profile_name": profile.profile_name,
            "integration_name": toolkit_name(profile),
            "enabled_tools": given.enabled_tools,
            "enabled_tools_count": len(tools),
        }
    )


async def _enabled(
    service: MetaToolService,
    call: Call,
    given: requests.ConfigureProfileRequest,
    scope: enabled_tools.EnabledScope,
) -> tuple[CredentialProfile, list[enabled_tools.EnabledTool]]:
    profile, app, found = await _discovered(service, call, given)
    known = {name: tool for tool in found for name in (tool.own, tool.full)}
    unknown = [name for name in given.enabled_tools if name not in known]
    if unknown:
        raise ToolError(
            f"{app.name} has no tools called {', '.join(map(repr, unknown[:10]))}; enable only exact "
            "names from discover_user_mcp_servers"
        )
    wanted = {known[name].own: known[name] for name in given.enabled_tools}
    tools = [enabled_tools.EnabledTool(app.name, tool.own, tool.full) for tool in wanted.values()]
    await enabled_tools.enable(
        service, call, scope, enabled_tools.ProfileTools(profile.profile_id, tuple(tools))
    )
    enabled_tools.notify_changed(service, call)
    return profile, tools


async def _callable_as(
    service: MetaToolService, call: Call, tools: list[enabled_tools.EnabledTool]
) -> dict[str, str]:
    """Map each tool to the name it is listed under; its short name may belong to another tool."""
    all_tools = [tool for one in await enabled_tools.enabled(service, call) for tool in one.tools]
    names = {tool.full: name for name, tool in enabled_tools.shown_names(all_tools, service.own).items()}
    return {tool.own: names.get(tool.full, tool.full) for tool in tools}
