"""Descriptions and schemas of Composio's meta tools. `{p}` is the product's prefix."""

from typing import Any

from ..definitions import ACTS, SESSION, SESSION_ID, WRITES, MetaToolTexts

_TEXT: dict[str, Any] = {"type": "string"}
_TEXTS: dict[str, Any] = {"type": "array", "items": _TEXT}
_OBJECT: dict[str, Any] = {"type": "object"}
_FLAG: dict[str, Any] = {"type": "boolean", "default": False}
_ASIDE = {
    "thought": _TEXT,
    "current_step": _TEXT,
    "current_step_metric": _TEXT,
    "next_step": _TEXT,
}
"""A model's notes to itself; accepted and ignored."""

TEXTS: dict[str, MetaToolTexts] = {
    "SEARCH_TOOLS": MetaToolTexts(
        description="Find the tools for one or more use cases. Call this first: the reply has tool slugs, "
        "the schemas of the best, which apps still need a connection, and a session id to pass on.",
        properties={
            "queries": {
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "properties": {
                        "use_case": {"type": "string", "description": "One action on one app"},
                        "known_fields": {"type": "string", "description": "Known values: 'k:v, k:v'"},
                    },
                    "required": ["use_case"],
                },
            },
            "session": SESSION,
            "limit": {"type": "integer", "description": "Tools for each query"},
        },
        required=("queries",),
        example={
            "queries": [{"use_case": "send an email", "known_fields": "recipient:ann@example.com"}],
            "session": {"generate_id": True},
        },
    ),
    "GET_TOOL_SCHEMAS": MetaToolTexts(
        description="The full input schemas of tools that a search named without them.",
        properties={"tool_slugs": {**_TEXTS, "minItems": 1}, "session_id": SESSION_ID},
        required=("tool_slugs",),
        example={"tool_slugs": ["GMAIL_SEND_EMAIL"]},
    ),
    "MULTI_EXECUTE_TOOL": MetaToolTexts(
        description="Run 1 to 50 tools that do not depend on each other, side by side. Use slugs and "
        "arguments exactly as {p}_SEARCH_TOOLS or {p}_GET_TOOL_SCHEMAS gave them.",
        properties={
            "tools": {
                "type": "array",
                "minItems": 1,
                "maxItems": 50,
                "items": {
                    "type": "object",
                    "properties": {"tool_slug": _TEXT, "arguments": _OBJECT},
                    "required": ["tool_slug", "arguments"],
                },
            },
            "session_id": SESSION_ID,
            "sync_response_to_workbench": _FLAG,
            "memory": _OBJECT,
            **_ASIDE,
        },
        required=("tools",),
        example={
            "tools": [{"tool_slug": "GMAIL_FETCH_EMAILS", "arguments": {"max_results": 3}}],
            "session_id": "the id from the search",
        },
        hints=ACTS,
    ),
    "EXECUTE_TOOL": MetaToolTexts(
        description="Run one tool. A destructive tool needs `allow_destructive`.",
        properties={
            "tool_slug": _TEXT,
            "arguments": _OBJECT,
            "connected_account_id": _TEXT,
            "allow_destructive": _FLAG,
            "session_id": SESSION_ID,
        },
        required=("tool_slug", "arguments"),
        example={"tool_slug": "GMAIL_FETCH_EMAILS", "arguments": {"max_results": 3}},
        hints=ACTS,
    ),
    "MANAGE_CONNECTIONS": MetaToolTexts(
        description="See whether apps are connected and begin to connect those that are not: show the user "
        "each `redirect_url` as a link, then {p}_WAIT_FOR_CONNECTIONS.",
        properties={
            "toolkits": {
                "type": "array",
                "minItems": 1,
                "description": "Slugs of apps",
                "items": {
                    "anyOf": [
                        _TEXT,
                        {
                            "type": "object",
                            "properties": {
                                "name": _TEXT,
                                "action": {"enum": ["add", "list", "rename", "remove"]},
                                "account_id": _TEXT,
                                "alias": _TEXT,
                            },
                            "required": ["name"],
                        },
                    ]
                },
            },
            "reinitiate_all": {**_FLAG, "description": "New links even for connected apps"},
            "specify_custom_auth": {**_OBJECT, "description": "{toolkit: {field: value}}"},
            "session_id": SESSION_ID,
        },
        required=("toolkits",),
        example={"toolkits": ["gmail"], "reinitiate_all": False},
        hints=WRITES,
    ),
    "WAIT_FOR_CONNECTIONS": MetaToolTexts(
        description="Wait until the user has authorised apps by their links.",
        properties={
            "toolkits": {**_TEXTS, "minItems": 1},
            "mode": {"enum": ["any", "all"], "default": "all"},
            "timeout_seconds": {"type": "number", "default": 300, "maximum": 600},
            "session_id": SESSION_ID,
        },
        required=("toolkits",),
        example={"toolkits": ["gmail"], "mode": "all", "timeout_seconds": 120},
    ),
    "LIST_TOOLKITS": MetaToolTexts(
        description="List the available apps, by name or category.",
        properties={
            "category": _TEXT,
            "name_filter": _TEXT,
            "min_tools": {"type": "integer", "description": "Applies if the number is known"},
            "no_auth_only": _FLAG,
            "size": {"type": "integer", "default": 10},
        },
        example={"name_filter": "mail", "size": 10},
    ),
    "INITIATE_CONNECTION": MetaToolTexts(
        description="Begin to connect one app, with the fields it asks for.",
        properties={"toolkit": _TEXT, "parameters": _OBJECT},
        required=("toolkit", "parameters"),
        example={"toolkit": "gmail", "parameters": {}},
        hints=WRITES,
    ),
    "GET_REQUIRED_PARAMETERS": MetaToolTexts(
        description="List the fields that an app needs before it can be connected.",
        properties={"toolkit": _TEXT},
        required=("toolkit",),
        example={"toolkit": "gmail"},
    ),
    "CREATE_PLAN": MetaToolTexts(
        description="Plan the steps for a use case, from the schemas of the tools that a search returned.",
        properties={
            "use_case": _TEXT,
            "difficulty": {"enum": ["medium", "hard"]},
            "primary_tool_slugs": {**_TEXTS, "minItems": 1},
            "related_tool_slugs": {**_TEXTS, "default": []},
            "reasoning": _TEXT,
            "known_fields": _TEXT,
            "session_id": SESSION_ID,
        },
        required=("use_case", "primary_tool_slugs"),
        example={"use_case": "send an email", "primary_tool_slugs": ["GMAIL_SEND_EMAIL"]},
    ),
}
SINGULAR = "WAIT_FOR_CONNECTION"
"""The older name of WAIT_FOR_CONNECTIONS."""
COMPOSIO_ONLY = {
    "REMOTE_WORKBENCH": "sandboxes for code",
    "REMOTE_BASH_TOOL": "sandboxes for shell commands",
    "UPSERT_RECIPE": "stored recipes",
    "GET_RECIPE": "stored recipes",
    "CREATE_UPDATE_RECIPE": "stored recipes",
    "EXECUTE_RECIPE": "stored recipes",
    "FIND_RECIPE": "stored recipes",
    "GET_RECIPE_DETAILS": "stored recipes",
    "MANAGE_RECIPE_SCHEDULE": "stored recipes",
}
"""Meta tools that need a mounted Composio."""
