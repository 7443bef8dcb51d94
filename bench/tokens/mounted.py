"""Servers made of the definitions of others, where a gateway's configuration can find them by name.

They answer every call with nothing: what a tool answers costs the same however it was found.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from toolyard.config import InProcess, ServerConfig
from toolyard.config.errors import ConfigValueError
from toolyard.config.names import ServerNames, fitting_server_name
from toolyard.kit import Server

TYPES = {
    "str": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "dict": "object",
    "None": "null",
}

_servers: dict[str, Server] = {}


def __getattr__(name: str) -> Server:
    """The loader asks the module for the attribute that the configuration names."""
    try:
        return _servers[name]
    except KeyError:
        raise AttributeError(name) from None


async def _nothing(arguments: dict[str, Any]) -> str:
    return ""


def mount(tools: Iterable[dict[str, Any]], count: int) -> list[ServerConfig]:
    """The first `count` tools that can be served, one server for each that they name."""
    _servers.clear()
    names: dict[str, str] = {}
    served = 0
    known = ServerNames()
    for tool in tools:
        name = fitting_server_name(tool["server"])
        try:
            known.claim(name)
        except ConfigValueError:  # too much like another's
            continue
        slot = names.setdefault(name, f"s{len(names)}")
        server = _servers.setdefault(slot, Server(tool["server"]))
        with suppress(ValueError):
            server.add_tool(
                _nothing,
                name=tool["name"],
                description=tool["description"],
                input_schema=_schema(tool["parameters"] or {}),
            )
            served += 1
        if served == count:
            break
    place = f"{__name__}:"
    return [
        ServerConfig(name=name, where=InProcess(module=place + slot), connect_timeout=60.0)
        for name, slot in names.items()
    ]


def _schema(parameters: dict[str, Any]) -> dict[str, Any]:
    """Some sets have types of Python's, and dates and the like, where a schema has JSON's."""
    members: dict[str, Any] = {}
    for name, member in (parameters.get("properties") or {}).items():
        members[name] = told = dict(member) if isinstance(member, dict) else {"description": str(member)}
        kind = told.get("type")
        if isinstance(kind, str) and kind not in TYPES.values():
            told["type"] = TYPES.get(kind, "string")
    return {**parameters, "type": "object", "properties": members}
