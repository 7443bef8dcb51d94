"""Finding sessions again: by words, by time, by their ids; and what was said in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from ..model import Kept, Owner, Said
from .dialect import Dialect
from .keys import SESSION_OF, messages_in, messages_of
from .script import Do, Row, Script, find_owner
from .writing import TITLE

_KEPT = "id, session_id, title, channel, created_at, updated_at, message_count, cost_usd, summary, topics"
_SAID = "SELECT role, text, time, tools, thread FROM toolyard_messages"
_LATEST = "ORDER BY updated_at DESC, id DESC LIMIT :limit"


class Hit(Struct, frozen=True):
    session: Kept
    message: Said


def found(dialect: Dialect, owner: Owner, words: Sequence[str], begun: bool, limit: int) -> Script[list[Hit]]:
    """Sessions with a message that has all the words, the latest first."""
    number = yield from find_owner(owner)
    if number is None:
        return []
    asked = dialect.spelt(words, begun)
    mine = messages_of(number)
    rows = yield Do(
        f"SELECT {_KEPT} FROM toolyard_sessions WHERE id IN"
        f" (SELECT DISTINCT {SESSION_OF} FROM ({dialect.matching}) AS matching)"
        f" {_LATEST}",
        {"words": asked, "first": mine.start, "last": mine.stop, "limit": limit},
    )
    hits: list[Hit] = []
    for session in map(_kept, rows):
        message = yield from _first_hit(dialect, session.number, asked)
        hits.append(Hit(session, message))
    return hits


def spread(dialect: Dialect, owner: Owner, words: Sequence[str], limit: int) -> Script[list[Hit]]:
    """Sessions that have all the words, but not in one message, the latest first."""
    number = yield from find_owner(owner)
    if number is None:
        return []
    mine = messages_of(number)
    values: dict[str, Any] = {"first": mine.start, "last": mine.stop, "limit": limit}
    conditions: list[str] = []
    for at, word in enumerate(words):
        values[f"words{at}"] = dialect.spelt([word], True)
        matching = dialect.matching.replace(":words", f":words{at}")
        conditions.append(f"id IN (SELECT DISTINCT {SESSION_OF} FROM ({matching}) AS matching{at})")
    rows = yield Do(
        f"SELECT {_KEPT} FROM toolyard_sessions WHERE {' AND '.join(conditions)} {_LATEST}",
        values,
    )
    hits: list[Hit] = []
    for session in map(_kept, rows):
        message = yield from _first_hit(dialect, session.number, dialect.spelt(words[:1], True))
        hits.append(Hit(session, message))
    return hits


def _first_hit(dialect: Dialect, session: int, asked: str) -> Script[Said]:
    within = messages_in(session)
    # A message rather than the title, which the caller sees anyway.
    rows = yield Do(
        f"{dialect.matching} ORDER BY id LIMIT 2",
        {"words": asked, "first": within.start, "last": within.stop},
    )
    at = rows[0][0] if rows[0][0] != within.start else rows[-1][0]
    rows = yield Do(_SAID + " WHERE id = :id", {"id": at})
    return _said(rows[0])


def recent(owner: Owner, limit: int) -> Script[list[Kept]]:
    number = yield from find_owner(owner)
    if number is None:
        return []
    rows = yield Do(
        f"SELECT {_KEPT} FROM toolyard_sessions WHERE owner = :owner {_LATEST}",
        {"owner": number, "limit": limit},
    )
    return [_kept(row) for row in rows]


def session_ids(owner: Owner, prefix: str, limit: int) -> Script[list[str]]:
    number = yield from find_owner(owner)
    if number is None:
        return []
    rows = yield Do(
        "SELECT session_id FROM toolyard_sessions WHERE owner = :owner"
        " AND SUBSTR(session_id, 1, :length) = :prefix " + _LATEST,
        {"owner": number, "prefix": prefix, "length": len(prefix), "limit": limit},
    )
    return [row[0] for row in rows]


def session(owner: Owner, session_id: str) -> Script[Kept | None]:
    number = yield from find_owner(owner)
    rows = yield Do(
        f"SELECT {_KEPT} FROM toolyard_sessions WHERE owner = :owner AND session_id = :session_id",
        {"owner": -1 if number is None else number, "session_id": session_id},
    )
    return _kept(rows[0]) if rows else None


def lengths(session: int) -> Script[list[tuple[int, int]]]:
    """The ids of a session's messages, the main thread's first, and how long each is."""
    rows = yield Do(
        "SELECT id, LENGTH(text) + LENGTH(tools) FROM toolyard_messages"
        f" WHERE session = :session AND role <> '{TITLE}' ORDER BY thread, id",
        {"session": session},
    )
    return [(row[0], row[1]) for row in rows]


def messages(session: int, ids: Sequence[int]) -> Script[list[Said]]:
    found: list[Said] = []
    for key in ids:
        rows = yield Do(_SAID + " WHERE id = :id AND session = :session", {"id": key, "session": session})
        found += [_said(row) for row in rows]
    return found


class Turn(Struct, frozen=True):
    """What a person asked and what was answered, around a message."""

    message: int
    session: Kept
    said: tuple[Said, ...]


def vectors(owner: Owner, after: int, most: int) -> Script[list[Row]]:
    """Serial, message and vector of those that came after a serial."""
    number = yield from find_owner(owner)
    return (
        yield Do(
            "SELECT serial, message, vector FROM toolyard_message_vectors"
            " WHERE owner = :owner AND serial > :after ORDER BY serial LIMIT :most",
            {"owner": -1 if number is None else number, "after": after, "most": most},
        )
    )


def turn(owner: Owner, message: int) -> Script[Turn | None]:
    """None when the message is not there any more, or is not this owner's."""
    number = yield from find_owner(owner)
    if number is None or message not in messages_of(number):
        return None
    # A session that was told anew may have another message in this place, which has no vector.
    rows = yield Do(
        "SELECT session, thread, turn FROM toolyard_messages WHERE id = :id"
        " AND EXISTS (SELECT 1 FROM toolyard_message_vectors WHERE message = :id)",
        {"id": message},
    )
    if not rows:
        return None
    (session, thread, number) = rows[0]
    said = yield Do(
        _SAID + " WHERE session = :session AND thread = :thread AND turn = :turn"
        " AND role IN ('user', 'assistant') AND text <> '' ORDER BY id",
        {"session": session, "thread": thread, "turn": number},
    )
    kept = yield Do(f"SELECT {_KEPT} FROM toolyard_sessions WHERE id = :id", {"id": session})
    return Turn(message, _kept(kept[0]), tuple(_said(row) for row in said))


def _said(row: Row) -> Said:
    return Said(role=row[0], text=row[1], time=row[2], tools=row[3], thread=row[4])


def _kept(row: Row) -> Kept:
    return Kept(
        number=row[0],
        session_id=row[1],
        title=row[2],
        channel=row[3],
        created_at=row[4],
        updated_at=row[5],
        message_count=row[6],
        cost_usd=row[7],
        summary=row[8],
        topics=tuple(msgspec.json.decode(row[9])),
    )
