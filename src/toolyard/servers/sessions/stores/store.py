"""The conversation store: its operations for the server and the importer, and opening it by URL."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

from ....kit.loader import require_extra
from ..embeddings import Encoder
from ..model import Conversation, ConversationOwner, Row, StoredConversation, StoredMessage
from ..settings import default_file
from . import changes, queries
from .changes import Bookmark
from .queries import ConversationHit, Turn
from .script import ConversationStoreError, ScriptEngine
from .sqlite import SqliteScriptEngine


class ConversationStore:
    """Each method is one transaction, and reaches the data of one owner only."""

    def __init__(self, engine: ScriptEngine, encoder: Encoder) -> None:
        self._engine = engine
        self._encoder = encoder

    def for_thread(self) -> ConversationStore:
        """The same conversations, for another thread with its own event loop."""
        return ConversationStore(self._engine.for_thread(), self._encoder)

    async def append(self, owner: ConversationOwner, conversation: Conversation) -> int:
        """Adds the messages that are not stored yet; returns how many."""
        messages = self._encoder.with_vectors(conversation.messages)
        return await self._engine.write(changes.append(self._engine.dialect, owner, conversation, messages))

    async def replace(self, owner: ConversationOwner, conversation: Conversation) -> int:
        """Replaces a stored conversation; returns how many messages it has."""
        messages = self._encoder.with_vectors(conversation.messages)
        return await self._engine.write(changes.replace(self._engine.dialect, owner, conversation, messages))

    async def set_title(self, owner: ConversationOwner, message: str, title: str) -> bool:
        return await self._engine.write(changes.set_title(self._engine.dialect, owner, message, title))

    async def search(
        self, owner: ConversationOwner, words: Sequence[str], limit: int
    ) -> list[ConversationHit]:
        """The latest conversations with these words.

        First as whole words in one message, then as prefixes in one message, then as prefixes anywhere.
        """
        for query in (queries.with_words, queries.with_beginnings, queries.with_scattered_words):
            hits = await self._engine.read(query(self._engine.dialect, owner, words, limit))
            if hits:
                return hits
        return []

    async def recent(self, owner: ConversationOwner, limit: int) -> list[StoredConversation]:
        return await self._engine.read(queries.recent(owner, limit))

    async def session_ids(self, owner: ConversationOwner, prefix: str, limit: int) -> list[str]:
        return await self._engine.read(queries.session_ids(owner, prefix, limit))

    async def conversation(self, owner: ConversationOwner, session_id: str) -> StoredConversation | None:
        return await self._engine.read(queries.conversation(owner, session_id))

    async def lengths(self, conversation: StoredConversation) -> list[tuple[int, int]]:
        return await self._engine.read(queries.lengths(conversation.number))

    async def messages(self, conversation: StoredConversation, ids: Sequence[int]) -> list[StoredMessage]:
        return await self._engine.read(queries.messages(conversation.number, ids))

    async def vectors(self, owner: ConversationOwner, after: int, most: int) -> list[Row]:
        return await self._engine.read(queries.vectors(owner, after, most))

    async def turn(self, owner: ConversationOwner, message: int) -> Turn | None:
        return await self._engine.read(queries.turn(owner, message))

    async def bookmarks(self, owner: ConversationOwner) -> dict[str, Bookmark]:
        return await self._engine.read(changes.bookmarks(owner))

    async def mark(self, owner: ConversationOwner, path: str, bookmark: Bookmark) -> None:
        await self._engine.write(changes.mark(self._engine.dialect, owner, path, bookmark))

    async def close(self) -> None:
        await self._engine.close()


_FORMS = "sqlite:PATH, postgresql://USER:PASSWORD@HOST/NAME, or memory:"


def open_store(url: str, encoder: Encoder) -> ConversationStore:
    """Connects and creates nothing before the first use. Raises MissingExtraError for a missing package."""
    return ConversationStore(_engine(url), encoder)


def _engine(url: str) -> ScriptEngine:
    scheme, colon, rest = url.partition(":")
    scheme = scheme.lower()
    if not url:
        return SqliteScriptEngine(default_file())
    if scheme == "memory" and colon:
        return SqliteScriptEngine(None)
    if scheme == "sqlite" and rest:
        path = "/" + rest.lstrip("/") if rest.startswith("//") else rest
        return SqliteScriptEngine(Path(unquote(path)).expanduser())
    if scheme in ("postgres", "postgresql") and rest.startswith("//"):
        require_extra("sessions", "postgres", "psycopg")
        from .postgres import PostgresScriptEngine

        return PostgresScriptEngine(url)
    # Quotes only the scheme: the URL may contain a password.
    shown = f" {scheme!r}" if colon and scheme.isalnum() else ""
    raise ConversationStoreError(f"unsupported database URL scheme{shown}", f"use {_FORMS}")
