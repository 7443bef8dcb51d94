"""The words of our own meta tools: what a model reads of them, and nothing else."""

from typing import Any

_SESSION = {"type": "string", "description": "session.id of an earlier answer, to go on with it"}
_TOOL = {"type": "string", "description": "Full name, as search_tools gave it"}
_ARGUMENTS = {"type": "object", "description": "As in the tool's input_schema"}
_FOUND = {
    "type": "object",
    "properties": {
        "tool": {"type": "string"},
        "server": {"type": "string"},
        "description": {"type": "string"},
        "score": {"type": "number"},
        "recommended": {"type": "boolean"},
        "connected": {"type": "boolean"},
        "auth": {"type": "string"},
        "input_schema": {"type": "object"},
    },
    "required": ["tool", "server", "score"],
}
_READS = {"readOnlyHint": True, "openWorldHint": False}


def definitions(queries: int, items: int, limit: int) -> dict[str, dict[str, Any]]:
    """By name: description, schemas and hints. The numbers are the most that may be given."""
    return {
        "search_tools": {
            "description": (
                "Find tools for what you want to do, among all that are available. Begin here. One query for "
                "each step of the task, in plain words. A result without input_schema: describe_tools; one "
                "that is not connected: manage_connections. Then call_tool with its full name."
            ),
            "input_schema": _object(
                {
                    "queries": {
                        "type": "array",
                        "minItems": 1,
                        "maxItems": queries,
                        "items": _object(
                            {
                                "use_case": {
                                    "type": "string",
                                    "description": 'What is to be done, e.g. "send an email to a customer"',
                                },
                                "known_fields": {
                                    "type": "string",
                                    "description": 'What you know already: "name:value, …"',
                                },
                                "category": {"type": "string"},
                                "server": {"type": "string", "description": "Only tools of this server"},
                                "limit": {"type": "integer", "minimum": 1, "maximum": limit},
                            },
                            "use_case",
                        ),
                    },
                    "session": _SESSION,
                },
                "queries",
            ),
            "output_schema": _object(
                {
                    "results": {
                        "type": "array",
                        "items": _object(
                            {
                                "query": {"type": "object"},
                                "results": {"type": "array", "items": _FOUND},
                                "total_results": {"type": "integer"},
                            },
                            "query",
                            "results",
                            "total_results",
                        ),
                    },
                    "session": {"type": "object"},
                    "source": {"enum": ["composio", "local", "composio+local", "fallback"]},
                    "missing": {"type": "array", "items": {"type": "object"}},
                },
                "results",
                "session",
                "source",
                "missing",
            ),
            "annotations": _READS,
        },
        "describe_tools": {
            "description": "What tools do in full and the schemas of their arguments, before you call them.",
            "input_schema": _object(
                {
                    "tools": {"type": "array", "minItems": 1, "maxItems": items, "items": _TOOL},
                    "session": _SESSION,
                },
                "tools",
            ),
            "annotations": _READS,
        },
        "call_tool": {
            "description": "Call one tool. The arguments are checked first; the result is the tool's own.",
            "input_schema": _object({"tool": _TOOL, "arguments": _ARGUMENTS, "session": _SESSION}, "tool"),
        },
        "call_tools": {
            "description": (
                "Call several tools at once, when none needs another's result. Results come in the same "
                "order; one that fails harms no other. A tool that asks the user is called by itself."
            ),
            "input_schema": _object(
                {
                    "calls": {
                        "type": "array",
                        "minItems": 1,
                        "maxItems": items,
                        "items": _object({"tool": _TOOL, "arguments": _ARGUMENTS}, "tool"),
                    },
                    "parallel": {"type": "integer", "minimum": 1, "description": "At most so many at a time"},
                    "seconds": {"type": "number", "description": "What is not done by then is cancelled"},
                    "session": _SESSION,
                },
                "calls",
            ),
        },
        "manage_connections": {
            "description": (
                "Whether servers and apps are connected. For an app that is not: link gives an address for "
                "the user to authorise it at, wait returns when they have."
            ),
            "input_schema": _object(
                {
                    "action": {"enum": ["status", "link", "wait"], "default": "status"},
                    "names": {
                        "type": "array",
                        "items": {"type": "string"},
                        "description": "Servers or apps; all without it",
                    },
                    "seconds": {
                        "type": "number",
                        "default": 60,
                        "description": "How long to wait, up to 600",
                    },
                    "session": _SESSION,
                }
            ),
        },
    }


def _object(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        found["required"] = list(required)
    return found
