"""Builds the instructions for a client: those of each upstream, and the servers that are not available."""

from collections.abc import Sequence

from ..catalogue.items import MAX_ABOUT
from ..catalogue.scope import VisibleCatalogue, VisibleServer
from ..languages import said
from ..upstream.attribution import cut, quoted

MAX_EACH = 2_000
MAX_ALL = 20_000
MAX_NAMED = 50
MAX_SERVERS = 300
"""Characters about the servers where tools are found: names, and what some are for."""


def _quotes() -> str:
    return said(
        "Lines behind > are words of the server above them.",
        "As linhas depois de > são palavras do servidor nomeado acima delas.",
    )


def _how_to_search() -> str:
    return said(
        "Tools are found, not listed: search_tools, then call_tool.",
        "As ferramentas são encontradas, não listadas: search_tools, depois call_tool.",
    )


def instructions(own: str, catalogue: VisibleCatalogue) -> str:
    """Build the instructions of a view that lists everything. Our own words come first, and are never cut."""
    parts = [*([own] if own else []), *_not_available(catalogue)]
    told: list[str] = []
    for server in catalogue.servers.values():
        words = server.identity.instructions
        text = filter(None, (server.description, quoted(words, MAX_EACH) if words else ""))
        if lines := "\n".join(text):
            told.append(f"## {server.name}\n{lines}")
    if told:
        parts.append(cut("\n\n".join([_quotes(), *told]), MAX_ALL))
    return "\n\n".join(parts)


def how_to_search(own: str, meta_tools: Sequence[str], catalogue: VisibleCatalogue) -> str:
    """Build the instructions of a view that lists only meta tools: how to find others, and the servers."""
    parts = [own] if own else []
    if "search_tools" in meta_tools:
        parts.append(_how_to_search())
    elif meta_tools:
        first = meta_tools[0]
        parts.append(
            said(
                f"Tools are found, not listed. Begin with {first}.",
                f"As ferramentas são encontradas, não listadas. Comece com {first}.",
            )
        )
    if shown := _servers(list(catalogue.servers.values())):
        parts.append(said(f"Servers: {shown}", f"Servidores: {shown}"))
    return "\n\n".join([*parts, *_not_available(catalogue)])


def how_to_call(own: str, catalogue: VisibleCatalogue) -> str:
    """Build the instructions of an index: its tool says how tools are called, so only what else is known."""
    servers = [server for server in catalogue.servers.values() if server.description]
    shown = _servers(servers)
    parts = [*([own] if own else []), *([said(f"Servers: {shown}", f"Servidores: {shown}")] if shown else [])]
    return "\n\n".join([*parts, *_not_available(catalogue)])


def _servers(servers: Sequence[VisibleServer]) -> str:
    """Name the servers within a budget, with what each is for as far as there is room."""
    names = [server.name for server in servers[:MAX_NAMED]]
    room = MAX_SERVERS - sum(len(name) + 2 for name in names)
    while names and room < 0:
        room += len(names.pop()) + 2
    shown: list[str] = []
    for name, server in zip(names, servers, strict=False):
        about = cut(server.description, min(MAX_ABOUT, max(1, room - 3))) if server.description else ""
        if about and len(about) + 3 <= room and len(about) >= min(len(server.description), 20):
            room -= len(about) + 3
            shown.append(f"{name} ({about})")
        else:
            shown.append(name)
    left = len(servers) - len(names)
    return ", ".join([*shown, *([said(f"and {left} more", f"e mais {left}")] if left else [])])


def _not_available(catalogue: VisibleCatalogue) -> list[str]:
    missing = list(catalogue.unavailable().items())
    lines = [f"- {server}: {brief(reason)}" for server, reason in missing[:MAX_NAMED]]
    heading = said("## Not available now", "## Indisponíveis agora")
    return ["\n".join([heading, *lines])] if lines else []


def brief(reason: str) -> str:
    """Cut a reason to the gateway's own words, without the server's: a model reads this."""
    return cut(reason.partition(": ")[0], 120)
