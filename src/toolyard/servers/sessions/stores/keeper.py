"""The sessions of all owners: kept, found and read. What the server and the import use."""

from __future__ import annotations

from collections.abc import Sequence

from ..meanings import Encoder
from ..model import Kept, Owner, Said, Session
from . import bookmarks, finding, matching, writing
from .bookmarks import Bookmark
from .engine import Engine
from .finding import Turn
from .matching import Hit
from .script import Row


class Keeper:
    """Each method is one transaction; an owner's data are reached with the owner only."""

    def __init__(self, engine: Engine, encoder: Encoder) -> None:
        self._engine = engine
        self._encoder = encoder

    def elsewhere(self) -> Keeper:
        """The same sessions, for another thread with an event loop of its own."""
        return Keeper(self._engine.elsewhere(), self._encoder)

    async def append(self, owner: Owner, session: Session) -> int:
        """Add to a session what is not there yet; how many messages that was."""
        messages = self._encoder.vectored(session.messages)
        return await self._engine.write(writing.append(self._engine.dialect, owner, session, messages))

    async def replace(self, owner: Owner, session: Session) -> int:
        """Keep a session as it is told now."""
        messages = self._encoder.vectored(session.messages)
        return await self._engine.write(writing.replace(self._engine.dialect, owner, session, messages))

    async def entitle(self, owner: Owner, message: str, title: str) -> bool:
        return await self._engine.write(writing.entitle(self._engine.dialect, owner, message, title))

    async def found(self, owner: Owner, words: Sequence[str], limit: int) -> list[Hit]:
        """The latest sessions with these words.

        In one message, as they are; else in one message, words that begin so; else anywhere in a session.
        """
        for look in (matching.found, matching.begun, matching.spread):
            hits = await self._engine.read(look(self._engine.dialect, owner, words, limit))
            if hits:
                return hits
        return []

    async def recent(self, owner: Owner, limit: int) -> list[Kept]:
        return await self._engine.read(finding.recent(owner, limit))

    async def session_ids(self, owner: Owner, prefix: str, limit: int) -> list[str]:
        return await self._engine.read(finding.session_ids(owner, prefix, limit))

    async def session(self, owner: Owner, session_id: str) -> Kept | None:
        return await self._engine.read(finding.session(owner, session_id))

    async def lengths(self, session: Kept) -> list[tuple[int, int]]:
        return await self._engine.read(finding.lengths(session.number))

    async def messages(self, session: Kept, ids: Sequence[int]) -> list[Said]:
        return await self._engine.read(finding.messages(session.number, ids))

    async def vectors(self, owner: Owner, after: int, most: int) -> list[Row]:
        return await self._engine.read(finding.vectors(owner, after, most))

    async def turn(self, owner: Owner, message: int) -> Turn | None:
        return await self._engine.read(finding.turn(owner, message))

    async def bookmarks(self, owner: Owner) -> dict[str, Bookmark]:
        return await self._engine.read(bookmarks.bookmarks(owner))

    async def mark(self, owner: Owner, path: str, bookmark: Bookmark) -> None:
        await self._engine.write(bookmarks.mark(self._engine.dialect, owner, path, bookmark))

    async def close(self) -> None:
        await self._engine.close()
