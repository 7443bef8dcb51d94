"""The `suna` dialect: search for servers, credential profiles, and tools enabled under Suna's own names."""

from collections.abc import Sequence
from typing import Any

from ....catalogue.catalogue import CatalogueEntry
from ....catalogue.items import TOOLS
from ....kit.calls.content import ToolError
from ....sessions.profile_errors import ProfileError
from ....state.store import StateError
from ....wire.call import Call
from ...meta.service import MetaToolService
from ..definitions import DialectHandler, MetaTool, T, meta_tool, refusal
from . import enabled_tools, handlers, requests
from .texts import TEXTS


class SunaDialect:
    name = "suna"
    search_tool = "search_mcp_servers"

    def tools(self) -> Sequence[MetaTool]:
        return [
            _tool(self.search_tool, requests.SearchServersRequest, handlers.search),
            _tool("search_mcp_servers_for_agent", requests.SearchForAgentRequest, handlers.search_for_agent),
            _tool("get_app_details", requests.ToolkitDetailsRequest, handlers.app_details),
            _tool("get_mcp_server_details", requests.ToolkitDetailsRequest, handlers.server_details),
            _tool("get_credential_profiles", requests.ListProfilesRequest, handlers.listed),
            _tool("create_credential_profile", requests.CreateProfileRequest, handlers.create),
            _tool(
                "create_credential_profile_for_agent",
                requests.CreateProfileRequest,
                handlers.create_for_agent,
            ),
            _tool("discover_user_mcp_servers", requests.ProfileRequest, handlers.discover),
            _tool("discover_mcp_tools_for_agent", requests.ProfileRequest, handlers.discover_for_agent),
            _tool("configure_profile_for_agent", requests.ConfigureProfileRequest, handlers.configure),
            _tool("configure_agent_integration", requests.ConfigureProfileRequest, handlers.configure_agent),
            _tool("delete_credential_profile", requests.ProfileRequest, handlers.delete),
        ]

    # Enabled tools, under Suna's names

    async def listed(self, service: MetaToolService, call: Call) -> Sequence[dict[str, Any]]:
        try:
            given = await enabled_tools.enabled(service, call)
        except (StateError, ProfileError):  # list the other tools
            return []
        entries = await enabled_tools.entries(service, call, given)
        tools = [tool for one in given for tool in one.tools if tool.full in entries]
        names = enabled_tools.shown_names(tools, service.own)
        return [enabled_tools.listed(name, tool, entries[tool.full]) for name, tool in names.items()]

    async def full_name(self, service: MetaToolService, call: Call, name: str) -> str | None:
        try:
            given = await enabled_tools.enabled(service, call)
        except (StateError, ProfileError) as error:
            raise ToolError(f"Cannot find out whether {name[:80]!r} is enabled: {error}") from None
        tool = enabled_tools.tool_named([tool for one in given for tool in one.tools], name)
        return None if tool is None else (await service.known.seek(call, tool.full)).name

    async def check(self, service: MetaToolService, call: Call, tool: CatalogueEntry) -> None:
        view_context = service.context.view_context
        if not view_context.settings.search_first:
            return
        try:
            if await service.has_found(call, tool.name) or await enabled_tools.has(service, call, tool.name):
                return
        except (StateError, ProfileError) as error:
            raise ToolError(f"Cannot find out whether {tool.name!r} was found or enabled: {error}") from None
        await view_context.note_unknown(call, TOOLS, tool.name)
        raise ToolError(
            f"Tool function {tool.name!r} not found: this conversation has neither found nor enabled it. "
            f"Call {self.search_tool} first, then call what it returns, or enable tools of a profile with "
            "configure_profile_for_agent."
        )


def _tool(name: str, takes: type[T], answer: DialectHandler[T]) -> MetaTool:
    return meta_tool(name, TEXTS[name], takes, answer, refusal)
