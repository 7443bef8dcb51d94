"""The scripts that read: conversations by words, by time, by id and by meaning, and their messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from ..model import ConversationOwner, StoredConversation, StoredMessage
from .changes import TITLE
from .script import (
    MOST_MESSAGES,
    SESSION_OF,
    Row,
    Script,
    ScriptStatement,
    StoreDialect,
    find_owner,
    messages_in,
    messages_of,
)

KEPT = "id, session_id, title, channel, created_at, updated_at, message_count, cost_usd, summary, topics"
SAID = "SELECT role, text, time, tools, thread FROM toolyard_messages"
LATEST = "ORDER BY updated_at DESC, id DESC LIMIT :limit"


def recent(owner: ConversationOwner, limit: int) -> Script[list[StoredConversation]]:
    number = yield from find_owner(owner)
    if number is None:
        return []
    rows = yield ScriptStatement(
        f"SELECT {KEPT} FROM toolyard_sessions WHERE owner = :owner {LATEST}",
        {"owner": number, "limit": limit},
    )
    return [kept_of(row) for row in rows]


def session_ids(owner: ConversationOwner, prefix: str, limit: int) -> Script[list[str]]:
    number = yield from find_owner(owner)
    if number is None:
        return []
    rows = yield ScriptStatement(
        "SELECT session_id FROM toolyard_sessions WHERE owner = :owner"
        " AND SUBSTR(session_id, 1, :length) = :prefix " + LATEST,
        {"owner": number, "prefix": prefix, "length": len(prefix), "limit": limit},
    )
    return [row[0] for row in rows]


def session(owner: ConversationOwner, session_id: str) -> Script[StoredConversation | None]:
    number = yield from find_owner(owner)
    rows = yield ScriptStatement(
        f"SELECT {KEPT} FROM toolyard_sessions WHERE owner = :owner AND session_id = :session_id",
        {"owner": -1 if number is None else number, "session_id": session_id},
    )
    return kept_of(rows[0]) if rows else None


def lengths(session: int) -> Script[list[tuple[int, int]]]:
    """The ids of a session's messages, the main thread's first, and how long each is."""
    rows = yield ScriptStatement(
        "SELECT id, LENGTH(text) + LENGTH(tools) FROM toolyard_messages"
        f" WHERE session = :session AND role <> '{TITLE}' ORDER BY thread, id",
        {"session": session},
    )
    return [(row[0], row[1]) for row in rows]


def messages(session: int, ids: Sequence[int]) -> Script[list[StoredMessage]]:
    found: list[StoredMessage] = []
    for key in ids:
        rows = yield ScriptStatement(
            SAID + " WHERE id = :id AND session = :session", {"id": key, "session": session}
        )
        found += [said_of(row) for row in rows]
    return found


class Turn(Struct, frozen=True):
    """What a person asked and what was answered, around a message."""

    message: int
    session: StoredConversation
    said: tuple[StoredMessage, ...]


def vectors(owner: ConversationOwner, after: int, most: int) -> Script[list[Row]]:
    """Serial, message and vector of those that came after a serial."""
    number = yield from find_owner(owner)
    return (
        yield ScriptStatement(
            "SELECT serial, message, vector FROM toolyard_message_vectors"
            " WHERE owner = :owner AND serial > :after ORDER BY serial LIMIT :most",
            {"owner": -1 if number is None else number, "after": after, "most": most},
        )
    )


def turn(owner: ConversationOwner, message: int) -> Script[Turn | None]:
    """None when the message is not there any more, or is not this owner's."""
    number = yield from find_owner(owner)
    if number is None or message not in messages_of(number):
        return None
    # A session that was told anew may have another message in this place, which has no vector.
    rows = yield ScriptStatement(
        "SELECT session, thread, turn FROM toolyard_messages WHERE id = :id"
        " AND EXISTS (SELECT 1 FROM toolyard_message_vectors WHERE message = :id)",
        {"id": message},
    )
    if not rows:
        return None
    (session, thread, number) = rows[0]
    said = yield ScriptStatement(
        SAID + " WHERE session = :session AND thread = :thread AND turn = :turn"
        " AND role IN ('user', 'assistant') AND text <> '' ORDER BY id",
        {"session": session, "thread": thread, "turn": number},
    )
    kept = yield ScriptStatement(f"SELECT {KEPT} FROM toolyard_sessions WHERE id = :id", {"id": session})
    return Turn(message, kept_of(kept[0]), tuple(said_of(row) for row in said))


def said_of(row: Row) -> StoredMessage:
    return StoredMessage(role=row[0], text=row[1], time=row[2], tools=row[3], thread=row[4])


def kept_of(row: Row) -> StoredConversation:
    return StoredConversation(
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


# The first message of a session that has a word; its title, which the caller sees anyway, only if none has.
_FIRST = f"COALESCE(MIN(CASE WHEN (id & {MOST_MESSAGES - 1}) <> 0 THEN id END), MIN(id))"


class ConversationHit(Struct, frozen=True):
    session: StoredConversation
    message: StoredMessage


def with_words(
    dialect: StoreDialect, owner: ConversationOwner, words: Sequence[str], limit: int
) -> Script[list[ConversationHit]]:
    """Sessions with a message that has all the words, as they are."""
    number = yield from find_owner(owner)
    if number is None:
        return []
    asked = dialect.spelt(words, False)
    mine = messages_of(number)
    rows = yield ScriptStatement(
        f"SELECT {KEPT} FROM toolyard_sessions WHERE id IN"
        f" (SELECT DISTINCT {SESSION_OF} FROM ({dialect.matching}) AS matching) {LATEST}",
        {"words": asked, "first": mine.start, "last": mine.stop, "limit": limit},
    )
    hits: list[ConversationHit] = []
    for row in rows:
        # One by one: with whole words each is a jump in the index, and all at once would be all matches.
        hits += yield from _first_hit(dialect, kept_of(row), asked)
    return hits


def with_beginnings(
    dialect: StoreDialect, owner: ConversationOwner, words: Sequence[str], limit: int
) -> Script[list[ConversationHit]]:
    """Sessions with a message that has, for each word, one that begins like it."""
    number = yield from find_owner(owner)
    if number is None:
        return []
    return (yield from _with_first(dialect, number, [dialect.spelt(words, True)], limit))


def with_scattered_words(
    dialect: StoreDialect, owner: ConversationOwner, words: Sequence[str], limit: int
) -> Script[list[ConversationHit]]:
    """Sessions that have, for each word, one that begins like it, in whichever messages."""
    number = yield from find_owner(owner)
    if number is None:
        return []
    return (yield from _with_first(dialect, number, [dialect.spelt([word], True) for word in words], limit))


def _with_first(
    dialect: StoreDialect, owner: int, asked: Sequence[str], limit: int
) -> Script[list[ConversationHit]]:
    """Sessions that have all that is asked, with the first message that has the first.

    In one statement: beginnings of words are gathered from the whole index each time they are looked for.
    """
    mine = messages_of(owner)
    values: dict[str, Any] = {"first": mine.start, "last": mine.stop, "limit": limit}
    values |= {f"words{at}": spelt for at, spelt in enumerate(asked)}
    matching = [dialect.matching.replace(":words", f":words{at}") for at in range(len(asked))]
    also = "".join(
        f" AND id IN (SELECT DISTINCT {SESSION_OF} FROM ({one}) AS matching)" for one in matching[1:]
    )
    rows = yield ScriptStatement(
        f"SELECT {KEPT}, place FROM toolyard_sessions JOIN (SELECT {SESSION_OF} AS session, {_FIRST} AS place"
        f" FROM ({matching[0]}) AS matching GROUP BY 1) AS firsts ON firsts.session = id"
        f" WHERE TRUE{also} {LATEST}",
        values,
    )
    hits: list[ConversationHit] = []
    for row in rows:
        hits += yield from _hit(kept_of(row), row[-1])
    return hits


def _first_hit(
    dialect: StoreDialect, session: StoredConversation, asked: str
) -> Script[list[ConversationHit]]:
    within = messages_in(session.number)
    rows: list[Row] = yield ScriptStatement(
        f"{dialect.matching} ORDER BY id LIMIT 2",
        {"words": asked, "first": within.start, "last": within.stop},
    )
    if not rows:  # it was told anew since it was found
        return []
    return (yield from _hit(session, rows[0][0] if rows[0][0] != within.start else rows[-1][0]))


def _hit(session: StoredConversation, place: int) -> Script[list[ConversationHit]]:
    rows = yield ScriptStatement(SAID + " WHERE id = :id", {"id": place})
    return [ConversationHit(session, said_of(row)) for row in rows]
