"""The `suna` dialect: search for servers, credential profiles, and tools enabled under Suna's own names."""

from collections.abc import Sequence
from typing import Any

from ....kit.calls.content import ToolError, error_result
from ....sessions.profile_errors import ProfileError
from ....state.store import StateError
from ....wire.call import Call
from ...meta.service import MetaToolService
from ..definitions import DialectHandler, MetaTool, T, meta_tool
from . import enabled_tools, handlers, requests
from .texts import TEXTS


class SunaDialect:
    name = "suna"

    def tools(self) -> Sequence[MetaTool]:
        return [
            _tool("search_mcp_servers", requests.SearchServersRequest, handlers.search),
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


def _tool(name: str, takes: type[T], answer: DialectHandler[T]) -> MetaTool:
    return meta_tool(name, TEXTS[name], takes, answer, error_result)
