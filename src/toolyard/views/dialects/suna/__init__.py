"""The `suna` dialect: search for servers, credential profiles, and tools enabled under Suna's own names."""

from collections.abc import Sequence
from typing import Any

from ....kit.content import ToolError, error_result
from ....sessions.errors import ProfileError
from ....state.errors import StateError
from ....wire.call import Call
from ...meta.desk import Desk
from ...meta.tools import MetaTool
from ..definitions import Does, T, meta_tool
from . import asked, configuring, enabling, naming, profiles, searching
from .words import WORDS


class Suna:
    name = "suna"

    def tools(self) -> Sequence[MetaTool]:
        return [
            _tool("search_mcp_servers", asked.Search, searching.search),
            _tool("search_mcp_servers_for_agent", asked.SearchForAgent, searching.search_for_agent),
            _tool("get_app_details", asked.Details, searching.app_details),
            _tool("get_mcp_server_details", asked.Details, searching.server_details),
            _tool("get_credential_profiles", asked.Profiles, profiles.listed),
            _tool("create_credential_profile", asked.Create, profiles.create),
            _tool("create_credential_profile_for_agent", asked.Create, profiles.create_for_agent),
            _tool("discover_user_mcp_servers", asked.Named, configuring.discover),
            _tool("discover_mcp_tools_for_agent", asked.Named, configuring.discover_for_agent),
            _tool("configure_profile_for_agent", asked.Configure, configuring.configure),
            _tool("configure_agent_integration", asked.Configure, configuring.configure_agent),
            _tool("delete_credential_profile", asked.Named, profiles.delete),
        ]

    # Renames: the enabled tools

    async def listed(self, desk: Desk, call: Call) -> Sequence[dict[str, Any]]:
        try:
            given = await enabling.enabled(desk, call)
        except (StateError, ProfileError):  # a list without them is better than none
            return []
        entries = await enabling.entries(desk, call, given)
        tools = [tool for one in given for tool in one.tools if tool.full in entries]
        names = naming.shown_names(tools, desk.own)
        return [enabling.listed(name, tool, entries[tool.full]) for name, tool in names.items()]

    async def full_name(self, desk: Desk, call: Call, name: str) -> str | None:
        try:
            given = await enabling.enabled(desk, call)
        except (StateError, ProfileError) as error:
            raise ToolError(f"Whether {name[:80]!r} is enabled cannot be told: {error}") from None
        tool = naming.leads([tool for one in given for tool in one.tools], name)
        return None if tool is None else (await desk.known.seek(call, tool.full)).name


def _tool(name: str, takes: type[T], answer: Does[T]) -> MetaTool:
    return meta_tool(name, WORDS[name], takes, answer, error_result)
