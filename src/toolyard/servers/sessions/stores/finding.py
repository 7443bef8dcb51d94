"""Finding sessions again by time, by their ids and by what they mean; and what was said in them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from ..model import Kept, Owner, Said
from .keys import messages_of
from .script import Do, Row, Script, find_owner
from .writing import TITLE

KEPT = "id, session_id, title, channel, created_at, updated_at, message_count, cost_usd, summary, topics"
SAID = "SELECT role, text, time, tools, thread FROM toolyard_messages"
LATEST = "ORDER BY updated_at DESC, id DESC LIMIT :limit"


def recent(owner: Owner, limit: int) -> Script[list[Kept]]:
    number = yield from find_owner(owner)
    if number is None:
        return []
    rows = yield Do(
        f"SELECT {KEPT} FROM toolyard_sessions WHERE owner = :owner {LATEST}",
        {"owner": number, "limit": limit},
    )
    return [kept_of(row) for row in rows]


def session_ids(owner: Owner, prefix: str, limit: int) -> Script[list[str]]:
    number = yield from find_owner(owner)
    if number is None:
        return []
    rows = yield Do(
        "SELECT session_id FROM toolyard_sessions WHERE owner = :owner"
        " AND SUBSTR(session_id, 1, :length) = :prefix " + LATEST,
        {"owner": number, "prefix": prefix, "length": len(prefix), "limit": limit},
    )
    return [row[0] for row in rows]


def session(owner: Owner, session_id: str) -> Script[Kept | None]:
    number = yield from find_owner(owner)
    rows = yield Do(
        f"SELECT {KEPT} FROM toolyard_sessions WHERE owner = :owner AND session_id = :session_id",
        {"owner": -1 if number is None else number, "session_id": session_id},
    )
    return kept_of(rows[0]) if rows else None


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
        rows = yield Do(SAID + " WHERE id = :id AND session = :session", {"id": key, "session": session})
        found += [said_of(row) for row in rows]
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
        SAID + " WHERE session = :session AND thread = :thread AND turn = :turn"
        " AND role IN ('user', 'assistant') AND text <> '' ORDER BY id",
        {"session": session, "thread": thread, "turn": number},
    )
    kept = yield Do(f"SELECT {KEPT} FROM toolyard_sessions WHERE id = :id", {"id": session})
    return Turn(message, kept_of(kept[0]), tuple(said_of(row) for row in said))


def said_of(row: Row) -> Said:
    return Said(role=row[0], text=row[1], time=row[2], tools=row[3], thread=row[4])


def kept_of(row: Row) -> Kept:
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
