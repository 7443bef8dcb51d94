"""What the conformance suite wants to read, as plain data: both SDK servers import it, each in its own
environment, so it imports nothing.
"""

from typing import Any

INSTRUCTIONS = "Fixtures of the MCP conformance suite; nothing here is useful by itself."
TEMPLATE = "test://template/{id}/data"
PLACES = ("paris", "park", "party")
IDS = ("123", "124", "456")


def form(**properties: dict[str, Any]) -> dict[str, Any]:
    """The schema of a form in which every field is required."""
    return {"type": "object", "properties": properties, "required": list(properties)}


def choices(*titled: tuple[str, str]) -> list[dict[str, str]]:
    return [{"const": value, "title": title} for value, title in titled]


NAME = form(name={"type": "string"})
COLOR = form(color={"type": "string"})
CONTEXT = form(context={"type": "string"})
OK = form(ok={"type": "boolean"})
USER = form(
    username={"type": "string", "description": "User's response"},
    email={"type": "string", "description": "User's email address"},
)

DEFAULTS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
}

OPTIONS = ["option1", "option2", "option3"]
ENUMS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": OPTIONS},
        "titledSingle": {
            "type": "string",
            "oneOf": choices(
                ("value1", "First Option"), ("value2", "Second Option"), ("value3", "Third Option")
            ),
        },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": OPTIONS}},
        "titledMulti": {
            "type": "array",
            "items": {
                "anyOf": choices(
                    ("value1", "First Choice"), ("value2", "Second Choice"), ("value3", "Third Choice")
                )
            },
        },
    },
}

# Word for word from the scenario `json-schema-2020-12`: the keywords must survive `tools/list`.
CONTACT_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
