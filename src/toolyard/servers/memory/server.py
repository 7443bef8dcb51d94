"""Builds the server from its settings: tools, memories as resources, and the `recall` prompt.

A resource URI is the same for every user and shows each their own memories. Clients are therefore notified
that the list changed, never which memory, because that would reveal one user's activity to another.
"""

from typing import Annotated

from ..._version import __version__
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


def add_resources(server: Server, service: MemoryService, tools: MemoryTools, settings: Settings) -> None:
    texts = texts_of(settings.locale)

    async def memories(ctx: Context) -> str:
        with tools.errors_as_tool_errors():
            listing = await service.listing(owner_of(ctx.caller))
        lines = [f"- {head.path}: {prompt_injection.marked(head.about.title)}" for head in listing.heads]
        more = [texts.folder_more] if listing.total > len(lines) else []
        return "\n".join([f"# {texts.index_title} ({listing.total})", "", *lines, *more]) + "\n"

    async def memory(ctx: Context, path: str) -> str:
        with tools.errors_as_tool_errors():
            full = document.memory_path(f"{document.ROOT}/{path}")
            found = await service.view(owner_of(ctx.caller), full)
            if not isinstance(found, Memory):
                raise MemoryRequestError("unknown", path=full)
            return prompt_injection.marked(found.content)

    async def complete_path(value: str, context: dict[str, str], caller: Caller) -> list[str]:
        with tools.errors_as_tool_errors():
            start = f"{document.ROOT}/{value}"
            found = await service.paths_from(owner_of(caller), start, _COMPLETED)
        return [path.removeprefix(document.ROOT + "/") for path in found]

    async def recall(ctx: Context, topic: Annotated[str, texts.recall_topic]) -> list[Message]:
        with tools.errors_as_tool_errors():
            hits = await service.search(owner_of(ctx.caller), topic, _RECALLED, "both")
        if not hits:
            return [user(texts.recall_nothing.format(topic=topic))]
        shown = [f"## {hit.memory.path}\n\n{prompt_injection.marked(hit.memory.content)}" for hit in hits]
        return [user(texts.recall_found.format(topic=topic, memories="\n\n".join(shown)))]

    server.add_resource(
        memories,
        INDEX,
        name="memories",
        title=texts.index_title,
        description=texts.index_description,
        mime_type="text/markdown",
    )
    server.add_resource(
        memory,
        TEMPLATE,
        name="memory",
        title=texts.memory_title,
        description=texts.memory_description,
        mime_type="text/markdown",
    )
    server.completion(resource=TEMPLATE, argument="path")(complete_path)
    server.add_prompt(recall, title=texts.recall_title, description=texts.recall_description)


def build_server(settings: Settings) -> Server:
    texts = texts_of(settings.locale)
    service = MemoryService(open_store(settings), settings)
    # Clients must not cache: a changed memory is read again.
    server = Server(
        "memory",
        version=__version__,
        locale=settings.locale,
        title=texts.title,
        instructions=texts.instructions,
        cache_ttl=0.0,
    )
    server.on_close(service.close)
    tools = MemoryTools(server, service, settings)
    add_tools(server, tools, settings)
    add_resources(server, service, tools, settings)
    return server
