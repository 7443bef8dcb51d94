"""The server: three tools that find earlier conversations, and the conversations as resources."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Annotated, TypeVar

from msgspec import Meta, Struct, to_builtins

from ... import __version__
from ...kit import Caller, Context, Server, ToolError, ToolResult
from ...kit.loader import SettingsError
from ...kit.localization import Locale, add_localized_tool
from ...kit.schema.validation import schema_of
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

MOST = 10
SHORTEST, LONGEST = 2, 1_000
_RECALLED = 3
_SHOWN = 80
"""Characters of a query that an answer quotes."""
# Told in the schema, and looked at by the tool itself, which says it in its own language.
Query = Annotated[str, Meta(extra_json_schema={"minLength": SHORTEST, "maxLength": LONGEST})]
Limit = Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": MOST})]

T = TypeVar("T")


def build(settings: Settings) -> Server:
    encoder = Encoder()
    keeper = _opened(settings.url, encoder)
    server = Server(
        "sessions", version=__version__, title="Sessions", instructions=TEXTS[settings.locale].instructions
    )
    watcher: ImportWatcher | None = None
    server.on_close(keeper.close)
    if settings.roots:
        watcher = ImportWatcher(keeper, settings.owner, settings.roots, settings.scan_seconds)
        server.on_close(watcher.stop)
        watcher.start()
    ConversationTools(settings, keeper, ConversationVectors(keeper, encoder), watcher).serve(server)
    return server


def _opened(url: str, encoder: Encoder) -> ConversationStore:
    try:
        return open_store(url, encoder)
    except ConversationStoreError as error:
        raise SettingsError(f"field 'url': {error}") from None


class ConversationTools:
    """Answers for one server: every answer is of what belongs to the caller."""

    def __init__(
        self,
        settings: Settings,
        keeper: ConversationStore,
        meanings: ConversationVectors,
        watcher: ImportWatcher | None,
    ) -> None:
        self._locale: Locale = settings.locale
        self._texts = TEXTS[settings.locale]
        self._least = settings.min_similarity
        self._keeper = keeper
        self._meanings = meanings
        self._watcher = watcher

    def serve(self, server: Server) -> None:
        for function, faces, answer in (
            (self.search, SEARCH, FoundSessions),
            (self.recent, RECENT, RecentSessions),
            (self.semantic, SEMANTIC, SimilarTurns),
        ):
            add_localized_tool(
                server,
                self._locale,
                function,
                en=faces["en"],
                pt=faces["pt"],
                output_schema=schema_of(answer),
                read_only=True,
                destructive=False,
                idempotent=True,
                open_world=False,
            )
        self._serve_the_rest(server)

    def _serve_the_rest(self, server: Server) -> None:
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

    # Tools

    async def search(self, ctx: Context, query: Query, limit: Limit = MOST) -> ToolResult:
        asked, limit = self._checked(query), _capped(limit)
        if not asked:
            raise ToolError(self._texts.no_words.format(query=line(query, _SHOWN)))
        more = await self._importing()
        hits = await self._reached(self._keeper.found(_owner(ctx.caller), asked, limit))
        answer = answers.found_answer(hits, asked)
        return _result(answer, answers.found_text(answer, line(query, _SHOWN), self._texts) + more)

    async def recent(self, ctx: Context, limit: Limit = MOST) -> ToolResult:
        more = await self._importing()
        kept = await self._reached(self._keeper.recent(_owner(ctx.caller), _capped(limit)))
        answer = answers.recent_answer(kept)
        return _result(answer, answers.recent_text(answer, self._texts) + more)

    async def semantic(self, ctx: Context, query: Query, limit: Limit = MOST) -> ToolResult:
        owner = _owner(ctx.caller)
        asked, limit = self._checked(query), _capped(limit)
        more = await self._importing()
        answer = await self._nearest(owner, query, asked, limit)
        return _result(answer, answers.similar_text(answer, line(query, _SHOWN), self._texts) + more)

    async def _importing(self) -> str:
        """What to say when there may soon be more to find."""
        if self._watcher is None or await self._watcher.has_looked():
            return ""
        return f"\n{self._texts.importing}"

    # Resources

    async def first_page(self, ctx: Context, id: str) -> str:
        return await self.page(ctx, id, "1")

    async def page(self, ctx: Context, id: str, page: str) -> str:
        session = await self._session(ctx.caller, id)
        found = pages(await self._reached(self._keeper.lengths(session)))
        number = int(page) if page.isascii() and page.isdigit() and len(page) < 10 else 0
        if not 1 <= number <= len(found):
            raise ToolError(self._texts.no_page.format(session_id=id, pages=len(found), page=page))
        said = await self._reached(self._keeper.messages(session, found[number - 1]))
        return markdown(session, said, number, len(found), self._texts)

    async def complete_id(self, value: str, context: dict[str, str], caller: Caller) -> list[str]:
        return await self._reached(self._keeper.session_ids(_owner(caller), value, 101))

    async def complete_page(self, value: str, context: dict[str, str], caller: Caller) -> list[str]:
        found = await self._reached(self._keeper.session(_owner(caller), context.get("id", "")))
        if found is None:
            return []
        count = len(pages(await self._reached(self._keeper.lengths(found))))
        return [str(page) for page in range(1, count + 1) if str(page).startswith(value)]

    # The prompt

    async def look_back(self, ctx: Context, topic: str) -> str:
        asked = self._checked(topic)
        answer = await self._nearest(_owner(ctx.caller), topic, asked, _RECALLED)
        found = answers.similar_text(answer, line(topic, _SHOWN), self._texts)
        return f"{self._texts.recalled.format(topic=topic)}\n\n{found}"

    # What they stand on

    async def _nearest(
        self, owner: ConversationOwner, query: str, asked: list[str], limit: int
    ) -> SimilarTurns:
        turns = await self._reached(self._alike(owner, query, limit))
        if turns:
            return answers.similar_answer(turns)
        hits = await self._reached(self._keeper.found(owner, asked, limit)) if asked else []
        return answers.similar_by_words(hits, asked)

    async def _alike(self, owner: ConversationOwner, query: str, limit: int) -> list[tuple[Turn, float]]:
        """The nearest turn of each session."""
        found: dict[int, tuple[Turn, float]] = {}
        # Several of the nearest may be of one session; more than this many seldom are.
        for message, similarity in await self._meanings.nearest(owner, query, limit * 10, self._least):
            turn = await self._keeper.turn(owner, message)
            if turn is None:
                self._meanings.forget(owner, message)
            else:
                found.setdefault(turn.session.number, (turn, similarity))
            if len(found) == limit:
                break
        return list(found.values())

    async def _session(self, caller: Caller, session_id: str) -> StoredConversation:
        found = await self._reached(self._keeper.session(_owner(caller), session_id))
        if found is None:
            raise ToolError(self._texts.no_session.format(session_id=session_id))
        return found

    def _checked(self, query: str) -> list[str]:
        """The words of a query; spaces alone are none."""
        if len(query.strip()) < SHORTEST:
            raise ToolError(self._texts.too_short.format(query=line(query, _SHOWN)))
        return words(query[:LONGEST])

    async def _reached(self, answer: Awaitable[T]) -> T:
        try:
            return await answer
        except ConversationStoreError as error:
            text = self._texts.unavailable.format(reason=error.reason, hint=error.hint)
            raise ToolError(text) from None


def _owner(caller: Caller) -> ConversationOwner:
    return ConversationOwner(caller.tenant, caller.agent)


def _capped(limit: int) -> int:
    return max(1, min(limit, MOST))


def _result(answer: Struct, text: str) -> ToolResult:
    return ToolResult(content=[text], structured=to_builtins(answer))
