"""Servers made of the definitions of others, where a gateway's configuration can find them by name.

They answer every call with nothing: what a tool answers costs the same however it was found.
"""

from __future__ import annotations

from typing import Any

from toolyard.config import InProcess, ServerConfig
from toolyard.kit import Server

_servers: dict[str, Server] = {}


def __getattr__(name: str) -> Server:
    """The loader asks the module for the attribute that the configuration names."""
    try:
        return _servers[name]
    except KeyError:
        raise AttributeError(name) from None


async def _nothing(arguments: dict[str, Any]) -> str:
    return ""


def mount(tools: list[dict[str, Any]]) -> list[ServerConfig]:
    """One server for each that the tools name; a definition that the kit refuses is left out."""
    _servers.clear()
    names: dict[str, str] = {}
    for tool in tools:
        slot = names.setdefault(tool["server"], f"s{len(names)}")
        server = _servers.setdefault(slot, Server(tool["server"]))
        schema = {"type": "object", **(tool["parameters"] or {})}
        try:
            server.add_tool(_nothing, name=tool["name"], description=tool["description"], input_schema=schema)
        except (ValueError, TypeError):
            continue
    place = f"{__name__}:"
    return [
        ServerConfig(name=name, where=InProcess(module=place + slot), connect_timeout=60.0)
        for name, slot in names.items()
    ]
