"""Changing an owner's memories, each function within one transaction.

Whatever changes them first moves the owner's revision, and by that waits for whoever else is changing them,
in this process or another: two saves of one path become two versions, and limits hold.
"""

import time
from collections.abc import Sequence
from typing import Any

from ..paths import folders_of
from ..problems import Problem
from .database import Row, Session
from .records import Draft, Happened, Owner, Put, Removed, Rules
from .tables import ABOUT, LIVE, MEMORIES, OWNERS, VERSIONS

AT_ONCE = 2_000
"""Memories erased in one transaction."""


class Changed(Exception):
    """Somebody else was faster; what was read is not there any more."""


def put(
    session: Session,
    rules: Rules,
    owner: Owner,
    path: str,
    draft: Draft,
    based_on: int | None,
    restored: bool,
) -> Put:
    mine, revision, count = _changing(session, owner)
    _check_place(session, mine, path)
    found = session.rows(
        f"SELECT version, deleted, content FROM {MEMORIES} WHERE owner = :owner AND path = :path",
        owner=mine,
        path=path,
    )
    version, deleted, content = found[0] if found else (0, 1, "")
    if based_on is not None and (deleted or version != based_on):
        raise Changed
    if not deleted and content == draft.content:
        return Put("unchanged", version)
    if deleted:
        if count >= rules.max_memories:
            raise Problem("too_many", most=rules.max_memories)
        _count(session, mine, count + 1)
    id = _keep(session, mine, path, draft, version + 1, revision)
    happened = "created" if deleted else "updated"
    _add_version(session, id, version + 1, draft.content, "restored" if restored else happened, owner.agent)
    _drop_versions(session, id, version + 1 - rules.max_versions)
    session.index(id, own_words(mine, draft.words))
    return Put(happened, version + 1)


def remove(session: Session, rules: Rules, owner: Owner, path: str) -> Removed | None:
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


def erase_some(session: Session, owner: Owner, last: int) -> int | None:
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


def _add_version(session: Session, id: int, version: int, content: str, happened: Happened, by: str) -> None:
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


def _drop_versions(session: Session, id: int, oldest: int) -> None:
    session.count(f"DELETE FROM {VERSIONS} WHERE memory = :id AND version <= :oldest", id=id, oldest=oldest)


def _check_place(session: Session, mine: int, path: str) -> None:
    """What is a folder is no memory, and the other way round."""
    for folder in folders_of(path):
        if session.rows(f"SELECT 1 {LIVE} AND path = :path", owner=mine, path=folder):
            raise Problem("folder_is_memory", path=path, other=folder)
    inside = session.rows(
        f"SELECT path {LIVE} AND path >= :first AND path < :end ORDER BY path LIMIT 1",
        owner=mine,
        first=path + "/",
        end=path + "0",
    )
    if inside:
        raise Problem("memory_is_folder", path=path, other=inside[0][0])


def _under(session: Session, mine: int, path: str) -> list[Row]:
    rows = session.rows(
        f"SELECT id, path {LIVE} AND (path = :path OR (path >= :first AND path < :end))",
        **_range(mine, path),
    )
    return sorted(rows, key=lambda row: row[1])  # asked to sort, SQLite reads all that the owner has


def _range(mine: int, path: str) -> dict[str, Any]:
    """What a folder holds is between `folder/` and `folder0`: 0 comes after the slash."""
    return {"owner": mine, "path": path, "first": path + "/", "end": path + "0"}


def _purge(session: Session, rules: Rules, mine: int) -> None:
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


def _forget(session: Session, ids: Sequence[int]) -> None:
    session.unindex(ids)
    for start in range(0, len(ids), 500):
        names = {f"i{n}": id for n, id in enumerate(ids[start : start + 500])}
        gone = ", ".join(f":{name}" for name in names)
        session.count(f"DELETE FROM {VERSIONS} WHERE memory IN ({gone})", **names)
        session.count(f"DELETE FROM {MEMORIES} WHERE id IN ({gone})", **names)
