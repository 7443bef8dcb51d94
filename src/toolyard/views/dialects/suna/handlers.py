"""Suna's tools: searching servers, credential profiles, discovering and enabling a profile's tools.

The account behind a profile is at the remote; the profile stores its id. Whether it is connected is asked
of the remote.
"""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from ....dispatch.remote import AppConnection
from ....kit.calls.content import ToolError
from ....search.documents import ToolQuery
from ....sessions.profiles import CredentialProfile, ProfileStore
from ....upstream.errors import UpstreamError
from ....wire.call import Call
from ....wire.types import CallToolResult
from ...meta.service import MetaToolService
from ...meta.tools import QueryMatches, ToolMatch
from ..apps import App, AppTool, apps_of, connection_of, find_app, search_apps, tools_of
from ..definitions import json_reply, session_named
from . import enabled_tools, requests

TOOLS_EACH = 3
"""Tools looked for to find one app: several of the best are often of the same."""
MAX_TOOLS = 50


async def search(desk: MetaToolService, call: Call, given: requests.SearchServersRequest) -> CallToolResult:
    if given.queries is not None:
        return json_reply(await _by_queries(desk, call, given.queries, given))
    found = [_item(app) for app in await _by_name(desk, call, given)]
    return json_reply(found, failed=not found)


async def search_for_agent(
    desk: MetaToolService, call: Call, given: requests.SearchForAgentRequest
) -> CallToolResult:
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


async def _by_name(desk: MetaToolService, call: Call, given: requests.SearchServersRequest) -> list[App]:
    """Those called so; when there are none, those whose tools fit."""
    call = await desk.thread(call, session_named(call, given.session))
    apps = await search_apps(desk, call, given.query, given.category, given.limit)
    if given.query and not apps:
        limit = min(given.limit * TOOLS_EACH, MAX_TOOLS)
        answer = await desk.search(call, [ToolQuery(given.query, category=given.category, limit=limit)])
        apps = [app for app, _ in await apps_of(desk, call, answer.results[0])]
    return apps[: given.limit]


async def _by_queries(
    desk: MetaToolService, call: Call, queries: list[requests.SunaQuery], given: requests.SearchServersRequest
) -> dict[str, Any]:
    named = session_named(call, given.session)
    limit = min(given.limit * TOOLS_EACH, MAX_TOOLS)
    wanted = [
        ToolQuery(one.use_case, one.known_fields, one.category, one.app_slug, limit=limit) for one in queries
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


async def _group(
    desk: MetaToolService, call: Call, query: requests.SunaQuery, finding: QueryMatches, limit: int
) -> dict[str, Any]:
    apps = await apps_of(desk, call, finding.results)
    if query.app_slug:
        apps = [(app, tools) for app, tools in apps if app.slug == query.app_slug.lower()]
        with suppress(ToolError, UpstreamError):  # there is none: then this query finds nothing
            apps = apps or [(await find_app(desk, call, query.app_slug), [])]
    elif not apps:
        called_so = await search_apps(desk, call, query.use_case, query.category, limit)
        apps = [(app, list[ToolMatch]()) for app in called_so]
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


def _recommended(app: App, tools: list[ToolMatch]) -> dict[str, Any]:
    """The fork's fields, and which tools of the app fit: beyond Suna, so that the next step can be direct."""
    managed = list(app.toolkit.managed_auth_schemes)
    return {
        **_item(app),
        "managed_auth_schemes": managed,
        "supports_managed_auth": bool(managed),
        "tools": [tool.tool for tool in tools],
    }


async def app_details(
    desk: MetaToolService, call: Call, given: requests.ToolkitDetailsRequest
) -> CallToolResult:
    app = await find_app(desk, call, given.toolkit_slug)
    return json_reply(
        {
            "message": f"Retrieved details for {app.name}",
            "toolkit": _item(app),
            "supports_oauth": app.supports_oauth,
            "auth_schemes": list(app.toolkit.auth_schemes),
        }
    )


async def server_details(
    desk: MetaToolService, call: Call, given: requests.ToolkitDetailsRequest
) -> CallToolResult:
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


KIND = "composio"
"""What Suna calls every profile's type, and what it puts before the slug in qualified names."""


async def listed(desk: MetaToolService, call: Call, given: requests.ListProfilesRequest) -> CallToolResult:
    slug = given.toolkit_slug.lower()
    found = [one for one in await kept(desk).list(call.caller.tenant) if slug in ("", slug_of(one))]
    standing = {toolkit: await _standing(desk, call, toolkit) for toolkit in {slug_of(one) for one in found}}
    shown = [await _shown_profile(desk, call, one, standing[slug_of(one)]) for one in found]
    return json_reply(
        {
            "message": f"Found {len(shown)} credential profiles",
            "profiles": shown,
            "total_count": len(shown),
        }
    )


async def _shown_profile(
    desk: MetaToolService, call: Call, one: CredentialProfile, standing: AppConnection | None
) -> dict[str, Any]:
    return {
        "profile_id": one.profile_id,
        "connected_account_id": one.config.get("connected_account_id"),
        "account_id": call.caller.tenant,
        "profile_name": one.profile_name,
        "display_name": one.display_name,
        "toolkit_slug": slug_of(one),
        "toolkit_name": toolkit_name(one),
        "is_connected": await is_connected(desk, call, one, standing),
        "is_default": one.is_default,
    }


async def create(desk: MetaToolService, call: Call, given: requests.CreateProfileRequest) -> CallToolResult:
    app, begun, profile = await _created(desk, call, given)
    shown: dict[str, Any] = {
        "profile_id": profile.profile_id,
        "profile_name": profile.profile_name,
        "display_name": profile.display_name,
        "toolkit_slug": app.slug,
        "toolkit_name": app.name,
        "is_connected": begun.is_active,
        "auth_required": begun.link is not None,
    }
    reply: dict[str, Any] = {
        "message": f"Successfully created credential profile {profile.profile_name!r} for {app.name}",
        "profile": shown,
    }
    if begun.link is not None:
        reply["connection_link"] = begun.link
        reply["instructions"] = (
            f"Show the user this link and wait until they have authorised {app.name}: "
            f"[toolkit:{app.slug}:{app.name}] Authentication: {begun.link}"
        )
    else:
        reply["instructions"] = f"This {app.name} profile is ready: discover_user_mcp_servers is next."
    return json_reply(reply)


async def create_for_agent(
    desk: MetaToolService, call: Call, given: requests.CreateProfileRequest
) -> CallToolResult:
    app, begun, profile = await _created(desk, call, given)
    step = (
        f"Show the user this link and wait until they have authorised it: {begun.link} " if begun.link else ""
    )
    return json_reply(
        {
            "message": f"Created the profile {profile.profile_name!r} for {app.name}. {step}"
            "Next: discover_mcp_tools_for_agent.",
            "authentication_url": begun.link,
            "profile_id": profile.profile_id,
            "profile_name": profile.profile_name,
            "toolkit_name": app.name,
            "toolkit_slug": app.slug,
            "requires_authentication": begun.link is not None,
        }
    )


async def _created(
    desk: MetaToolService, call: Call, given: requests.CreateProfileRequest
) -> tuple[App, AppConnection, CredentialProfile]:
    store = kept(desk)
    app = await find_app(desk, call, given.toolkit_slug)
    begun = await connection_of(desk, call, app)
    if app.remote is not None and not (begun.is_active and begun.account is None):
        # Each profile is an account of its own, but for apps that need none.
        begun = await app.remote.link(call, app.slug, alias=given.profile_name)
    if begun.status in ("failed", "requires_parameters"):
        asks = f"it asks for {', '.join(begun.required)}" if begun.required else begun.message
        raise ToolError(f"A profile for {app.slug!r} could not be created: {asks}")
    config = {
        "type": KIND,
        "toolkit_slug": app.slug,
        "toolkit_name": app.name,
        "redirect_url": begun.link,
        "connected_account_id": begun.account,
        "connected": begun.is_active,
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    profile = await store.create(
        call.caller.tenant,
        f"{KIND}.{app.slug}",
        given.profile_name,
        config,
        display_name=given.display_name,
    )
    return app, begun, profile


async def delete(desk: MetaToolService, call: Call, given: requests.ProfileRequest) -> CallToolResult:
    profile = await named(desk, call, given)
    await kept(desk).delete(call.caller.tenant, profile.profile_id)
    enabled_tools.tell_change(desk, call)
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


def kept(desk: MetaToolService) -> ProfileStore:
    if desk.supplies.profiles is None:
        raise ToolError("There are no credential profiles here; set [state] key, or ENCRYPTION_KEY")
    return desk.supplies.profiles


async def named(desk: MetaToolService, call: Call, given: requests.ProfileRequest) -> CredentialProfile:
    """By its id; else by its name, which two toolkits' profiles may share."""
    profiles = await kept(desk).list(call.caller.tenant)
    name = given.profile_id or given.profile_name
    found = [one for one in profiles if name == (one.profile_id if given.profile_id else one.profile_name)]
    if len(found) == 1:
        return found[0]
    fault = "names several; give its profile_id" if found else "not found"
    raise ToolError(f"Credential profile {name!r} {fault}: get_credential_profiles lists those there are")


def slug_of(profile: CredentialProfile) -> str:
    return str(profile.config.get("toolkit_slug", ""))


def toolkit_name(profile: CredentialProfile) -> str:
    return str(profile.config.get("toolkit_name") or slug_of(profile))


async def _standing(desk: MetaToolService, call: Call, slug: str) -> AppConnection | None:
    """None: nobody can say just now."""
    try:
        return await connection_of(desk, call, await find_app(desk, call, slug))
    except (ToolError, UpstreamError):
        return None


async def is_connected(
    desk: MetaToolService, call: Call, profile: CredentialProfile, standing: AppConnection | None
) -> bool:
    """An app tells of one account. Of a profile with another, what was seen last is true."""
    if standing is None:
        return False
    account, seen = profile.config.get("connected_account_id"), bool(profile.config.get("connected"))
    if None not in (account, standing.account) and standing.account != account:
        return seen
    if account is not None and standing.is_active != seen:
        config = {**profile.config, "connected": standing.is_active}
        await kept(desk).update(call.caller.tenant, profile.profile_id, config=config)
    return standing.is_active


async def discover(desk: MetaToolService, call: Call, given: requests.ProfileRequest) -> CallToolResult:
    profile, _, tools = await _discovered(desk, call, given)
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
    desk: MetaToolService, call: Call, given: requests.ProfileRequest
) -> CallToolResult:
    profile, _, tools = await _discovered(desk, call, given)
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
    desk: MetaToolService, call: Call, given: requests.ProfileRequest
) -> tuple[CredentialProfile, App, list[AppTool]]:
    profile = await named(desk, call, given)
    app = await find_app(desk, call, slug_of(profile))
    if not await is_connected(desk, call, profile, await connection_of(desk, call, app)):
        link = profile.config.get("redirect_url")
        raise ToolError(
            f"Profile {profile.profile_name!r} is not connected yet. Please connect the profile first"
            + (f": {link}" if link else "")
        )
    return profile, app, await tools_of(desk, call, app)


async def configure(
    desk: MetaToolService, call: Call, given: requests.ConfigureProfileRequest
) -> CallToolResult:
    profile, tools = await _enabled(desk, call, given, enabled_tools.conversation(call))
    return json_reply(
        {
            "message": f"Profile {profile.profile_name!r} configured with {len(tools)} tools and registered "
            "in current runtime",
            "enabled_tools": given.enabled_tools,
            "total_tools": len(tools),
            "runtime_registration": "success",
            "callable_as": await _callable_as(desk, call, tools),
        }
    )


async def configure_agent(
    desk: MetaToolService, call: Call, given: requests.ConfigureProfileRequest
) -> CallToolResult:
    agent = given.agent_id or enabled_tools.DEFAULT_AGENT
    profile, tools = await _enabled(desk, call, given, enabled_tools.agent(call, agent))
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
    desk: MetaToolService,
    call: Call,
    given: requests.ConfigureProfileRequest,
    scope: enabled_tools.EnabledScope,
) -> tuple[CredentialProfile, list[enabled_tools.EnabledTool]]:
    profile, app, found = await _discovered(desk, call, given)
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
        desk, call, scope, enabled_tools.ProfileTools(profile.profile_id, tuple(tools))
    )
    enabled_tools.tell_change(desk, call)
    return profile, tools


async def _callable_as(
    desk: MetaToolService, call: Call, tools: list[enabled_tools.EnabledTool]
) -> dict[str, str]:
    """Of each tool, the name it is shown under: a short one may have been taken before."""
    everything = [tool for one in await enabled_tools.enabled(desk, call) for tool in one.tools]
    names = {tool.full: name for name, tool in enabled_tools.shown_names(everything, desk.own).items()}
    return {tool.own: names.get(tool.full, tool.full) for tool in tools}
