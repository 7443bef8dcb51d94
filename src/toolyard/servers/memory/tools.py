"""The tools: from arguments to the service, and from its answers to results with a readable text.

Asks the user before anything is deleted, where the client can be asked.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any, cast

from msgspec import Meta

from ...kit import Context, Server, ToolError, ToolResult, prompt_injection
from ...kit.localization import Locale, add_localized_tool
from . import document
from . import results as shapes
from . import texts as faces
from .document import body_of
from .errors import MemoryRequestError, MemoryStoreError
from .service import MemoryHit, MemoryService, Mode, SaveOutcome
from .settings import Settings
from .store import Memory, MemoryVersion, owner_of
from .texts import texts_of


async def confirmed(ctx: Context, question: str, yes: str) -> bool:
    """Whether the user agrees; where nobody can be asked, the call itself is the word."""
    if not _can_ask(ctx.caller.capabilities):
        return True
    field = {"type": "boolean", "title": yes, "default": False}
    form = {"type": "object", "properties": {"confirm": field}, "required": ["confirm"]}
    answer = await ctx.elicit(question, form)
    return answer.accepted and cast(dict[str, Any], answer.content or {}).get("confirm") is True


def _can_ask(capabilities: Mapping[str, Any]) -> bool:
    able = capabilities.get("elicitation")
    # Clients from before there were two ways declare an empty object and mean forms.
    return able is not None and (not able or "form" in able)


MOST_HITS = 50
_PREVIEW = 80


class MemoryTools:
    def __init__(self, server: Server, keeper: MemoryService, settings: Settings) -> None:
        self._server = server
        self._keeper = keeper
        self._texts = texts_of(settings.locale)
        self._locale: Locale = settings.locale
        self._actions = shapes.ACTIONS[settings.locale]

    @contextmanager
    def explained(self) -> Generator[None]:
        """What cannot be done, in the words of the server's language."""
        try:
            yield
        except (MemoryRequestError, MemoryStoreError) as problem:
            raise ToolError(self._texts.problem(problem)) from None

    async def view_memories(self, ctx: Context, path: str = document.ROOT) -> ToolResult:
        with self.explained():
            path = document.cleaned(path)
            found = await self._keeper.view(owner_of(ctx.caller), path)
        if isinstance(found, Memory):
            return self._memory(found)
        entries, more = found
        items = [shapes.FolderItem(entry.name, entry.is_folder) for entry in entries]
        said = [self._texts.folder.format(path=path, count=len(items))]
        said += [f"- {item.name}{'/' if item.is_dir else ''}" for item in items]
        said += [self._texts.folder_more] if more else []
        text = "\n".join(said) if items else self._texts.folder_empty.format(path=path)
        viewed = shapes.Viewed(path=path, is_directory=True, items=items, more=more)
        return ToolResult(content=[text], structured=viewed)

    def _memory(self, memory: Memory) -> ToolResult:
        shown = prompt_injection.marked(memory.content)
        count = prompt_injection.count_suspect(memory.content)
        viewed = shapes.Viewed(
            path=memory.path, is_directory=False, content=shown, version=memory.version, suspect=count
        )
        return ToolResult(content=["\n\n".join([*self._warning(count), shown])], structured=viewed)

    async def save_memory(self, ctx: Context, path: str, content: str) -> ToolResult:
        with self.explained():
            saving = await self._keeper.save(owner_of(ctx.caller), document.memory_path(path), content)
        if saving.happened == "created":
            self._server.notify_resources_changed()
        about = saving.draft.about
        suspect = prompt_injection.count_suspect(saving.draft.content)
        saved = shapes.Saved(
            path=saving.path,
            action=self._actions[_ACTIONS[saving.happened]],
            category=about.category,
            importance=about.importance,
            version=saving.version,
            similar=[shapes.Similar(other, round(similarity, 3)) for other, similarity in saving.similar],
            suspect=suspect,
        )
        return ToolResult(
            content=["\n".join([*self._saved(saving), *self._warning(suspect)])], structured=saved
        )

    def _saved(self, saving: SaveOutcome) -> list[str]:
        said = self._texts
        if saving.happened == "duplicate":
            return [said.duplicate.format(other=saving.similar[0][0])]
        sentences = {"created": said.created, "updated": said.updated, "unchanged": said.unchanged}
        near = [said.similar.format(other=other, similarity=much) for other, much in saving.similar]
        return [sentences[saving.happened].format(path=saving.path, version=saving.version), *near]

    async def update_memory(self, ctx: Context, path: str, old_str: str, new_str: str) -> ToolResult:
        with self.explained():
            path = document.memory_path(path)
            changed, version, content = await self._keeper.edit(owner_of(ctx.caller), path, old_str, new_str)
        suspect = prompt_injection.count_suspect(content)
        sentence = self._texts.edited if changed else self._texts.edited_not
        text = "\n".join([sentence.format(path=path, version=version), *self._warning(suspect)])
        updated = shapes.Updated(path=path, updated=changed, version=version, suspect=suspect)
        return ToolResult(content=[text], structured=updated)

    async def delete_memory(self, ctx: Context, path: str) -> ToolResult:
        with self.explained():
            path = document.memory_path(path)
            about = await self._keeper.about_to_remove(owner_of(ctx.caller), path)
        said = self._texts
        is_file = about.kind == "file"
        question = said.ask_delete_file if is_file else said.ask_delete_folder
        if not await confirmed(ctx, question.format(path=path, count=len(about.paths)), said.confirm):
            refused = shapes.Deleted(path=path, type=about.kind, count=0, declined=True)
            return ToolResult(content=[said.deleted_not], structured=refused)
        with self.explained():
            removed = await self._keeper.remove(owner_of(ctx.caller), path)
        self._server.notify_resources_changed()
        count = len(removed.paths)
        sentence = said.deleted_file if removed.kind == "file" else said.deleted_folder
        deleted = shapes.Deleted(path=path, type=removed.kind, count=count)
        return ToolResult(content=[sentence.format(path=path, count=count)], structured=deleted)

    async def clear_memories(self, ctx: Context) -> ToolResult:
        with self.explained():
            total = await self._keeper.count(owner_of(ctx.caller))
        said = self._texts
        if not await confirmed(ctx, said.ask_clear.format(count=total), said.confirm):
            refused = shapes.Cleared(count=0, declined=True)
            return ToolResult(content=[said.cleared_not], structured=refused)
        with self.explained():
            count = 0
            async for erased in self._keeper.clear(owner_of(ctx.caller)):
                count += erased
                await ctx.report_progress(count, total)
        self._server.notify_resources_changed()
        cleared = shapes.Cleared(count=count)
        return ToolResult(content=[said.cleared.format(count=count)], structured=cleared)

    async def list_memories(self, ctx: Context) -> ToolResult:
        with self.explained():
            listing = await self._keeper.listing(owner_of(ctx.caller))
        memories = [
            shapes.ListedMemory(
                path=head.path,
                kind=head.about.kind,
                domain=head.about.domain,
                level=head.about.level,
                title=prompt_injection.marked(head.about.title),
                scope=head.about.scope,
            )
            for head in listing.heads
        ]
        said = [self._texts.listed.format(total=listing.total, shown=len(memories))]
        said += [f"- {one.path}: {one.title} ({one.kind}, {one.domain})" for one in memories]
        structured = shapes.Memories(
            total=listing.total,
            memories=memories,
            shown=len(memories),
            by_kind=listing.kinds,
            by_domain=listing.domains,
        )
        text = "\n".join(said) if listing.total else self._texts.listed_none
        return ToolResult(content=[text], structured=shapes.named(structured, self._locale))

    async def search_memories(
        self,
        ctx: Context,
        query: str,
        limit: Annotated[int, Meta(ge=1, le=MOST_HITS)] = 10,
        mode: Mode = "both",
    ) -> ToolResult:
        with self.explained():
            hits = await self._keeper.search(owner_of(ctx.caller), query, limit, mode)
        results = [_hit(hit) for hit in hits]
        said = [self._texts.found.format(count=len(hits), query=query)]
        said += [f"- {one.path}: {one.title}\n  {one.excerpt}" for one in results]
        text = "\n".join(said) if hits else self._texts.found_none.format(query=query)
        found = shapes.FoundMemories(count=len(hits), results=results)
        return ToolResult(content=[text], structured=shapes.named(found, self._locale))

    async def view_memory_history(self, ctx: Context, path: str) -> ToolResult:
        with self.explained():
            path = document.memory_path(path)
            versions, current = await self._keeper.history(owner_of(ctx.caller), path)
        kept = [_kept(version, current) for version in versions]
        said = [self._texts.versions.format(path=path, count=len(kept))]
        for one in kept:
            now = f" ({self._texts.version_current})" if one.current else ""
            by = f" ({one.changed_by})" if one.changed_by else ""
            said.append(f"- {one.version}{now}: {one.event} {one.at}{by}\n  {one.preview}")
        said += [self._texts.version_deleted] if current is None else []
        history = shapes.History(path=path, deleted=current is None, count=len(kept), versions=kept)
        return ToolResult(content=["\n".join(said)], structured=history)

    async def restore_memory_version(
        self, ctx: Context, path: str, version: Annotated[int, Meta(ge=1, le=2**53)]
    ) -> ToolResult:
        with self.explained():
            path = document.memory_path(path)
            now = await self._keeper.restore(owner_of(ctx.caller), path, version)
        self._server.notify_resources_changed()
        text = self._texts.restored.format(path=path, restored=version, version=now)
        return ToolResult(
            content=[text], structured=shapes.Restored(path=path, restored=version, version=now)
        )

    def _warning(self, suspect: int) -> list[str]:
        return [self._texts.suspect.format(count=suspect)] if suspect else []


_ACTIONS = {
    "created": "created",
    "updated": "updated",
    "unchanged": "updated",
    "duplicate": "duplicate_blocked",
}


def _hit(hit: MemoryHit) -> shapes.FoundMemory:
    found = shapes.FoundMemory(
        path=hit.memory.path,
        title=prompt_injection.marked(hit.memory.about.title),
        excerpt=prompt_injection.marked(hit.excerpt),
        found_by=["text"] if hit.by_text else [],
    )
    if hit.similarity is not None:
        found.found_by.append("meaning")
        found.similarity = round(hit.similarity, 3)
    return found


def _kept(version: MemoryVersion, current: int | None) -> shapes.HistoryEntry:
    return shapes.HistoryEntry(
        version=version.version,
        event=version.happened,
        changed_by=version.by,
        at=datetime.fromtimestamp(version.at, UTC).isoformat(timespec="seconds"),
        bytes=len(version.content.encode()),
        preview=prompt_injection.marked(
            " ".join(body_of(version.content)[: _PREVIEW * 4].split())[:_PREVIEW]
        ),
        current=version.version == current,
    )


def add_tools(server: Server, tools: MemoryTools, settings: Settings) -> None:
    made = shapes.schemas(settings.locale)
    rows = (
        (tools.view_memories, faces.VIEW, shapes.Viewed, "reads"),
        (tools.save_memory, faces.SAVE, shapes.Saved, "writes"),
        (tools.update_memory, faces.UPDATE, shapes.Updated, "writes"),
        (tools.delete_memory, faces.DELETE, shapes.Deleted, "destroys"),
        (tools.list_memories, faces.LIST, shapes.Memories, "reads"),
        (tools.clear_memories, faces.CLEAR, shapes.Cleared, "destroys"),
        (tools.search_memories, faces.SEARCH, shapes.FoundMemories, "reads"),
        (tools.view_memory_history, faces.HISTORY, shapes.History, "reads"),
        (tools.restore_memory_version, faces.RESTORE, shapes.Restored, "writes"),
    )
    for function, face, shape, does in rows:
        add_localized_tool(
            server,
            settings.locale,
            function,
            en=face["en"],
            pt=face["pt"],
            output_schema=made[shape],
            read_only=does == "reads",
            destructive=does == "destroys",
            idempotent=True,
            open_world=False,
        )
