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
    """Somebody else was faster; what was read is not there any more."""


def put(
    session: MemoryConnection,
    rules: MemoryLimits,
    owner: MemoryOwner,
    path: str,
    draft: MemoryDraft,
    based_on: int | None,
    restored: bool,
) -> PutOutcome:
    mine, revision, count = _changing(session, owner)
    _check_place(session, mine, path)
    found = session.rows(
        f"SELECT version, deleted, content FROM {MEMORIES} WHERE owner = :owner AND path = :path",
        owner=mine,
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
        _count(session, mine, count + 1)
    id = _keep(session, mine, path, draft, version + 1, revision)
    happened = "created" if deleted else "updated"
    _add_version(session, id, version + 1, draft.content, "restored" if restored else happened, owner.agent)
    _drop_versions(session, id, version + 1 - rules.max_versions)
    session.index(id, own_words(mine, draft.words))
    return PutOutcome(happened, version + 1)


def remove(session: MemoryConnection, rules: MemoryLimits, owner: MemoryOwner, path: str) -> Removed | None:
    mine, revision, count = _changing(session, owner)
    rows = _under(session, mine, path)
    if not rows:
        return None
    session.count(
        f"UPDATE {MEMORIES} SET deleted = 1, revision = :revision, content = '', vector = NULL"
        " WHERE owner = :owner AND +deleted = 0 AND (path = :path OR (path >= :first AND path < :end))",
        **_range(mine, path),
        revision=revision,
    )
    session.unindex([row[0] for row in rows])
    _count(session, mine, count - len(rows))
    _purge(session, rules, mine)
    kind = "file" if [row[1] for row in rows] == [path] else "directory"
    return Removed(kind, [row[1] for row in rows])


def erase_some(session: MemoryConnection, owner: MemoryOwner, last: int) -> int | None:
    """How many memories are gone for good; None when there was nothing left up to that number."""
    mine, revision, count = _changing(session, owner)
    rows = session.rows(
        f"SELECT id, deleted FROM {MEMORIES} WHERE owner = :owner AND id <= :last"
        f" ORDER BY revision LIMIT {AT_ONCE}",
        owner=mine,
        last=last,
    )
    _forget(session, [row[0] for row in rows])
    _raise_floor(session, mine, revision)
    alive = sum(1 for row in rows if not row[1])
    _count(session, mine, count - alive)
    return alive if rows else None


def own_words(mine: int, words: Sequence[str]) -> list[str]:
    """Words that no other owner has: another's memories are neither found nor counted."""
    return [f"o{mine}x{word}" for word in words]


def _changing(session: MemoryConnection, owner: MemoryOwner) -> tuple[int, int, int]:
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


def _count(session: MemoryConnection, mine: int, count: int) -> None:
    session.count(f"UPDATE {OWNERS} SET memories = :count WHERE id = :owner", owner=mine, count=count)


def _raise_floor(session: MemoryConnection, mine: int, floor: int) -> None:
    session.count(
        f"UPDATE {OWNERS} SET floor = :floor WHERE id = :owner AND floor < :floor", owner=mine, floor=floor
    )


def _keep(
    session: MemoryConnection, mine: int, path: str, draft: MemoryDraft, version: int, revision: int
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


def _add_version(
    session: MemoryConnection, id: int, version: int, content: str, happened: ChangeKind, by: str
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


def _drop_versions(session: MemoryConnection, id: int, oldest: int) -> None:
    session.count(f"DELETE FROM {VERSIONS} WHERE memory = :id AND version <= :oldest", id=id, oldest=oldest)


def _check_place(session: MemoryConnection, mine: int, path: str) -> None:
    """What is a folder is no memory, and the other way round."""
    for folder in folders_of(path):
        if session.rows(f"SELECT 1 {LIVE} AND path = :path", owner=mine, path=folder):
            raise MemoryRequestError("folder_is_memory", path=path, other=folder)
    inside = session.rows(
        f"SELECT path {LIVE} AND path >= :first AND path < :end ORDER BY path LIMIT 1",
        owner=mine,
        first=path + "/",
        end=path + "0",
    )
    if inside:
        raise MemoryRequestError("memory_is_folder", path=path, other=inside[0][0])


def _under(session: MemoryConnection, mine: int, path: str) -> list[Row]:
    rows = session.rows(
        f"SELECT id, path {LIVE} AND (path = :path OR (path >= :first AND path < :end))",
        **_range(mine, path),
    )
    return sorted(rows, key=lambda row: row[1])  # asked to sort, SQLite reads all that the owner has


def _range(mine: int, path: str) -> dict[str, Any]:
    """What a folder holds is between `folder/` and `folder0`: 0 comes after the slash."""
    return {"owner": mine, "path": path, "first": path + "/", "end": path + "0"}


def _purge(session: MemoryConnection, rules: MemoryLimits, mine: int) -> None:
    """Deleted memories beyond the limit are gone for good, those deleted first."""
    gone = session.rows(
        f"SELECT id, revision FROM {MEMORIES} WHERE owner = :owner AND deleted = 1"
        " ORDER BY revision DESC, id DESC LIMIT 1000000 OFFSET :most",
        owner=mine,
        most=rules.max_deleted,
    )
    if gone:
        _forget(session, [row[0] for row in gone])
        _raise_floor(session, mine, max(row[1] for row in gone))


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

    # Writing

    async def put(
        self,
        owner: MemoryOwner,
        path: str,
        draft: MemoryDraft,
        *,
        based_on: int | None = None,
        restored: bool = False,
    ) -> PutOutcome:
        """Keep a draft as the newest version; Changed when the newest is not the one it is based on."""
        rules = self._rules
        return await self._database.write(
            lambda session: put(session, rules, owner, path, draft, based_on, restored)
        )

    async def remove(self, owner: MemoryOwner, path: str) -> Removed | None:
        """A memory, or all that a folder holds; they can be restored."""
        rules = self._rules
        return await self._database.write(lambda session: remove(session, rules, owner, path))

    async def clear(self, owner: MemoryOwner) -> AsyncIterator[int]:
        """Everything, the versions and what was deleted before too; nothing can be restored.

        Some at a time, so that others can write meanwhile. Yields how many memories each time has erased;
        what is saved after the beginning stays.
        """
        newest = f"SELECT coalesce(max(id), 0) FROM {MEMORIES} WHERE owner = :owner"
        found = await self._database.read(lambda session: _mine(session, owner, newest))
        last = found[0][0] if found else 0
        while last:
            erased = await self._database.write(lambda session: erase_some(session, owner, last))
            if erased is None:
                return
            yield erased

    # Reading

    async def count(self, owner: MemoryOwner) -> int:
        def work(session: MemoryConnection) -> int:
            statement = f"SELECT memories FROM {OWNERS} WHERE id = :owner"
            return sum(row[0] for row in _mine(session, owner, statement))

        return await self._database.read(work)

    async def get(self, owner: MemoryOwner, path: str) -> Memory | None:
        def work(session: MemoryConnection) -> Memory | None:
            rows = _mine(session, owner, f"SELECT {_MEMORY} {LIVE} AND path = :path", path=path)
            return _memory(rows[0]) if rows else None

        return await self._database.read(work)

    async def get_all(self, owner: MemoryOwner, ids: Sequence[int]) -> dict[int, Memory]:
        def work(session: MemoryConnection) -> dict[int, Memory]:
            names = {f"i{n}": id for n, id in enumerate(ids)}
            wanted = ", ".join(f":{name}" for name in names)
            # Again a sign, so that these few are read and not all that the owner has.
            statement = f"SELECT {_MEMORY} FROM {MEMORIES} WHERE id IN ({wanted}) AND +owner = :owner"
            rows = _mine(session, owner, statement + " AND +deleted = 0", **names)
            return {row[0]: _memory(row) for row in rows}

        return await self._database.read(work) if ids else {}

    async def same_text(self, owner: MemoryOwner, path: str, digest: bytes) -> str | None:
        """Another path with the same text."""

        def work(session: MemoryConnection) -> str | None:
            statement = f"SELECT path {LIVE} AND digest = :digest AND path <> :path LIMIT 1"
            rows = _mine(session, owner, statement, digest=digest, path=path)
            return rows[0][0] if rows else None

        return await self._database.read(work)

    async def paths(self, owner: MemoryOwner, first: str, end: str, limit: int) -> list[str]:
        """Those from `first` on and before `end`, in the order of their bytes."""

        def work(session: MemoryConnection) -> list[str]:
            statement = f"SELECT path {LIVE} AND path >= :first AND path < :end ORDER BY path LIMIT :limit"
            return [row[0] for row in _mine(session, owner, statement, first=first, end=end, limit=limit)]

        return await self._database.read(work)

    async def listing(self, owner: MemoryOwner, limit: int) -> MemoryListing:
        def work(session: MemoryConnection) -> MemoryListing:
            heads = _mine(
                session, owner, f"SELECT path, {ABOUT} {LIVE} ORDER BY path LIMIT :limit", limit=limit
            )
            kinds: Counter[str] = Counter()
            domains: Counter[str] = Counter()
            for kind, domain, count in _mine(session, owner, _COUNTS):
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
            rows = _mine(session, owner, statement + " ORDER BY v.version DESC", path=path, **only)
            return [MemoryVersion(*row) for row in rows]

        return await self._database.read(work)

    # Searching

    async def match(self, owner: MemoryOwner, words: Sequence[str], limit: int) -> list[int]:
        def work(session: MemoryConnection) -> list[int]:
            found = session.rows(_OWNER, tenant=owner.tenant, agent=owner.agent)
            return session.match(own_words(found[0][0], words), limit) if found else []

        return await self._database.read(work) if words else []

    async def changes(self, owner: MemoryOwner, since: int) -> MemoryChanges | None:
        """What happened after that revision; None when the owner has nothing."""

        def work(session: MemoryConnection) -> MemoryChanges | None:
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
            return MemoryChanges(mine, revision, since < floor, there, [row[0] for row in rows if row[2]])

        return await self._database.read(work)

    async def close(self) -> None:
        await self._database.close()


def _mine(session: MemoryConnection, owner: MemoryOwner, statement: str, **values: Any) -> list[Row]:
    found = session.rows(_OWNER, tenant=owner.tenant, agent=owner.agent)
    return session.rows(statement, owner=found[0][0], **values) if found else []


def _memory(row: Row) -> Memory:
    return Memory(*row[:5], about=FrontMatter(*row[5:]))


def open_store(settings: Settings) -> MemoryStore:
    """Lazy: what cannot be reached is noticed by the first call."""
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
    # Only the scheme is quoted: somebody may have put a password where the address belongs.
    shown = f"of the kind {scheme[:20]!r}" if ":" in url else "without a scheme"
    raise SettingsError(f"field 'url': no place {shown}; use sqlite:PATH or postgresql://HOST/NAME")


def _file(url: str) -> Path:
    rest = unquote(url.partition(":")[2])
    # sqlite:///path is the path /path, as everywhere else where addresses of databases are written.
    path = "/" + rest.lstrip("/") if rest.startswith("//") else rest
    return Path(path).expanduser()
