"""The tools: from arguments to the service, and from its answers to results with a readable text.

Asks the user before anything is deleted, where the client can be asked.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any, cast

from msgspec import Meta

from ...kit import Context, Server, ToolError, ToolResult, prompt_injection
from ...kit.localization import add_localized_tool
from ...languages import Locale
from . import document
from .document import body_of
from .errors import MemoryRequestError, MemoryStoreError
from .results import (
    ACTIONS,
    Cleared,
    Deleted,
    FolderItem,
    FoundMemories,
    FoundMemory,
    History,
    HistoryEntry,
    ListedMemory,
    Memories,
    Restored,
    Saved,
    Similar,
    Updated,
    Viewed,
    named,
    schemas,
)
from .service import MemoryHit, MemoryService, Mode, SaveOutcome
from .settings import Settings
from .store import Memory, MemoryVersion, owner_of
from .texts import CLEAR, DELETE, HISTORY, LIST, RESTORE, SAVE, SEARCH, UPDATE, VIEW, texts_of


async def confirmed(ctx: Context, question: str, yes: str) -> bool:
    """Asks the user; returns True if the client cannot ask."""
    if not _can_ask(ctx.caller.capabilities):
        return True
    field = {"type": "boolean", "title": yes, "default": False}
    form = {"type": "object", "properties": {"confirm": field}, "required": ["confirm"]}
    answer = await ctx.elicit(question, form)
    return answer.accepted and cast(dict[str, Any], answer.content or {}).get("confirm") is True


def _can_ask(capabilities: Mapping[str, Any]) -> bool:
    modes = capabilities.get("elicitation")
    # Older clients declare an empty object and mean forms.
    return modes is not None and (not modes or "form" in modes)


MAX_HITS = 50
_PREVIEW = 80


class MemoryTools:
    def __init__(self, server: Server, service: MemoryService, settings: Settings) -> None:
        self._server = server
        self._service = service
        self._texts = texts_of(settings.locale)
        self._locale: Locale = settings.locale
        self._actions = ACTIONS[settings.locale]

    @contextmanager
    def errors_as_tool_errors(self) -> Generator[None]:
        """Raises the server's errors as ToolError, in its language."""
        try:
            yield
        except (MemoryRequestError, MemoryStoreError) as error:
            raise ToolError(self._texts.explain(error)) from None

    async def view_memories(self, ctx: Context, path: str = document.ROOT) -> ToolResult:
        with self.errors_as_tool_errors():
            path = document.cleaned(path)
            found = await self._service.view(owner_of(ctx.caller), path)
        if isinstance(found, Memory):
            return self._memory(found)
        items = [FolderItem(entry.name, entry.is_folder) for entry in found.entries]
        lines = [self._texts.folder.format(path=path, count=len(items))]
        lines += [f"- {item.name}{'/' if item.is_dir else ''}" for item in items]
        lines += [self._texts.folder_more] if found.more else []
        text = "\n".join(lines) if items else self._texts.folder_empty.format(path=path)
        viewed = Viewed(path=path, is_directory=True, items=items, more=found.more)
        return ToolResult(content=[text], structured=viewed)

    def _memory(self, memory: Memory) -> ToolResult:
        shown = prompt_injection.marked(memory.content)
        count = prompt_injection.count_suspect(memory.content)
        viewed = Viewed(
            path=memory.path, is_directory=False, content=shown, version=memory.version, suspect=count
        )
        return ToolResult(content=["\n\n".join([*self._warning(count), shown])], structured=viewed)

    async def save_memory(self, ctx: Context, path: str, content: str) -> ToolResult:
        with self.errors_as_tool_errors():
            saving = await self._service.save(owner_of(ctx.caller), document.memory_path(path), content)
        if saving.change == "created":
            self._server.notify_resources_changed()
        about = saving.draft.about
        suspect = prompt_injection.count_suspect(saving.draft.content)
        saved = Saved(
            path=saving.path,
            action=self._actions[_ACTIONS[saving.change]],
            category=about.category,
            importance=about.importance,
            version=saving.version,
            similar=[Similar(other, round(similarity, 3)) for other, similarity in saving.similar],
            suspect=suspect,
        )
        return ToolResult(
            content=["\n".join([*self._saved(saving), *self._warning(suspect)])], structured=saved
        )

    def _saved(self, saving: SaveOutcome) -> list[str]:
        texts = self._texts
        if saving.change == "duplicate":
            return [texts.duplicate.format(other=saving.similar[0][0])]
        sentences = {"created": texts.created, "updated": texts.updated, "unchanged": texts.unchanged}
        near = [texts.similar.format(other=other, similarity=much) for other, much in saving.similar]
        return [sentences[saving.change].format(path=saving.path, version=saving.version), *near]

    async def update_memory(self, ctx: Context, path: str, old_str: str, new_str: str) -> ToolResult:
        with self.errors_as_tool_errors():
            path = document.memory_path(path)
            changed, version, content = await self._service.edit(owner_of(ctx.caller), path, old_str, new_str)
        suspect = prompt_injection.count_suspect(content)
        sentence = self._texts.edited if changed else self._texts.edited_not
        text = "\n".join([sentence.format(path=path, version=version), *self._warning(suspect)])
        updated = Updated(path=path, updated=changed, version=version, suspect=suspect)
        return ToolResult(content=[text], structured=updated)

    async def delete_memory(self, ctx: Context, path: str) -> ToolResult:
        with self.errors_as_tool_errors():
            path = document.memory_path(path)
            about = await self._service.about_to_remove(owner_of(ctx.caller), path)
        texts = self._texts
        is_file = about.kind == "file"
        question = texts.ask_delete_file if is_file else texts.ask_delete_folder
        if not await confirmed(ctx, question.format(path=path, count=len(about.paths)), texts.confirm):
            refused = Deleted(path=path, type=about.kind, count=0, declined=True)
            return ToolResult(content=[texts.deleted_not], structured=refused)
        with self.errors_as_tool_errors():
            removed = await self._service.remove(owner_of(ctx.caller), path)
        self._server.notify_resources_changed()
        count = len(removed.paths)
        sentence = texts.deleted_file if removed.kind == "file" else texts.deleted_folder
        deleted = Deleted(path=path, type=removed.kind, count=count)
        return ToolResult(content=[sentence.format(path=path, count=count)], structured=deleted)

    async def clear_memories(self, ctx: Context) -> ToolResult:
        with self.errors_as_tool_errors():
            total = await self._service.count(owner_of(ctx.caller))
        texts = self._texts
        if not await confirmed(ctx, texts.ask_clear.format(count=total), texts.confirm):
            refused = Cleared(count=0, declined=True)
            return ToolResult(content=[texts.cleared_not], structured=refused)
        with self.errors_as_tool_errors():
            count = 0
            async for erased in self._service.clear(owner_of(ctx.caller)):
                count += erased
                await ctx.report_progress(count, total)
        self._server.notify_resources_changed()
        cleared = Cleared(count=count)
        return ToolResult(content=[texts.cleared.format(count=count)], structured=cleared)

    async def list_memories(self, ctx: Context) -> ToolResult:
        with self.errors_as_tool_errors():
            listing = await self._service.listing(owner_of(ctx.caller))
        memories = [
            ListedMemory(
                path=head.path,
                kind=head.about.kind,
                domain=head.about.domain,
                level=head.about.level,
                title=prompt_injection.marked(head.about.title),
                scope=head.about.scope,
            )
            for head in listing.heads
        ]
        lines = [self._texts.listed.format(total=listing.total, shown=len(memories))]
        lines += [f"- {one.path}: {one.title} ({one.kind}, {one.domain})" for one in memories]
        structured = Memories(
            total=listing.total,
            memories=memories,
            shown=len(memories),
            by_kind=listing.kinds,
            by_domain=listing.domains,
        )
        text = "\n".join(lines) if listing.total else self._texts.listed_none
        return ToolResult(content=[text], structured=named(structured, self._locale))

    async def search_memories(
        self,
        ctx: Context,
        query: str,
        limit: Annotated[int, Meta(ge=1, le=MAX_HITS)] = 10,
        mode: Mode = "both",
    ) -> ToolResult:
        with self.errors_as_tool_errors():
            hits = await self._service.search(owner_of(ctx.caller), query, limit, mode)
        results = [_hit(hit) for hit in hits]
        lines = [self._texts.found.format(count=len(hits), query=query)]
        lines += [f"- {one.path}: {one.title}\n  {one.excerpt}" for one in results]
        text = "\n".join(lines) if hits else self._texts.found_none.format(query=query)
        found = FoundMemories(count=len(hits), results=results)
        return ToolResult(content=[text], structured=named(found, self._locale))

    async def view_memory_history(self, ctx: Context, path: str) -> ToolResult:
        with self.errors_as_tool_errors():
            path = document.memory_path(path)
            versions, current = await self._service.history(owner_of(ctx.caller), path)
        kept = [_history_entry(version, current) for version in versions]
        lines = [self._texts.versions.format(path=path, count=len(kept))]
        for one in kept:
            now = f" ({self._texts.version_current})" if one.current else ""
            by = f" ({one.changed_by})" if one.changed_by else ""
            lines.append(f"- {one.version}{now}: {one.event} {one.at}{by}\n  {one.preview}")
        lines += [self._texts.version_deleted] if current is None else []
        history = History(path=path, deleted=current is None, count=len(kept), versions=kept)
        return ToolResult(content=["\n".join(lines)], structured=history)

    async def restore_memory_version(
        self, ctx: Context, path: str, version: Annotated[int, Meta(ge=1, le=2**53)]
    ) -> ToolResult:
        with self.errors_as_tool_errors():
            path = document.memory_path(path)
            now = await self._service.restore(owner_of(ctx.caller), path, version)
        self._server.notify_resources_changed()
        text = self._texts.restored.format(path=path, restored=version, version=now)
        return ToolResult(content=[text], structured=Restored(path=path, restored=version, version=now))

    def _warning(self, suspect: int) -> list[str]:
        return [self._texts.suspect.format(count=suspect)] if suspect else []


_ACTIONS = {
    "created": "created",
    "updated": "updated",
    "unchanged": "updated",
    "duplicate": "duplicate_blocked",
}


def _hit(hit: MemoryHit) -> FoundMemory:
    found = FoundMemory(
        path=hit.memory.path,
        title=prompt_injection.marked(hit.memory.about.title),
        excerpt=prompt_injection.marked(hit.excerpt),
        found_by=["text"] if hit.by_text else [],
    )
    if hit.similarity is not None:
        found.found_by.append("meaning")
        found.similarity = round(hit.similarity, 3)
    return found


def _history_entry(version: MemoryVersion, current: int | None) -> HistoryEntry:
    return HistoryEntry(
        version=version.version,
        event=version.change,
        changed_by=version.changed_by,
        at=datetime.fromtimestamp(version.at, UTC).isoformat(timespec="seconds"),
        bytes=len(version.content.encode()),
        preview=prompt_injection.marked(
            " ".join(body_of(version.content)[: _PREVIEW * 4].split())[:_PREVIEW]
        ),
        current=version.version == current,
    )


def add_tools(server: Server, tools: MemoryTools, settings: Settings) -> None:
    output_schemas = schemas(settings.locale)
    rows = (
        (tools.view_memories, VIEW, Viewed, "reads"),
        (tools.save_memory, SAVE, Saved, "writes"),
        (tools.update_memory, UPDATE, Updated, "writes"),
        (tools.delete_memory, DELETE, Deleted, "destroys"),
        (tools.list_memories, LIST, Memories, "reads"),
        (tools.clear_memories, CLEAR, Cleared, "destroys"),
        (tools.search_memories, SEARCH, FoundMemories, "reads"),
        (tools.view_memory_history, HISTORY, History, "reads"),
        (tools.restore_memory_version, RESTORE, Restored, "writes"),
    )
    for function, localized, result, effect in rows:
        add_localized_tool(
            server,
            function,
            en=localized["en"],
            pt=localized["pt"],
            output_schema=output_schemas[result],
            read_only=effect == "reads",
            destructive=effect == "destroys",
            idempotent=True,
            open_world=False,
        )
