"""Descriptions and schemas of Suna's tools."""

from typing import Any

from ..definitions import DELETES, SESSION, WRITES, MetaToolTexts

_TEXT: dict[str, Any] = {"type": "string"}
_SLUG: dict[str, Any] = {"type": "string", "description": "As a search returned it, such as 'github'"}
_PROFILE_ID: dict[str, Any] = {"type": "string", "description": "From get_credential_profiles"}
_PROFILE_NAME: dict[str, Any] = {"type": "string", "description": "The name the profile was created under"}
_TOOLS: dict[str, Any] = {
    "type": "array",
    "minItems": 1,
    "items": _TEXT,
    "description": "Exact names from the discovery",
}
_QUERIES: dict[str, Any] = {
    "type": "array",
    "minItems": 1,
    "items": {
        "type": "object",
        "properties": {
            "use_case": {"type": "string", "description": "The task, in a sentence"},
            "category": _TEXT,
            "app_slug": {"type": "string", "description": "Only this app"},
        },
        "required": ["use_case"],
    },
}
_LIMIT: dict[str, Any] = {"type": "integer", "default": 10}
_WANTED = {"queries": [{"use_case": "open an issue on GitHub", "category": "productivity"}], "limit": 5}

TEXTS: dict[str, MetaToolTexts] = {
    "search_mcp_servers": MetaToolTexts(
        description="Find the servers (toolkits) for a task. Call this before anything else. "
        "Give `queries`; a plain `query` finds by name. The reply says which tools of each fit.",
        properties={
            "queries": _QUERIES,
            "session": SESSION,
            "query": {"type": "string", "description": "The plain form: a name or word"},
            "category": _TEXT,
            "limit": _LIMIT,
        },
        example=_WANTED,
    ),
    "search_mcp_servers_for_agent": MetaToolTexts(
        description="The same search while an agent is being set up.",
        properties={
            "search_query": {"type": "string", "description": "The plain form: a name or word"},
            "queries": _QUERIES,
            "session": SESSION,
            "limit": _LIMIT,
        },
        example=_WANTED,
    ),
    "get_app_details": MetaToolTexts(
        description="Describe one toolkit, and how it is authenticated.",
        properties={"toolkit_slug": _SLUG},
        required=("toolkit_slug",),
        example={"toolkit_slug": "github"},
    ),
    "get_mcp_server_details": MetaToolTexts(
        description="The same for a toolkit while an agent is being set up.",
        properties={"toolkit_slug": _SLUG},
        required=("toolkit_slug",),
        example={"toolkit_slug": "github"},
    ),
    "get_credential_profiles": MetaToolTexts(
        description="List the credential profiles, and whether each is connected.",
        properties={"toolkit_slug": {**_SLUG, "description": "Only those of this toolkit"}},
        example={"toolkit_slug": "github"},
    ),
    "create_credential_profile": MetaToolTexts(
        description="Create a credential profile for a toolkit. When the reply has a `connection_link`, show "
        "it to the user and wait until they have authorised it.",
        properties={"toolkit_slug": _SLUG, "profile_name": _TEXT, "display_name": _TEXT},
        required=("toolkit_slug", "profile_name"),
        example={"toolkit_slug": "github", "profile_name": "Work GitHub"},
        hints=WRITES,
    ),
    "create_credential_profile_for_agent": MetaToolTexts(
        description="The same while an agent is being set up; the link is `authentication_url`.",
        properties={"toolkit_slug": _SLUG, "profile_name": _TEXT},
        required=("toolkit_slug", "profile_name"),
        example={"toolkit_slug": "github", "profile_name": "Work GitHub"},
        hints=WRITES,
    ),
    "discover_user_mcp_servers": MetaToolTexts(
        description="List the tools of a connected profile. Enable only names from this list.",
        properties={"profile_id": _PROFILE_ID},
        required=("profile_id",),
        example={"profile_id": "the id from get_credential_profiles"},
    ),
    "discover_mcp_tools_for_agent": MetaToolTexts(
        description="The same by the profile's name, while an agent is being set up.",
        properties={"profile_name": _PROFILE_NAME, "profile_id": _PROFILE_ID},
        example={"profile_name": "Work GitHub"},
    ),
    "configure_profile_for_agent": MetaToolTexts(
        description="Enable tools of a connected profile. They can be called at once, by the names in the "
        "reply.",
        properties={"profile_id": _PROFILE_ID, "enabled_tools": _TOOLS, "display_name": _TEXT},
        required=("profile_id", "enabled_tools"),
        example={
            "profile_id": "the id from get_credential_profiles",
            "enabled_tools": ["GITHUB_CREATE_AN_ISSUE"],
        },
        hints=WRITES,
    ),
    "configure_agent_integration": MetaToolTexts(
        description="Enable tools of a connected profile for an agent, in all of its conversations. The "
        "agent 'default' is one without a name.",
        properties={
            "agent_id": _TEXT,
            "profile_name": _PROFILE_NAME,
            "profile_id": _PROFILE_ID,
            "enabled_tools": _TOOLS,
            "display_name": _TEXT,
        },
        required=("agent_id", "enabled_tools"),
        example={
            "agent_id": "default",
            "profile_name": "Work GitHub",
            "enabled_tools": ["GITHUB_CREATE_AN_ISSUE"],
        },
        hints=WRITES,
    ),
    "delete_credential_profile": MetaToolTexts(
        description="Delete a credential profile; the tools it enabled can no longer be called.",
        properties={"profile_id": _PROFILE_ID},
        required=("profile_id",),
        example={"profile_id": "the id from get_credential_profiles"},
        hints=DELETES,
    ),
}
