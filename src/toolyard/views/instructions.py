"""Builds the instructions for a client: those of each upstream, and the servers that are not available."""

from collections.abc import Sequence

from ..catalogue.items import MAX_ABOUT
from ..catalogue.scope import VisibleCatalogue, VisibleServer

MAX_EACH = 2_000
MAX_ALL = 20_000
MAX_NAMED = 50
HOW_TO_SEARCH = """\
Tools are found, not listed:
1. search_tools with what you want to do, in plain words; one query for each step.
2. describe_tools for a tool whose input_schema was not in the answer.
3. call_tool with its full name and arguments; call_tools for several that do not need each other.
Use manage_connections for servers and apps that are not connected."""


def instructions(own: str, catalogue: VisibleCatalogue) -> str:
    parts = [own] if own else []
    for server in catalogue.servers.values():
        text = "\n".join(filter(None, (server.description, server.identity.instructions)))
        if text:
            parts.append(f"## {server.name}\n{_cut(text, MAX_EACH)}")
    return _cut("\n\n".join([*parts, *_not_available(catalogue)]), MAX_ALL)


def how_to_search(own: str, meta_tools: Sequence[str], catalogue: VisibleCatalogue) -> str:
    """Build the instructions of a view that lists only meta tools: how to find others, and the servers."""
    parts = [own] if own else []
    if "search_tools" in meta_tools:
        parts.append(HOW_TO_SEARCH)
    elif meta_tools:
        parts.append(f"Tools are found, not listed. Begin with {meta_tools[0]}.")
    servers = list(catalogue.servers.values())
    if servers:
        names = [_named(server) for server in servers[:MAX_NAMED]]
        more = [f"and {len(servers) - MAX_NAMED} more"] if len(servers) > MAX_NAMED else []
        parts.append(f"Servers, and how many tools each has: {', '.join([*names, *more])}")
    return "\n\n".join([*parts, *_not_available(catalogue)])


def _named(server: VisibleServer) -> str:
    count = len(server.entries["tools"])
    return (
        f"{server.name} ({count}: {_cut(server.description, MAX_ABOUT)})"
        if server.description
        else f"{server.name} ({count})"
    )


def _not_available(catalogue: VisibleCatalogue) -> list[str]:
    missing = list(catalogue.unavailable().items())
    lines = [f"- {server}: {brief(reason)}" for server, reason in missing[:MAX_NAMED]]
    return ["## Not available now\n" + "\n".join(lines)] if lines else []


def brief(reason: str) -> str:
    """Cut a reason to the gateway's own words, without the server's: a model reads this."""
    return _cut(reason.partition(": ")[0], 120)


def _cut(text: str, size: int) -> str:
    return text if len(text) <= size else text[: size - 1] + "…"
