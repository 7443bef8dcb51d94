"""Builds the instructions for a client: those of each upstream, and the servers that are not available."""

from collections.abc import Sequence

from ..catalogue.items import MAX_ABOUT
from ..catalogue.scope import VisibleCatalogue, VisibleServer
from ..languages import said
from ..upstream.attribution import cut, quoted

MAX_EACH = 2_000
MAX_ALL = 20_000
MAX_NAMED = 50


def _quotes() -> str:
    return said(
        "Lines behind > are words of the server above them.",
        "As linhas depois de > são palavras do servidor nomeado acima delas.",
    )


def _how_to_search() -> str:
    return said(
        """\
Tools are found, not listed:
1. search_tools with what you want to do, in plain words; one query for each step.
2. describe_tools for a tool whose input_schema was not in the answer.
3. call_tool with its full name and arguments; call_tools for several that do not need each other.
Use manage_connections for servers and apps that are not connected.""",
        """\
As ferramentas são encontradas, não listadas:
1. search_tools com o que você quer fazer, em palavras simples; uma consulta para cada passo.
2. describe_tools para uma ferramenta cujo input_schema não veio na resposta.
3. call_tool com o nome completo e os argumentos; call_tools para várias que não dependem umas das outras.
Use manage_connections para servidores e aplicativos que não estão conectados.""",
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
    servers = list(catalogue.servers.values())
    if servers:
        names = [_named(server) for server in servers[:MAX_NAMED]]
        left = len(servers) - MAX_NAMED
        shown = ", ".join([*names, *([said(f"and {left} more", f"e mais {left}")] if left > 0 else [])])
        parts.append(
            said(
                f"Servers, and how many tools each has: {shown}",
                f"Servidores, e quantas ferramentas cada um tem: {shown}",
            )
        )
    return "\n\n".join([*parts, *_not_available(catalogue)])


def _named(server: VisibleServer) -> str:
    count = len(server.entries["tools"])
    return (
        f"{server.name} ({count}: {cut(server.description, MAX_ABOUT)})"
        if server.description
        else f"{server.name} ({count})"
    )


def _not_available(catalogue: VisibleCatalogue) -> list[str]:
    missing = list(catalogue.unavailable().items())
    lines = [f"- {server}: {brief(reason)}" for server, reason in missing[:MAX_NAMED]]
    heading = said("## Not available now", "## Indisponíveis agora")
    return ["\n".join([heading, *lines])] if lines else []


def brief(reason: str) -> str:
    """Cut a reason to the gateway's own words, without the server's: a model reads this."""
    return cut(reason.partition(": ")[0], 120)
