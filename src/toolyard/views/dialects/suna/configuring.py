"""What a connected profile gives: its tools discovered, and the wanted ones enabled."""

from typing import Any

from ....kit.content import ToolError
from ....sessions.profiles import Profile
from ....wire.call import Call
from ....wire.types import CallToolResult
from ...meta.desk import Desk
from ..apps import App, AppTool, connection_of, find_app, tools_of
from ..replies import json_reply
from . import asked, enabling, naming
from .profiles import is_connected, named, slug_of, toolkit_name


async def discover(desk: Desk, call: Call, given: asked.Named) -> CallToolResult:
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
            "tools": [_shown(tool) for tool in tools],
            "total_tools": len(tools),
        }
    )


async def discover_for_agent(desk: Desk, call: Call, given: asked.Named) -> CallToolResult:
    profile, _, tools = await _discovered(desk, call, given)
    return json_reply(
        {
            "message": f"{len(tools)} tools of {toolkit_name(profile)}. Next: configure_agent_integration.",
            "profile_name": profile.profile_name,
            "toolkit_name": toolkit_name(profile),
            "toolkit_slug": slug_of(profile),
            "tools": [_shown(tool) for tool in tools],
            "tool_names": [tool.own for tool in tools],
            "total_tools": len(tools),
            "is_connected": True,
        }
    )


def _shown(tool: AppTool) -> dict[str, Any]:
    return {"name": tool.own, "description": tool.description, "inputSchema": tool.input_schema}


async def _discovered(desk: Desk, call: Call, given: asked.Named) -> tuple[Profile, App, list[AppTool]]:
    profile = await named(desk, call, given)
    app = await find_app(desk, call, slug_of(profile))
    if not await is_connected(desk, call, profile, await connection_of(desk, call, app)):
        link = profile.config.get("redirect_url")
        raise ToolError(
            f"Profile {profile.profile_name!r} is not connected yet. Please connect the profile first"
            + (f": {link}" if link else "")
        )
    return profile, app, await tools_of(desk, call, app)


async def configure(desk: Desk, call: Call, given: asked.Configure) -> CallToolResult:
    profile, tools = await _enabled(desk, call, given, enabling.conversation(call))
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


async def configure_agent(desk: Desk, call: Call, given: asked.Configure) -> CallToolResult:
    agent = given.agent_id or enabling.DEFAULT_AGENT
    profile, tools = await _enabled(desk, call, given, enabling.agent(call, agent))
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
    desk: Desk, call: Call, given: asked.Configure, scope: enabling.Scope
) -> tuple[Profile, list[naming.Named]]:
    profile, app, found = await _discovered(desk, call, given)
    known = {name: tool for tool in found for name in (tool.own, tool.full)}
    unknown = [name for name in given.enabled_tools if name not in known]
    if unknown:
        raise ToolError(
            f"{app.name} has no tools called {', '.join(map(repr, unknown[:10]))}; enable only exact "
            "names from discover_user_mcp_servers"
        )
    wanted = {known[name].own: known[name] for name in given.enabled_tools}
    tools = [naming.Named(app.name, tool.own, tool.full) for tool in wanted.values()]
    await enabling.enable(desk, call, scope, enabling.Enabled(profile.profile_id, tuple(tools)))
    enabling.tell_change(desk, call)
    return profile, tools


async def _callable_as(desk: Desk, call: Call, tools: list[naming.Named]) -> dict[str, str]:
    """Of each tool, the name it is shown under: a short one may have been taken before."""
    everything = [tool for one in await enabling.enabled(desk, call) for tool in one.tools]
    names = {tool.full: name for name, tool in naming.shown_names(everything, desk.own).items()}
    return {tool.own: names.get(tool.full, tool.full) for tool in tools}
