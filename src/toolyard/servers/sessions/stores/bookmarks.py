"""How far files have been read: a bookmark for each."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from ..model import Owner
from .dialect import Dialect
from .script import Do, Script, find_owner, locked, own


class Bookmark(Struct, frozen=True):
    """How far a file has been read, and what it looked like then."""

    size: int
    changed: int
    done: int
    mark: str


def bookmarks(owner: Owner) -> Script[dict[str, Bookmark]]:
    number = yield from find_owner(owner)
    rows = yield Do(
        "SELECT path, size, changed, done, mark FROM toolyard_session_files WHERE owner = :owner",
        {"owner": -1 if number is None else number},
    )
    return {row[0]: Bookmark(*row[1:]) for row in rows}


def mark(dialect: Dialect, owner: Owner, path: str, bookmark: Bookmark) -> Script[None]:
    yield from locked(dialect)
    number = yield from own(owner)
    yield Do(
        "INSERT INTO toolyard_session_files (owner, path, size, changed, done, mark)"
        " VALUES (:owner, :path, :size, :changed, :done, :mark) ON CONFLICT (owner, path) DO UPDATE SET"
        " size = excluded.size, changed = excluded.changed, done = excluded.done, mark = excluded.mark",
        {"owner": number, "path": path, **msgspec.structs.asdict(bookmark)},
    )
