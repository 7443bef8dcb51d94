"""One owner's memories: everything that can be asked of a store, on either database.

Owns the statements that read; those that change something are in `writing.py`, full-text search is each
database's own.
"""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Any

from ..front import About
from . import writing
from .database import Database, Row, Session
from .records import Changes, Draft, Head, Listing, Memory, Owner, Put, Removed, Rules, Version
from .tables import ABOUT, LIVE, MEMORIES, OWNERS, VERSIONS

_MEMORY = f"id, path, content, version, updated, {ABOUT}"
_COUNTS = (
    f"SELECT kind, domain, count(*) FROM {MEMORIES} WHERE owner = :owner AND deleted = 0"
    " GROUP BY kind, domain ORDER BY kind, domain"
)
_OWNER = f"SELECT id FROM {OWNERS} WHERE tenant = :tenant AND agent = :agent"


class Store:
    def __init__(self, database: Database, rules: Rules) -> None:
        self._database = database
        self._rules = rules

    # Writing

    async def put(
        self,
        owner: Owner,
        path: str,
        draft: Draft,
        *,
        based_on: int | None = None,
        restored: bool = False,
    ) -> Put:
        """Keep a draft as the newest version; Changed when the newest is not the one it is based on."""
        rules = self._rules
        return await self._database.write(
            lambda session: writing.put(session, rules, owner, path, draft, based_on, restored)
        )

    async def remove(self, owner: Owner, path: str) -> Removed | None:
        """A memory, or all that a folder holds; they can be restored."""
        rules = self._rules
        return await self._database.write(lambda session: writing.remove(session, rules, owner, path))

    async def clear(self, owner: Owner) -> AsyncIterator[int]:
        """Everything, the versions and what was deleted before too; nothing can be restored.

        Some at a time, so that others can write meanwhile. Yields how many memories each time has erased;
        what is saved after the beginning stays.
        """
        newest = f"SELECT coalesce(max(id), 0) FROM {MEMORIES} WHERE owner = :owner"
        found = await self._database.read(lambda session: _mine(session, owner, newest))
        last = found[0][0] if found else 0
        while last:
            erased = await self._database.write(lambda session: writing.erase_some(session, owner, last))
            if erased is None:
                return
            yield erased

    # Reading

    async def count(self, owner: Owner) -> int:
        def work(session: Session) -> int:
            statement = f"SELECT memories FROM {OWNERS} WHERE id = :owner"
            return sum(row[0] for row in _mine(session, owner, statement))

        return await self._database.read(work)

    async def get(self, owner: Owner, path: str) -> Memory | None:
        def work(session: Session) -> Memory | None:
            rows = _mine(session, owner, f"SELECT {_MEMORY} {LIVE} AND path = :path", path=path)
            return _memory(rows[0]) if rows else None

        return await self._database.read(work)

    async def get_all(self, owner: Owner, ids: Sequence[int]) -> dict[int, Memory]:
        def work(session: Session) -> dict[int, Memory]:
            names = {f"i{n}": id for n, id in enumerate(ids)}
            wanted = ", ".join(f":{name}" for name in names)
            # Again a sign, so that these few are read and not all that the owner has.
            statement = f"SELECT {_MEMORY} FROM {MEMORIES} WHERE id IN ({wanted}) AND +owner = :owner"
            rows = _mine(session, owner, statement + " AND +deleted = 0", **names)
            return {row[0]: _memory(row) for row in rows}

        return await self._database.read(work) if ids else {}

    async def same_text(self, owner: Owner, path: str, digest: bytes) -> str | None:
        """Another path with the same text."""

        def work(session: Session) -> str | None:
            statement = f"SELECT path {LIVE} AND digest = :digest AND path <> :path LIMIT 1"
            rows = _mine(session, owner, statement, digest=digest, path=path)
            return rows[0][0] if rows else None

        return await self._database.read(work)

    async def paths(self, owner: Owner, first: str, end: str, limit: int) -> list[str]:
        """Those from `first` on and before `end`, in the order of their bytes."""

        def work(session: Session) -> list[str]:
            statement = f"SELECT path {LIVE} AND path >= :first AND path < :end ORDER BY path LIMIT :limit"
            return [row[0] for row in _mine(session, owner, statement, first=first, end=end, limit=limit)]

        return await self._database.read(work)

    async def listing(self, owner: Owner, limit: int) -> Listing:
        def work(session: Session) -> Listing:
            heads = _mine(
                session, owner, f"SELECT path, {ABOUT} {LIVE} ORDER BY path LIMIT :limit", limit=limit
            )
            kinds: Counter[str] = Counter()
            domains: Counter[str] = Counter()
            for kind, domain, count in _mine(session, owner, _COUNTS):
                kinds[kind] += count
                domains[domain] += count
            return Listing(
                total=kinds.total(),
                kinds=dict(kinds),
                domains=dict(sorted(domains.items())),
                heads=[Head(row[0], About(*row[1:])) for row in heads],
            )

        return await self._database.read(work)

    async def history(self, owner: Owner, path: str, version: int | None = None) -> list[Version]:
        """All versions of a path, deleted or not, or one of them; the newest first."""

        def work(session: Session) -> list[Version]:
            statement = (
                f"SELECT v.version, v.happened, v.changed_by, v.at, v.content FROM {VERSIONS} v"
                f" JOIN {MEMORIES} m ON m.id = v.memory WHERE m.owner = :owner AND m.path = :path"
            )
            only = {} if version is None else {"version": version}
            statement += " AND v.version = :version" if only else ""
            rows = _mine(session, owner, statement + " ORDER BY v.version DESC", path=path, **only)
            return [Version(*row) for row in rows]

        return await self._database.read(work)

    # Searching

    async def match(self, owner: Owner, words: Sequence[str], limit: int) -> list[int]:
        def work(session: Session) -> list[int]:
            found = session.rows(_OWNER, tenant=owner.tenant, agent=owner.agent)
            return session.match(writing.own_words(found[0][0], words), limit) if found else []

        return await self._database.read(work) if words else []

    async def changes(self, owner: Owner, since: int) -> Changes | None:
        """What happened after that revision; None when the owner has nothing."""

        def work(session: Session) -> Changes | None:
            found = session.rows(
                f"SELECT id, revision, floor FROM {OWNERS} WHERE tenant = :tenant AND agent = :agent",
                tenant=owner.tenant,
                agent=owner.agent,
            )
            if not found:
                return None
            mine, revision, floor = found[0]
            rows: list[Row] = []
            if since < revision:
                rows = session.rows(
                    f"SELECT id, vector, deleted FROM {MEMORIES}"
                    " WHERE owner = :owner AND revision > :since AND revision <= :revision",
                    owner=mine,
                    since=since if since >= floor else 0,
                    revision=revision,
                )
            there = [(row[0], bytes(row[1] or b"")) for row in rows if not row[2]]
            return Changes(mine, revision, since < floor, there, [row[0] for row in rows if row[2]])

        return await self._database.read(work)

    async def close(self) -> None:
        await self._database.close()


def _mine(session: Session, owner: Owner, statement: str, **values: Any) -> list[Row]:
    found = session.rows(_OWNER, tenant=owner.tenant, agent=owner.agent)
    return session.rows(statement, owner=found[0][0], **values) if found else []


def _memory(row: Row) -> Memory:
    return Memory(*row[:5], about=About(*row[5:]))
