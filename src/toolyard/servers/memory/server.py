"""Builds the server from its settings: tools, memories as resources, and the `recall` prompt.

A resource address is the same for every user and shows each their own memories. Clients are therefore told
that the list changed, never which memory: that would tell one user what another does.
"""

from typing import Annotated

from ... import __version__
from ...kit import Caller, Context, Message, Server, prompt_injection, user
from . import document
from .errors import MemoryRequestError
from .service import MemoryService
from .settings import Settings
from .store import Memory, open_store, owner_of
from .texts import texts_of
from .tools import MemoryTools, add_tools

INDEX = "memory:///memories"
TEMPLATE = "memory:///memories/{+path}"
_RECALLED = 5
_COMPLETED = 100


def add_resources(server: Server, keeper: MemoryService, tools: MemoryTools, settings: Settings) -> None:
    said = texts_of(settings.locale)

    async def memories(ctx: Context) -> str:
        with tools.explained():
            listing = await keeper.listing(owner_of(ctx.caller))
        lines = [f"- {head.path}: {prompt_injection.marked(head.about.title)}" for head in listing.heads]
        more = [said.folder_more] if listing.total > len(lines) else []
        return "\n".join([f"# {said.index_title} ({listing.total})", "", *lines, *more]) + "\n"

    async def memory(ctx: Context, path: str) -> str:
        with tools.explained():
            full = document.memory_path(f"{document.ROOT}/{path}")
            found = await keeper.view(owner_of(ctx.caller), full)
            if not isinstance(found, Memory):
                raise MemoryRequestError("unknown", path=full)
            return prompt_injection.marked(found.content)

    async def complete_path(value: str, context: dict[str, str], caller: Caller) -> list[str]:
        with tools.explained():
            start = f"{document.ROOT}/{value}"
            found = await keeper.paths_from(owner_of(caller), start, _COMPLETED)
        return [path.removeprefix(document.ROOT + "/") for path in found]

    async def recall(ctx: Context, topic: Annotated[str, said.recall_topic]) -> list[Message]:
        with tools.explained():
            hits = await keeper.search(owner_of(ctx.caller), topic, _RECALLED, "both")
        if not hits:
            return [user(said.recall_nothing.format(topic=topic))]
        shown = [f"## {hit.memory.path}\n\n{prompt_injection.marked(hit.memory.content)}" for hit in hits]
        return [user(said.recall_found.format(topic=topic, memories="\n\n".join(shown)))]

    server.add_resource(
        memories,
        INDEX,
        name="memories",
        title=said.index_title,
        description=said.index_description,
        mime_type="text/markdown",
    )
    server.add_resource(
        memory,
        TEMPLATE,
        name="memory",
        title=said.memory_title,
        description=said.memory_description,
        mime_type="text/markdown",
    )
    server.completion(resource=TEMPLATE, argument="path")(complete_path)
    server.add_prompt(recall, title=said.recall_title, description=said.recall_description)


def build_server(settings: Settings) -> Server:
    said = texts_of(settings.locale)
    keeper = MemoryService(open_store(settings), settings)
    # Not cached by clients: a memory that was just changed is read anew.
    server = Server(
        "memory", version=__version__, title=said.title, instructions=said.instructions, cache_ttl=0.0
    )
    server.on_close(keeper.close)
    tools = MemoryTools(server, keeper, settings)
    add_tools(server, tools, settings)
    add_resources(server, keeper, tools, settings)
    return server
