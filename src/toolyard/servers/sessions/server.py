"""The server: three tools that find earlier conversations, and the conversations as resources."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Annotated, TypeVar

from msgspec import Meta, Struct, to_builtins

from ..._version import __version__
from ...kit import Caller, Context, Server, ToolError, ToolResult
from ...kit.loader import SettingsError
from ...kit.localization import add_localized_tool
from ...kit.schema.validation import schema_of
from ...languages import Locale
from . import answers
from .answers import FoundSessions, RecentSessions, SimilarTurns, markdown, pages
from .embeddings import ConversationVectors, Encoder
from .importer import ImportWatcher
from .model import ConversationOwner, StoredConversation, line
from .settings import Settings
from .stores.queries import Turn
from .stores.script import ConversationStoreError
from .stores.store import ConversationStore, open_store
from .texts import RECENT, SEARCH, SEMANTIC, TEXTS
from .words import words

MAX_LIMIT = 10
SHORTEST, LONGEST = 2, 1_000
_RECALLED = 3
_SHOWN = 80
"""Characters of a query that an answer quotes."""
# In the schema only; the tool checks it and explains it in its own language.
Query = Annotated[str, Meta(extra_json_schema={"minLength": SHORTEST, "maxLength": LONGEST})]
Limit = Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": MAX_LIMIT})]

T = TypeVar("T")


def build(settings: Settings) -> Server:
    encoder = Encoder()
    store = _open_store(settings.url, encoder)
    server = Server(
        "sessions",
        version=__version__,
        locale=settings.locale,
        title="Sessions",
        instructions=TEXTS[settings.locale].instructions,
    )
    watcher: ImportWatcher | None = None
    server.on_close(store.close)
    if settings.roots:
        watcher = ImportWatcher(store, settings.owner, settings.roots, settings.scan_seconds)
        server.on_close(watcher.stop)
        watcher.start()
    ConversationTools(settings, store, ConversationVectors(store, encoder), watcher).add_to(server)
    return server


def _open_store(url: str, encoder: Encoder) -> ConversationStore:
    try:
        return open_store(url, encoder)
    except ConversationStoreError as error:
        raise SettingsError(f"field 'url': {error}") from None


class ConversationTools:
    """The tools, resources and the prompt. A caller sees only their own conversations."""

    def __init__(
        self,
        settings: Settings,
        store: ConversationStore,
        vectors: ConversationVectors,
        watcher: ImportWatcher | None,
    ) -> None:
        self._locale: Locale = settings.locale
        self._texts = TEXTS[settings.locale]
        self._min_similarity = settings.min_similarity
        self._store = store
        self._vectors = vectors
        self._watcher = watcher

    def add_to(self, server: Server) -> None:
        for function, localized, answer in (
            (self.search, SEARCH, FoundSessions),
            (self.recent, RECENT, RecentSessions),
            (self.semantic, SEMANTIC, SimilarTurns),
        ):
            add_localized_tool(
                server,
                function,
                en=localized["en"],
                pt=localized["pt"],
                output_schema=schema_of(answer),
                read_only=True,
                destructive=False,
                idempotent=True,
                open_world=False,
            )
        self._add_resources(server)

    def _add_resources(self, server: Server) -> None:
        texts = self._texts
        for function, uri, title, description in (
            (self.first_page, "sessions://{id}", texts.resource_title, texts.resource),
            (self.page, "sessions://{id}/{page}", texts.page_title, texts.page_resource),
        ):
            server.add_resource(
                function, uri, title=title, description=description, mime_type="text/markdown"
            )
            server.completion(argument="id", resource=uri)(self.complete_id)
        server.completion(argument="page", resource="sessions://{id}/{page}")(self.complete_page)
        server.add_prompt(
            self.look_back, name=texts.prompt_name, title=texts.prompt_title, description=texts.prompt
        )

    async def search(self, ctx: Context, query: Query, limit: Limit = MAX_LIMIT) -> ToolResult:
        terms, limit = self._words_of(query), _capped(limit)
        if not terms:
            raise ToolError(self._texts.no_words.format(query=line(query, _SHOWN)))
        more = await self._importing()
        hits = await self._from_store(self._store.search(_owner(ctx.caller), terms, limit))
        answer = answers.found_answer(hits, terms)
        return _result(answer, answers.found_text(answer, line(query, _SHOWN), self._texts) + more)

    async def recent(self, ctx: Context, limit: Limit = MAX_LIMIT) -> ToolResult:
        more = await self._importing()
        kept = await self._from_store(self._store.recent(_owner(ctx.caller), _capped(limit)))
        answer = answers.recent_answer(kept)
        return _result(answer, answers.recent_text(answer, self._texts) + more)

    async def semantic(self, ctx: Context, query: Query, limit: Limit = MAX_LIMIT) -> ToolResult:
        owner = _owner(ctx.caller)
        terms, limit = self._words_of(query), _capped(limit)
        more = await self._importing()
        answer = await self._nearest(owner, query, terms, limit)
        return _result(answer, answers.similar_text(answer, line(query, _SHOWN), self._texts) + more)

    async def _importing(self) -> str:
        """A note that more conversations may follow."""
        if self._watcher is None or await self._watcher.first_scan_done():
            return ""
        return f"\n{self._texts.importing}"

    async def first_page(self, ctx: Context, id: str) -> str:
        return await self.page(ctx, id, "1")

    async def page(self, ctx: Context, id: str, page: str) -> str:
        conversation = await self._session(ctx.caller, id)
        found = pages(await self._from_store(self._store.lengths(conversation)))
        number = int(page) if page.isascii() and page.isdigit() and len(page) < 10 else 0
        if not 1 <= number <= len(found):
            raise ToolError(self._texts.no_page.format(session_id=id, pages=len(found), page=page))
        messages = await self._from_store(self._store.messages(conversation, found[number - 1]))
        return markdown(conversation, messages, number, len(found), self._texts)

    async def complete_id(self, value: str, context: dict[str, str], caller: Caller) -> list[str]:
        return await self._from_store(self._store.session_ids(_owner(caller), value, 101))

    async def complete_page(self, value: str, context: dict[str, str], caller: Caller) -> list[str]:
        found = await self._from_store(self._store.conversation(_owner(caller), context.get("id", "")))
        if found is None:
            return []
        count = len(pages(await self._from_store(self._store.lengths(found))))
        return [str(page) for page in range(1, count + 1) if str(page).startswith(value)]

    async def look_back(self, ctx: Context, topic: str) -> str:
        terms = self._words_of(topic)
        answer = await self._nearest(_owner(ctx.caller), topic, terms, _RECALLED)
        found = answers.similar_text(answer, line(topic, _SHOWN), self._texts)
        return f"{self._texts.recalled.format(topic=topic)}\n\n{found}"

    async def _nearest(
        self, owner: ConversationOwner, query: str, terms: list[str], limit: int
    ) -> SimilarTurns:
        turns = await self._from_store(self._similar_turns(owner, query, limit))
        if turns:
            return answers.similar_answer(turns)
        hits = await self._from_store(self._store.search(owner, terms, limit)) if terms else []
        return answers.similar_by_words(hits, terms)

    async def _similar_turns(
        self, owner: ConversationOwner, query: str, limit: int
    ) -> list[tuple[Turn, float]]:
        """The nearest turn of each conversation."""
        found: dict[int, tuple[Turn, float]] = {}
        # Several of the nearest may belong to one conversation, seldom more than ten.
        for message, similarity in await self._vectors.nearest(
            owner, query, limit * 10, self._min_similarity
        ):
            turn = await self._store.turn(owner, message)
            if turn is None:
                self._vectors.forget(owner, message)
            else:
                found.setdefault(turn.conversation.number, (turn, similarity))
            if len(found) == limit:
                break
        return list(found.values())

    async def _session(self, caller: Caller, session_id: str) -> StoredConversation:
        found = await self._from_store(self._store.conversation(_owner(caller), session_id))
        if found is None:
            raise ToolError(self._texts.no_session.format(session_id=session_id))
        return found

    def _words_of(self, query: str) -> list[str]:
        """Raises ToolError for a query that is too short."""
        if len(query.strip()) < SHORTEST:
            raise ToolError(self._texts.too_short.format(query=line(query, _SHOWN)))
        return words(query[:LONGEST])

    async def _from_store(self, answer: Awaitable[T]) -> T:
        try:
            return await answer
        except ConversationStoreError as error:
            text = self._texts.unavailable.format(reason=error.reason, hint=error.hint)
            raise ToolError(text) from None


def _owner(caller: Caller) -> ConversationOwner:
    return ConversationOwner(caller.tenant, caller.principal.user)


def _capped(limit: int) -> int:
    return max(1, min(limit, MAX_LIMIT))


def _result(answer: Struct, text: str) -> ToolResult:
    return ToolResult(content=[text], structured=to_builtins(answer))
