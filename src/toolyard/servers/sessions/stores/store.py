"""The conversation store: all that the server and the importer ask of it, and opening it by URL."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

from ....kit.loader import require_extra
from ..embeddings import Encoder
from ..model import Conversation, ConversationOwner, StoredConversation, StoredMessage
from ..settings import default_file
from . import changes, queries
from .changes import Bookmark
from .queries import ConversationHit, Turn
from .script import ConversationStoreError, Row, ScriptEngine
from .sqlite import SqliteScriptEngine


class ConversationStore:
    """Each method is one transaction; an owner's data are reached with the owner only."""

    def __init__(self, engine: ScriptEngine, encoder: Encoder) -> None:
        self._engine = engine
        self._encoder = encoder

    def elsewhere(self) -> ConversationStore:
        """The same sessions, for another thread with an event loop of its own."""
        return ConversationStore(self._engine.elsewhere(), self._encoder)

    async def append(self, owner: ConversationOwner, session: Conversation) -> int:
        """Add to a session what is not there yet; how many messages that was."""
        messages = self._encoder.vectored(session.messages)
        return await self._engine.write(changes.append(self._engine.dialect, owner, session, messages))

    async def replace(self, owner: ConversationOwner, session: Conversation) -> int:
        """Keep a session as it is told now."""
        messages = self._encoder.vectored(session.messages)
        return await self._engine.write(changes.replace(self._engine.dialect, owner, session, messages))

    async def entitle(self, owner: ConversationOwner, message: str, title: str) -> bool:
        return await self._engine.write(changes.entitle(self._engine.dialect, owner, message, title))

    async def found(
        self, owner: ConversationOwner, words: Sequence[str], limit: int
    ) -> list[ConversationHit]:
        """The latest sessions with these words.

        In one message, as they are; else in one message, words that begin so; else anywhere in a session.
        """
        for look in (queries.with_words, queries.with_beginnings, queries.with_scattered_words):
            hits = await self._engine.read(look(self._engine.dialect, owner, words, limit))
            if hits:
                return hits
        return []

    async def recent(self, owner: ConversationOwner, limit: int) -> list[StoredConversation]:
        return await self._engine.read(queries.recent(owner, limit))

    async def session_ids(self, owner: ConversationOwner, prefix: str, limit: int) -> list[str]:
        return await self._engine.read(queries.session_ids(owner, prefix, limit))

    async def session(self, owner: ConversationOwner, session_id: str) -> StoredConversation | None:
        return await self._engine.read(queries.session(owner, session_id))

    async def lengths(self, session: StoredConversation) -> list[tuple[int, int]]:
        return await self._engine.read(queries.lengths(session.number))

    async def messages(self, session: StoredConversation, ids: Sequence[int]) -> list[StoredMessage]:
        return await self._engine.read(queries.messages(session.number, ids))

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
    """Nothing is connected or created before the first use. MissingExtra when a package is not there."""
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
    # Only the scheme is quoted: somebody may have put a password where the address belongs.
    named = f"of the kind {scheme!r}" if colon and scheme.isalnum() else "without a known scheme"
    raise ConversationStoreError(f"there is no database {named}", f"sessions are kept in {_FORMS}")
