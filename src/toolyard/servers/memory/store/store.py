"""The rules of keeping: one owner's memories, their versions, their limits.

Owns every statement but those of full-text search. Whatever changes an owner's memories first moves that
owner's revision, and by that waits for whoever else is changing them, in this process or another: two saves
of one path become two versions, and limits hold.
"""

import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Any

from ..front import About
from ..paths import folders_of
from ..problems import Problem
from .database import Database, Row, Session
from .records import (
    Changes,
    Draft,
    Happened,
    Head,
    Listing,
    Memory,
    Owner,
    Put,
    Removed,
    Rules,
    Version,
)
from .tables import MEMORIES, OWNERS, VERSIONS

_ABOUT = "title, kind, domain, level, scope, category, importance"
_MEMORY = f"id, path, content, version, updated, {_ABOUT}"
# The sign keeps SQLite from taking `deleted`, which tells nearly nothing, for a reason to choose an index.
_LIVE = f"FROM {MEMORIES} WHERE owner = :owner AND +deleted = 0"
_COUNTS = (
    f"SELECT kind, domain, count(*) FROM {MEMORIES} WHERE owner = :owner AND deleted = 0"
    " GROUP BY kind, domain ORDER BY kind, domain"
)
_AT_ONCE = 2_000
"""Memories erased in one transaction."""
_OWNER = f"SELECT id FROM {OWNERS} WHERE tenant = :tenant AND agent = :agent"


class Changed(Exception):
    """Somebody else was faster; what was read is not there any more."""


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

        def work(session: Session) -> Put:
            mine, revision, count = _changing(session, owner)
            _check_place(session, mine, path)
            found = session.rows(
                f"SELECT id, version, deleted, content FROM {MEMORIES} WHERE owner = :owner AND path = :path",
                owner=mine,
                path=path,
            )
            id, version, deleted, content = found[0] if found else (None, 0, 1, "")
            if based_on is not None and (deleted or version != based_on):
                raise Changed
            if not deleted and content == draft.content:
                return Put("unchanged", version)
            if deleted:
                self._check_room(count)
                _count(session, mine, count + 1)
            id = _keep(session, mine, path, draft, version + 1, revision)
            happened = "created" if deleted else "updated"
            said = "restored" if restored else happened
            self._add_version(session, id, version + 1, draft.content, said, owner.agent)
            session.unindex([id])
            session.index(id, _own(mine, draft.words))
            return Put(happened, version + 1)

        return await self._database.write(work)

    async def remove(self, owner: Owner, path: str) -> Removed | None:
        """A memory, or all that a folder holds; they can be restored."""

        def work(session: Session) -> Removed | None:
            mine, revision, count = _changing(session, owner)
            rows = _under(session, mine, path)
            if not rows:
                return None
            session.count(
                f"UPDATE {MEMORIES} SET deleted = 1, revision = :revision, content = '', vector = NULL"
                " WHERE owner = :owner AND +deleted = 0"
                " AND (path = :path OR (path >= :first AND path < :end))",
                **_range(mine, path),
                revision=revision,
            )
            session.unindex([row[0] for row in rows])
            _count(session, mine, count - len(rows))
            self._purge(session, mine)
            kind = "file" if [row[1] for row in rows] == [path] else "directory"
            return Removed(kind, [row[1] for row in rows])

        return await self._database.write(work)

    async def count(self, owner: Owner) -> int:
        def work(session: Session) -> int:
            statement = f"SELECT memories FROM {OWNERS} WHERE id = :owner"
            return sum(row[0] for row in _mine(session, owner, statement))

        return await self._database.read(work)

    async def clear(self, owner: Owner) -> AsyncIterator[int]:
        """Everything, the versions and what was deleted before too; nothing can be restored.

        Some at a time, so that others can write meanwhile. Yields how many memories each time has erased;
        what is saved after the beginning stays.
        """
        newest = f"SELECT coalesce(max(id), 0) FROM {MEMORIES} WHERE owner = :owner"
        found = await self._database.read(lambda session: _mine(session, owner, newest))
        last = found[0][0] if found else 0

        def work(session: Session) -> list[int]:
            mine, revision, count = _changing(session, owner)
            rows = session.rows(
                f"SELECT id, deleted FROM {MEMORIES} WHERE owner = :owner AND id <= :last"
                f" ORDER BY revision LIMIT {_AT_ONCE}",
                owner=mine,
                last=last,
            )
            _forget(session, [row[0] for row in rows])
            _raise_floor(session, mine, revision)
            alive = sum(1 for row in rows if not row[1])
            _count(session, mine, count - alive)
            return [alive] if rows else []

        while last and (erased := await self._database.write(work)):
            yield erased[0]

    # Reading

    async def get(self, owner: Owner, path: str) -> Memory | None:
        def work(session: Session) -> Memory | None:
            rows = _mine(session, owner, f"SELECT {_MEMORY} {_LIVE} AND path = :path", path=path)
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
            statement = f"SELECT path {_LIVE} AND digest = :digest AND path <> :path LIMIT 1"
            rows = _mine(session, owner, statement, digest=digest, path=path)
            return rows[0][0] if rows else None

        return await self._database.read(work)

    async def paths(self, owner: Owner, first: str, end: str, limit: int) -> list[str]:
        """Those from `first` on and before `end`, in the order of their bytes."""

        def work(session: Session) -> list[str]:
            statement = f"SELECT path {_LIVE} AND path >= :first AND path < :end ORDER BY path LIMIT :limit"
            return [row[0] for row in _mine(session, owner, statement, first=first, end=end, limit=limit)]

        return await self._database.read(work)

    async def listing(self, owner: Owner, limit: int) -> Listing:
        def work(session: Session) -> Listing:
            heads = _mine(
                session, owner, f"SELECT path, {_ABOUT} {_LIVE} ORDER BY path LIMIT :limit", limit=limit
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
            return session.match(_own(found[0][0], words), limit) if found else []

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

    # Limits

    def _check_room(self, count: int) -> None:
        if count >= self._rules.max_memories:
            raise Problem("too_many", most=self._rules.max_memories)

    def _add_version(
        self, session: Session, id: int, version: int, content: str, happened: Happened, by: str
    ) -> None:
        session.count(
            f"INSERT INTO {VERSIONS} (memory, version, content, happened, changed_by, at)"
            " VALUES (:id, :version, :content, :happened, :by, :at)",
            id=id,
            version=version,
            content=content,
            happened=happened,
            by=by,
            at=time.time(),
        )
        session.count(
            f"DELETE FROM {VERSIONS} WHERE memory = :id AND version <= :oldest",
            id=id,
            oldest=version - self._rules.max_versions,
        )

    def _purge(self, session: Session, mine: int) -> None:
        """Deleted memories beyond the limit are gone for good, those deleted first."""
        gone = session.rows(
            f"SELECT id, revision FROM {MEMORIES} WHERE owner = :owner AND deleted = 1"
            " ORDER BY revision DESC, id DESC LIMIT 1000000 OFFSET :most",
            owner=mine,
            most=self._rules.max_deleted,
        )
        if gone:
            _forget(session, [row[0] for row in gone])
            _raise_floor(session, mine, max(row[1] for row in gone))


def _changing(session: Session, owner: Owner) -> tuple[int, int, int]:
    """The owner's number, new revision and count of memories.

    Until this transaction ends nobody else gets here.
    """
    values = {"tenant": owner.tenant, "agent": owner.agent}
    change = f"UPDATE {OWNERS} SET revision = revision + 1 WHERE tenant = :tenant AND agent = :agent"
    found = session.rows(change + " RETURNING id, revision, memories", **values)
    if not found:
        session.count(
            f"INSERT INTO {OWNERS} (tenant, agent) VALUES (:tenant, :agent)"
            " ON CONFLICT (tenant, agent) DO NOTHING",
            **values,
        )
        found = session.rows(change + " RETURNING id, revision, memories", **values)
    id, revision, count = found[0]
    return id, revision, count


def _count(session: Session, mine: int, count: int) -> None:
    session.count(f"UPDATE {OWNERS} SET memories = :count WHERE id = :owner", owner=mine, count=count)


def _raise_floor(session: Session, mine: int, floor: int) -> None:
    session.count(
        f"UPDATE {OWNERS} SET floor = :floor WHERE id = :owner AND floor < :floor", owner=mine, floor=floor
    )


def _keep(session: Session, mine: int, path: str, draft: Draft, version: int, revision: int) -> int:
    about = draft.about
    rows = session.rows(
        f"INSERT INTO {MEMORIES} (owner, path, version, revision, content, digest, vector, updated, {_ABOUT})"
        " VALUES (:owner, :path, :version, :revision, :content, :digest, :vector, :updated,"
        " :title, :kind, :domain, :level, :scope, :category, :importance)"
        " ON CONFLICT (owner, path) DO UPDATE SET version = excluded.version, revision = excluded.revision,"
        " deleted = 0, content = excluded.content, digest = excluded.digest, vector = excluded.vector,"
        " updated = excluded.updated, title = excluded.title, kind = excluded.kind,"
        " domain = excluded.domain, level = excluded.level, scope = excluded.scope,"
        " category = excluded.category, importance = excluded.importance RETURNING id",
        owner=mine,
        path=path,
        version=version,
        revision=revision,
        content=draft.content,
        digest=draft.digest,
        vector=draft.vector,
        updated=time.time(),
        title=about.title,
        kind=about.kind,
        domain=about.domain,
        level=about.level,
        scope=about.scope,
        category=about.category,
        importance=about.importance,
    )
    return rows[0][0]


def _check_place(session: Session, mine: int, path: str) -> None:
    """What is a folder is no memory, and the other way round."""
    for folder in folders_of(path):
        if session.rows(f"SELECT 1 {_LIVE} AND path = :path", owner=mine, path=folder):
            raise Problem("folder_is_memory", path=path, other=folder)
    inside = session.rows(
        f"SELECT path {_LIVE} AND path >= :first AND path < :end ORDER BY path LIMIT 1",
        owner=mine,
        first=path + "/",
        end=path + "0",
    )
    if inside:
        raise Problem("memory_is_folder", path=path, other=inside[0][0])


def _under(session: Session, mine: int, path: str) -> list[Row]:
    rows = session.rows(
        f"SELECT id, path {_LIVE} AND (path = :path OR (path >= :first AND path < :end))",
        **_range(mine, path),
    )
    return sorted(rows, key=lambda row: row[1])  # asked to sort, SQLite reads all that the owner has


def _range(mine: int, path: str) -> dict[str, Any]:
    """What a folder holds is between `folder/` and `folder0`: 0 comes after the slash."""
    return {"owner": mine, "path": path, "first": path + "/", "end": path + "0"}


def _forget(session: Session, ids: Sequence[int]) -> None:
    session.unindex(ids)
    for start in range(0, len(ids), 500):
        names = {f"i{n}": id for n, id in enumerate(ids[start : start + 500])}
        gone = ", ".join(f":{name}" for name in names)
        session.count(f"DELETE FROM {VERSIONS} WHERE memory IN ({gone})", **names)
        session.count(f"DELETE FROM {MEMORIES} WHERE id IN ({gone})", **names)


def _mine(session: Session, owner: Owner, statement: str, **values: Any) -> list[Row]:
    found = session.rows(_OWNER, tenant=owner.tenant, agent=owner.agent)
    return session.rows(statement, owner=found[0][0], **values) if found else []


def _memory(row: Row) -> Memory:
    return Memory(*row[:5], about=About(*row[5:]))


def _own(mine: int, words: Sequence[str]) -> list[str]:
    """Words that no other owner has: another's memories are neither found nor counted."""
    return [f"o{mine}x{word}" for word in words]
