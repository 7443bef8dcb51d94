"""Memories as resources, and a prompt that begins with them.

An address is the same for every user and shows each their own. So clients are told that there are others now,
never which one has changed: that would tell one user what another does.
"""

from typing import Annotated

from ...kit import Caller, Context, Message, Server, suspicion, user
from . import paths
from .keeping import Keeper
from .problems import Problem
from .settings import Settings
from .store import Memory, owner_of
from .texts import texts
from .tools import Tools

INDEX = "memory:///memories"
TEMPLATE = "memory:///memories/{+path}"
_RECALLED = 5
_COMPLETED = 100


def add_offers(server: Server, keeper: Keeper, tools: Tools, settings: Settings) -> None:
    said = texts(settings.locale)

    async def memories(ctx: Context) -> str:
        with tools.explained():
            listing = await keeper.listing(owner_of(ctx.caller))
        lines = [f"- {head.path}: {suspicion.marked(head.about.title)}" for head in listing.heads]
        more = [said.folder_more] if listing.total > len(lines) else []
        return "\n".join([f"# {said.index_title} ({listing.total})", "", *lines, *more]) + "\n"

    async def memory(ctx: Context, path: str) -> str:
        with tools.explained():
            full = paths.memory_path(f"{paths.ROOT}/{path}")
            found = await keeper.view(owner_of(ctx.caller), full)
            if not isinstance(found, Memory):
                raise Problem("unknown", path=full)
            return suspicion.marked(found.content)

    async def complete_path(value: str, context: dict[str, str], caller: Caller) -> list[str]:
        with tools.explained():
            start = f"{paths.ROOT}/{value}"
            found = await keeper.paths_from(owner_of(caller), start, _COMPLETED)
        return [path.removeprefix(paths.ROOT + "/") for path in found]

    async def recall(ctx: Context, topic: Annotated[str, said.recall_topic]) -> list[Message]:
        with tools.explained():
            hits = await keeper.search(owner_of(ctx.caller), topic, _RECALLED, "both")
        if not hits:
            return [user(said.recall_nothing.format(topic=topic))]
        shown = [f"## {hit.memory.path}\n\n{suspicion.marked(hit.memory.content)}" for hit in hits]
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
