"""The scripts that read: conversations by words, by time, by id and by meaning, and their messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from ..model import ConversationOwner, Row, StoredConversation, StoredMessage
from .changes import TITLE
from .script import (
    MAX_MESSAGES,
    SESSION_OF,
    Script,
    ScriptStatement,
    StoreDialect,
    find_owner,
    messages_in,
    messages_of,
)

CONVERSATION_COLUMNS = (
    "id, session_id, title, channel, created_at, updated_at, message_count, cost_usd, summary, topics"
)
SELECT_MESSAGE = "SELECT role, text, time, tools, thread FROM toolyard_messages"
LATEST = "ORDER BY updated_at DESC, id DESC LIMIT :limit"


def recent(owner: ConversationOwner, limit: int) -> Script[list[StoredConversation]]:
    number = yield from find_owner(owner)
    if number is None:
        return []
    rows = yield ScriptStatement(
        f"SELECT {CONVERSATION_COLUMNS} FROM toolyard_sessions WHERE owner = :owner {LATEST}",
        {"owner": number, "limit": limit},
    )
    return [conversation_of(row) for row in rows]


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


def conversation(owner: ConversationOwner, session_id: str) -> Script[StoredConversation | None]:
    number = yield from find_owner(owner)
    rows = yield ScriptStatement(
        f"SELECT {CONVERSATION_COLUMNS} FROM toolyard_sessions"
        " WHERE owner = :owner AND session_id = :session_id",
        {"owner": -1 if number is None else number, "session_id": session_id},
    )
    return conversation_of(rows[0]) if rows else None


def lengths(session: int) -> Script[list[tuple[int, int]]]:
    """The ids and lengths of a conversation's messages, the main thread's first."""
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
            SELECT_MESSAGE + " WHERE id = :id AND session = :session", {"id": key, "session": session}
        )
        found += [message_of(row) for row in rows]
    return found


class Turn(Struct, frozen=True):
    """A person's request and the answers to it."""

    message: int
    conversation: StoredConversation
    messages: tuple[StoredMessage, ...]


def vectors(owner: ConversationOwner, after: int, most: int) -> Script[list[Row]]:
    """Serial, message and vector of the vectors after a serial."""
    number = yield from find_owner(owner)
    return (
        yield ScriptStatement(
            "SELECT serial, message, vector FROM toolyard_message_vectors"
            " WHERE owner = :owner AND serial > :after ORDER BY serial LIMIT :most",
            {"owner": -1 if number is None else number, "after": after, "most": most},
        )
    )


def turn(owner: ConversationOwner, message: int) -> Script[Turn | None]:
    """None if the message is gone or belongs to another owner."""
    number = yield from find_owner(owner)
    if number is None or message not in messages_of(number):
        return None
    # A replaced conversation may have another message with this id, which has no vector.
    rows = yield ScriptStatement(
        "SELECT session, thread, turn FROM toolyard_messages WHERE id = :id"
        " AND EXISTS (SELECT 1 FROM toolyard_message_vectors WHERE message = :id)",
        {"id": message},
    )
    if not rows:
        return None
    (session, thread, number) = rows[0]
    messages = yield ScriptStatement(
        SELECT_MESSAGE + " WHERE session = :session AND thread = :thread AND turn = :turn"
        " AND role IN ('user', 'assistant') AND text <> '' ORDER BY id",
        {"session": session, "thread": thread, "turn": number},
    )
    stored = yield ScriptStatement(
        f"SELECT {CONVERSATION_COLUMNS} FROM toolyard_sessions WHERE id = :id", {"id": session}
    )
    return Turn(message, conversation_of(stored[0]), tuple(message_of(row) for row in messages))


def message_of(row: Row) -> StoredMessage:
    return StoredMessage(role=row[0], text=row[1], time=row[2], tools=row[3], thread=row[4])


def conversation_of(row: Row) -> StoredConversation:
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


# The first message of a conversation with a word; its title only if no message has the word.
_FIRST = f"COALESCE(MIN(CASE WHEN (id & {MAX_MESSAGES - 1}) <> 0 THEN id END), MIN(id))"


class ConversationHit(Struct, frozen=True):
    conversation: StoredConversation
    message: StoredMessage


def with_words(
    dialect: StoreDialect, owner: ConversationOwner, words: Sequence[str], limit: int
) -> Script[list[ConversationHit]]:
    """Conversations with a message that contains all the words."""
    number = yield from find_owner(owner)
    if number is None:
        return []
    asked = dialect.query_text(words, False)
    mine = messages_of(number)
    rows = yield ScriptStatement(
        f"SELECT {CONVERSATION_COLUMNS} FROM toolyard_sessions WHERE id IN"
        f" (SELECT DISTINCT {SESSION_OF} FROM ({dialect.matching}) AS matching) {LATEST}",
        {"words": asked, "first": mine.start, "last": mine.stop, "limit": limit},
    )
    hits: list[ConversationHit] = []
    for row in rows:
        # One by one: each is a lookup in the index, while one statement would read all matches.
        hits += yield from _first_hit(dialect, conversation_of(row), asked)
    return hits


def with_beginnings(
    dialect: StoreDialect, owner: ConversationOwner, words: Sequence[str], limit: int
) -> Script[list[ConversationHit]]:
    """Conversations with a message that contains, for each word, a word with that prefix."""
    number = yield from find_owner(owner)
    if number is None:
        return []
    return (yield from _with_first(dialect, number, [dialect.query_text(words, True)], limit))


def with_scattered_words(
    dialect: StoreDialect, owner: ConversationOwner, words: Sequence[str], limit: int
) -> Script[list[ConversationHit]]:
    """Conversations that contain, for each word, a word with that prefix, in any messages."""
    number = yield from find_owner(owner)
    if number is None:
        return []
    return (
        yield from _with_first(dialect, number, [dialect.query_text([word], True) for word in words], limit)
    )


def _with_first(
    dialect: StoreDialect, owner: int, asked: Sequence[str], limit: int
) -> Script[list[ConversationHit]]:
    """Conversations that match all queries, each with the first message that matches the first query.

    In one statement, because every search for a prefix reads the whole index.
    """
    mine = messages_of(owner)
    values: dict[str, Any] = {"first": mine.start, "last": mine.stop, "limit": limit}
    values |= {f"words{at}": query_text for at, query_text in enumerate(asked)}
    matching = [dialect.matching.replace(":words", f":words{at}") for at in range(len(asked))]
    also = "".join(
        f" AND id IN (SELECT DISTINCT {SESSION_OF} FROM ({one}) AS matching)" for one in matching[1:]
    )
    rows = yield ScriptStatement(
        f"SELECT {CONVERSATION_COLUMNS}, place FROM toolyard_sessions"
        f" JOIN (SELECT {SESSION_OF} AS session, {_FIRST} AS place FROM ({matching[0]}) AS matching"
        " GROUP BY 1) AS firsts ON firsts.session = id"
        f" WHERE TRUE{also} {LATEST}",
        values,
    )
    hits: list[ConversationHit] = []
    for row in rows:
        hits += yield from _hit(conversation_of(row), row[-1])
    return hits


def _first_hit(
    dialect: StoreDialect, conversation: StoredConversation, asked: str
) -> Script[list[ConversationHit]]:
    within = messages_in(conversation.number)
    rows: list[Row] = yield ScriptStatement(
        f"{dialect.matching} ORDER BY id LIMIT 2",
        {"words": asked, "first": within.start, "last": within.stop},
    )
    if not rows:  # replaced since it was found
        return []
    return (yield from _hit(conversation, rows[0][0] if rows[0][0] != within.start else rows[-1][0]))


def _hit(conversation: StoredConversation, place: int) -> Script[list[ConversationHit]]:
    rows = yield ScriptStatement(SELECT_MESSAGE + " WHERE id = :id", {"id": place})
    return [ConversationHit(conversation, message_of(row)) for row in rows]
