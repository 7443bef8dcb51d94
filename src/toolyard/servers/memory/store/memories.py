"""The memory store: every statement that reads or changes an owner's memories, on either database.

A change first increments the owner's revision, which serialises writers across processes: two saves of one
path become two versions, and limits hold. Full-text search is each database's own.
"""

import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from ....config.files import state_home
from ....kit.loader import SettingsError, require_extra
from ..document import FrontMatter, folders_of
from ..errors import MemoryRequestError
from ..settings import Settings
from .database import ABOUT, LIVE, MEMORIES, OWNERS, VERSIONS, MemoryConnection, MemoryDatabase, Row
from .records import (
    ChangeKind,
    Memory,
    MemoryChanges,
    MemoryDraft,
    MemoryLimits,
    MemoryListing,
    MemoryOwner,
    MemorySummary,
    MemoryVersion,
    PutOutcome,
    Removed,
)
from .sqlite import SqliteMemoryDatabase

AT_ONCE = 2_000
"""Memories erased in one transaction."""


class ConcurrentChangeError(Exception):
    """Another call changed the memory since it was read."""


def put_memory(
    session: MemoryConnection,
    rules: MemoryLimits,
    owner: MemoryOwner,
    path: str,
    draft: MemoryDraft,
    based_on: int | None,
    restored: bool,
) -> PutOutcome:
    owner_id, revision, count = _begin_change(session, owner)
    _check_path(session, owner_id, path)
    found = session.rows(
        f"SELECT version, deleted, content FROM {MEMORIES} WHERE owner = :owner AND path = :path",
        owner=owner_id,
        path=path,
    )
    version, deleted, content = found[0] if found else (0, 1, "")
    if based_on is not None and (deleted or version != based_on):
        raise ConcurrentChangeError
    if not deleted and content == draft.content:
        return PutOutcome("unchanged", version)
    if deleted:
        if count >= rules.max_memories:
            raise MemoryRequestError("too_many", most=rules.max_memories)
        _count(session, owner_id, count + 1)
    id = _keep(session, owner_id, path, draft, version + 1, revision)
    change = "created" if deleted else "updated"
    _add_version(session, id, version + 1, draft.content, "restored" if restored else change, owner.agent)
    _drop_versions(session, id, version + 1 - rules.max_versions)
    session.index(id, owner_words(owner_id, draft.words))
    return PutOutcome(change, version + 1)


def remove_memories(
    session: MemoryConnection, rules: MemoryLimits, owner: MemoryOwner, path: str
) -> Removed | None:
    owner_id, revision, count = _begin_change(session, owner)
    rows = _rows_under(session, owner_id, path)
    if not rows:
        return None
    session.count(
        f"UPDATE {MEMORIES} SET deleted = 1, revision = :revision, content = '', vector = NULL"
        " WHERE owner = :owner AND +deleted = 0 AND (path = :path OR (path >= :first AND path < :end))",
        **_range(owner_id, path),
        revision=revision,
    )
    session.unindex([row[0] for row in rows])
    _count(session, owner_id, count - len(rows))
    _purge(session, rules, owner_id)
    kind = "file" if [row[1] for row in rows] == [path] else "directory"
    return Removed(kind, [row[1] for row in rows])


def erase_batch(session: MemoryConnection, owner: MemoryOwner, last: int) -> int | None:
    """Erases a batch up to that id for good; returns how many memories it had, None if none was left."""
    owner_id, revision, count = _begin_change(session, owner)
    rows = session.rows(
        f"SELECT id, deleted FROM {MEMORIES} WHERE owner = :owner AND id <= :last"
        f" ORDER BY revision LIMIT {AT_ONCE}",
        owner=owner_id,
        last=last,
    )
    _forget(session, [row[0] for row in rows])
    _raise_floor(session, owner_id, revision)
    alive = sum(1 for row in rows if not row[1])
    _count(session, owner_id, count - alive)
    return alive if rows else None


def owner_words(owner_id: int, words: Sequence[str]) -> list[str]:
    """Prefixes the words with the owner's id, so that a search finds only their own memories."""
    return [f"o{owner_id}x{word}" for word in words]


def _begin_change(session: MemoryConnection, owner: MemoryOwner) -> tuple[int, int, int]:
    """Increments the owner's revision; returns their id, the revision and the number of memories.

    Other writers of this owner wait here until the transaction ends.
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


def _count(session: MemoryConnection, owner_id: int, count: int) -> None:
    session.count(f"UPDATE {OWNERS} SET memories = :count WHERE id = :owner", owner=owner_id, count=count)


def _raise_floor(session: MemoryConnection, owner_id: int, floor: int) -> None:
    session.count(
        f"UPDATE {OWNERS} SET floor = :floor WHERE id = :owner AND floor < :floor",
        owner=owner_id,
        floor=floor,
    )


def _keep(
    session: MemoryConnection, owner_id: int, path: str, draft: MemoryDraft, version: int, revision: int
) -> int:
    about = draft.about
    rows = session.rows(
        f"INSERT INTO {MEMORIES} (owner, path, version, revision, content, digest, vector, updated, {ABOUT})"
        " VALUES (:owner, :path, :version, :revision, :content, :digest, :vector, :updated,"
        " :title, :kind, :domain, :level, :scope, :category, :importance)"
        " ON CONFLICT (owner, path) DO UPDATE SET version = excluded.version, revision = excluded.revision,"
        " deleted = 0, content = excluded.content, digest = excluded.digest, vector = excluded.vector,"
        " updated = excluded.updated, title = excluded.title, kind = excluded.kind,"
        " domain = excluded.domain, level = excluded.level, scope = excluded.scope,"
        " category = excluded.category, importance = excluded.importance RETURNING id",
        owner=owner_id,
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


def _add_version(
    session: MemoryConnection, id: int, version: int, content: str, change: ChangeKind, changed_by: str
) -> None:
    session.count(
        f"INSERT INTO {VERSIONS} (memory, version, content, happened, changed_by, at)"
        " VALUES (:id, :version, :content, :change, :changed_by, :at)",
        id=id,
        version=version,
        content=content,
        change=change,
        changed_by=changed_by,
        at=time.time(),
    )


def _drop_versions(session: MemoryConnection, id: int, oldest: int) -> None:
    session.count(f"DELETE FROM {VERSIONS} WHERE memory = :id AND version <= :oldest", id=id, oldest=oldest)


def _check_path(session: MemoryConnection, owner_id: int, path: str) -> None:
    """A path cannot be a folder and a memory at once."""
    for folder in folders_of(path):
        if session.rows(f"SELECT 1 {LIVE} AND path = :path", owner=owner_id, path=folder):
            raise MemoryRequestError("folder_is_memory", path=path, other=folder)
    inside = session.rows(
        f"SELECT path {LIVE} AND path >= :first AND path < :end ORDER BY path LIMIT 1",
        owner=owner_id,
        first=path + "/",
        end=path + "0",
    )
    if inside:
        raise MemoryRequestError("memory_is_folder", path=path, other=inside[0][0])


def _rows_under(session: MemoryConnection, owner_id: int, path: str) -> list[Row]:
    rows = session.rows(
        f"SELECT id, path {LIVE} AND (path = :path OR (path >= :first AND path < :end))",
        **_range(owner_id, path),
    )
    return sorted(rows, key=lambda row: row[1])  # with ORDER BY, SQLite would read all of the owner's rows


def _range(owner_id: int, path: str) -> dict[str, Any]:
    """Paths in a folder are between `folder/` and `folder0`, because 0 follows the slash."""
    return {"owner": owner_id, "path": path, "first": path + "/", "end": path + "0"}


def _purge(session: MemoryConnection, rules: MemoryLimits, owner_id: int) -> None:
    """Erases deleted memories beyond the limit, the oldest deletions first."""
    gone = session.rows(
        f"SELECT id, revision FROM {MEMORIES} WHERE owner = :owner AND deleted = 1"
        " ORDER BY revision DESC, id DESC LIMIT 1000000 OFFSET :most",
        owner=owner_id,
        most=rules.max_deleted,
    )
    if gone:
        _forget(session, [row[0] for row in gone])
        _raise_floor(session, owner_id, max(row[1] for row in gone))


def _forget(session: MemoryConnection, ids: Sequence[int]) -> None:
    session.unindex(ids)
    for start in range(0, len(ids), 500):
        names = {f"i{n}": id for n, id in enumerate(ids[start : start + 500])}
        gone = ", ".join(f":{name}" for name in names)
        session.count(f"DELETE FROM {VERSIONS} WHERE memory IN ({gone})", **names)
        session.count(f"DELETE FROM {MEMORIES} WHERE id IN ({gone})", **names)


_MEMORY = f"id, path, content, version, updated, {ABOUT}"
_COUNTS = (
    f"SELECT kind, domain, count(*) FROM {MEMORIES} WHERE owner = :owner AND deleted = 0"
    " GROUP BY kind, domain ORDER BY kind, domain"
)
_OWNER = f"SELECT id FROM {OWNERS} WHERE tenant = :tenant AND agent = :agent"


class MemoryStore:
    def __init__(self, database: MemoryDatabase, rules: MemoryLimits) -> None:
        self._database = database
        self._rules = rules

    async def put(
        self,
        owner: MemoryOwner,
        path: str,
        draft: MemoryDraft,
        *,
        based_on: int | None = None,
        restored: bool = False,
    ) -> PutOutcome:
        """Stores a draft as the newest version.

        Raises ConcurrentChangeError if the current version is not `based_on`.
        """
        rules = self._rules
        return await self._database.write(
            lambda session: put_memory(session, rules, owner, path, draft, based_on, restored)
        )

    async def remove(self, owner: MemoryOwner, path: str) -> Removed | None:
        """Deletes a memory, or all memories in a folder; they can be restored."""
        rules = self._rules
        return await self._database.write(lambda session: remove_memories(session, rules, owner, path))

    async def clear(self, owner: MemoryOwner) -> AsyncIterator[int]:
        """Erases everything for good, with all versions and deleted memories.

        Works in batches, so that others can write in between, and yields the size of each. Memories saved
        after the start stay.
        """
        newest = f"SELECT coalesce(max(id), 0) FROM {MEMORIES} WHERE owner = :owner"
        found = await self._database.read(lambda session: _owned(session, owner, newest))
        last = found[0][0] if found else 0
        while last:
            erased = await self._database.write(lambda session: erase_batch(session, owner, last))
            if erased is None:
                return
            yield erased

    async def count(self, owner: MemoryOwner) -> int:
        def work(session: MemoryConnection) -> int:
            statement = f"SELECT memories FROM {OWNERS} WHERE id = :owner"
            return sum(row[0] for row in _owned(session, owner, statement))

        return await self._database.read(work)

    async def get(self, owner: MemoryOwner, path: str) -> Memory | None:
        def work(session: MemoryConnection) -> Memory | None:
            rows = _owned(session, owner, f"SELECT {_MEMORY} {LIVE} AND path = :path", path=path)
            return _memory(rows[0]) if rows else None

        return await self._database.read(work)

    async def get_all(self, owner: MemoryOwner, ids: Sequence[int]) -> dict[int, Memory]:
        def work(session: MemoryConnection) -> dict[int, Memory]:
            names = {f"i{n}": id for n, id in enumerate(ids)}
            wanted = ", ".join(f":{name}" for name in names)
            # The + keeps SQLite from using the index on the owner.
            statement = f"SELECT {_MEMORY} FROM {MEMORIES} WHERE id IN ({wanted}) AND +owner = :owner"
            rows = _owned(session, owner, statement + " AND +deleted = 0", **names)
            return {row[0]: _memory(row) for row in rows}

        return await self._database.read(work) if ids else {}

    async def same_text(self, owner: MemoryOwner, path: str, digest: bytes) -> str | None:
        """Returns another path with the same text."""

        def work(session: MemoryConnection) -> str | None:
            statement = f"SELECT path {LIVE} AND digest = :digest AND path <> :path LIMIT 1"
            rows = _owned(session, owner, statement, digest=digest, path=path)
            return rows[0][0] if rows else None

        return await self._database.read(work)

    async def paths(self, owner: MemoryOwner, first: str, end: str, limit: int) -> list[str]:
        """Returns paths with `first` <= path < `end`, in byte order."""

        def work(session: MemoryConnection) -> list[str]:
            statement = f"SELECT path {LIVE} AND path >= :first AND path < :end ORDER BY path LIMIT :limit"
            return [row[0] for row in _owned(session, owner, statement, first=first, end=end, limit=limit)]

        return await self._database.read(work)

    async def listing(self, owner: MemoryOwner, limit: int) -> MemoryListing:
        def work(session: MemoryConnection) -> MemoryListing:
            heads = _owned(
                session, owner, f"SELECT path, {ABOUT} {LIVE} ORDER BY path LIMIT :limit", limit=limit
            )
            kinds: Counter[str] = Counter()
            domains: Counter[str] = Counter()
            for kind, domain, count in _owned(session, owner, _COUNTS):
                kinds[kind] += count
                domains[domain] += count
            return MemoryListing(
                total=kinds.total(),
                kinds=dict(kinds),
                domains=dict(sorted(domains.items())),
                heads=[MemorySummary(row[0], FrontMatter(*row[1:])) for row in heads],
            )

        return await self._database.read(work)

    async def history(self, owner: MemoryOwner, path: str, version: int | None = None) -> list[MemoryVersion]:
        """All versions of a path, deleted or not, or one of them; the newest first."""

        def work(session: MemoryConnection) -> list[MemoryVersion]:
            statement = (
                f"SELECT v.version, v.happened, v.changed_by, v.at, v.content FROM {VERSIONS} v"
                f" JOIN {MEMORIES} m ON m.id = v.memory WHERE m.owner = :owner AND m.path = :path"
            )
            only = {} if version is None else {"version": version}
            statement += " AND v.version = :version" if only else ""
            rows = _owned(session, owner, statement + " ORDER BY v.version DESC", path=path, **only)
            return [MemoryVersion(*row) for row in rows]

        return await self._database.read(work)

    async def match(self, owner: MemoryOwner, words: Sequence[str], limit: int) -> list[int]:
        def work(session: MemoryConnection) -> list[int]:
            found = session.rows(_OWNER, tenant=owner.tenant, agent=owner.agent)
            return session.match(owner_words(found[0][0], words), limit) if found else []

        return await self._database.read(work) if words else []

    async def changes(self, owner: MemoryOwner, since: int) -> MemoryChanges | None:
        """Returns the changes after a revision; None for an unknown owner."""

        def work(session: MemoryConnection) -> MemoryChanges | None:
            found = session.rows(
                f"SELECT id, revision, floor FROM {OWNERS} WHERE tenant = :tenant AND agent = :agent",
                tenant=owner.tenant,
                agent=owner.agent,
            )
            if not found:
                return None
            owner_id, revision, floor = found[0]
            rows: list[Row] = []
            if since < revision:
                rows = session.rows(
                    f"SELECT id, vector, deleted FROM {MEMORIES}"
                    " WHERE owner = :owner AND revision > :since AND revision <= :revision",
                    owner=owner_id,
                    since=since if since >= floor else 0,
                    revision=revision,
                )
            there = [(row[0], bytes(row[1] or b"")) for row in rows if not row[2]]
            return MemoryChanges(owner_id, revision, since < floor, there, [row[0] for row in rows if row[2]])

        return await self._database.read(work)

    async def close(self) -> None:
        await self._database.close()


def _owned(session: MemoryConnection, owner: MemoryOwner, statement: str, **values: Any) -> list[Row]:
    found = session.rows(_OWNER, tenant=owner.tenant, agent=owner.agent)
    return session.rows(statement, owner=found[0][0], **values) if found else []


def _memory(row: Row) -> Memory:
    return Memory(*row[:5], about=FrontMatter(*row[5:]))


def open_store(settings: Settings) -> MemoryStore:
    """Connects on the first call."""
    rules = MemoryLimits(
        max_memories=settings.max_memories,
        max_versions=settings.max_versions,
        max_deleted=settings.max_deleted,
    )
    return MemoryStore(_database(settings.url), rules)


def _database(url: str) -> MemoryDatabase:
    scheme = url.partition(":")[0].lower()
    if scheme in ("postgresql", "postgres"):
        require_extra("memory", "postgres", "psycopg")
        from .postgres import PostgresMemoryDatabase

        return PostgresMemoryDatabase(url)
    if url in ("", "sqlite:"):
        home = state_home()
        return SqliteMemoryDatabase(home / "memory" / "memory.db" if home else None)
    if url == "memory:":
        return SqliteMemoryDatabase(None)
    if scheme == "sqlite":
        return SqliteMemoryDatabase(_file(url))
    # Quotes only the scheme: the URL may contain a password.
    shown = f" {scheme[:20]!r}" if ":" in url else ""
    raise SettingsError(
        f"field 'url': unsupported database URL scheme{shown}; use sqlite:PATH or postgresql://HOST/NAME"
    )


def _file(url: str) -> Path:
    rest = unquote(url.partition(":")[2])
    # sqlite:///path is the path /path, as in other database URLs.
    path = "/" + rest.lstrip("/") if rest.startswith("//") else rest
    return Path(path).expanduser()
