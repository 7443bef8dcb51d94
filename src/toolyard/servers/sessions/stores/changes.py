"""The scripts that write: conversations, messages and vectors, and how far each file has been read.

Each is one transaction; a message that is already stored is not stored again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from ..model import (
    MAX_TEXT,
    Conversation,
    ConversationMessage,
    ConversationOwner,
    TitleSource,
    VectoredMessage,
    line,
)
from .script import (
    MAX_SESSIONS,
    Script,
    ScriptStatement,
    StoreDialect,
    StoreFullError,
    find_owner,
    get_or_add_owner,
    lock_writers,
    messages_in,
    sessions_of,
)

_FIRST_WORDS = 80
TITLE = "title"
"""The role of the row that makes a conversation's title and summary searchable."""


def append(
    dialect: StoreDialect,
    owner: ConversationOwner,
    conversation: Conversation,
    messages: Sequence[VectoredMessage],
) -> Script[int]:
    """Adds the messages that are not stored yet; returns how many."""
    yield from lock_writers(dialect)
    number = yield from get_or_add_owner(owner)
    kept = yield from _session(number, conversation)
    rows = yield ScriptStatement(
        "SELECT uid FROM toolyard_messages WHERE session = :session", {"session": kept}
    )
    known = {row[0] for row in rows}
    new: list[VectoredMessage] = []
    for item in messages:
        if item.message.id not in known:
            known.add(item.message.id)
            new.append(item)
    yield from _add(dialect, number, kept, new)
    yield from _describe(dialect, number, kept, conversation)
    return len(new)


def replace(
    dialect: StoreDialect,
    owner: ConversationOwner,
    conversation: Conversation,
    messages: Sequence[VectoredMessage],
) -> Script[int]:
    """Replaces a stored conversation; returns how many messages it has."""
    yield from lock_writers(dialect)
    number = yield from get_or_add_owner(owner)
    kept = yield from _session(number, conversation)
    yield from _forget(dialect, messages_in(kept))
    yield from _add(dialect, number, kept, messages)
    clear = "UPDATE toolyard_sessions SET title = '', named = 0, summary = '', topics = '[]',"
    clear += " cost_usd = NULL, updated_at = '', created_at = '' WHERE id = :id"
    yield ScriptStatement(clear, {"id": kept})
    yield from _describe(dialect, number, kept, conversation)
    return len(messages)


def set_title(dialect: StoreDialect, owner: ConversationOwner, uid: str, title: str) -> Script[bool]:
    """Sets the title of the conversation with this message, unless a person chose one."""
    yield from lock_writers(dialect)
    number = yield from get_or_add_owner(owner)
    mine = sessions_of(number)
    rows = yield ScriptStatement(
        "SELECT session FROM toolyard_messages WHERE uid = :uid AND session >= :first AND session < :last",
        {"uid": uid, "first": mine.start, "last": mine.stop},
    )
    for (kept,) in rows:
        title_source = Conversation(session_id="", title=title, title_source=TitleSource.BY_A_MODEL)
        yield from _describe(dialect, number, kept, title_source)
    return bool(rows)


def _session(owner: int, conversation: Conversation) -> Script[int]:
    rows = yield ScriptStatement(
        "SELECT id FROM toolyard_sessions WHERE owner = :owner AND session_id = :session_id",
        {"owner": owner, "session_id": conversation.session_id},
    )
    if rows:
        return rows[0][0]
    mine = sessions_of(owner)
    rows = yield ScriptStatement(
        "SELECT MAX(id) FROM toolyard_sessions WHERE owner = :owner", {"owner": owner}
    )
    number = mine.start if rows[0][0] is None else rows[0][0] + 1
    if number not in mine:
        raise StoreFullError(f"the owner's limit of {MAX_SESSIONS} sessions is reached")
    yield ScriptStatement(
        "INSERT INTO toolyard_sessions VALUES"
        " (:id, :owner, :session_id, '', 0, :channel, '', '', 0, NULL, '', '[]')",
        {
            "id": number,
            "owner": owner,
            "session_id": conversation.session_id,
            "channel": conversation.channel,
        },
    )
    return number


def _add(
    dialect: StoreDialect, owner: int, session: int, messages: Sequence[VectoredMessage]
) -> Script[None]:
    if not messages:
        return
    within = messages_in(session)
    rows = yield ScriptStatement(
        "SELECT MAX(id) FROM toolyard_messages WHERE session = :session", {"session": session}
    )
    # The first id is the title's.
    last = max(rows[0][0] or 0, within.start)
    rows = yield ScriptStatement(
        "SELECT thread, MAX(turn) FROM toolyard_messages WHERE session = :session GROUP BY thread",
        {"session": session},
    )
    turns: dict[str, int] = {row[0]: row[1] for row in rows}
    messages = messages[: within.stop - last - 1]
    values = [
        _row(dialect, last + at, session, item.message, turns) for at, item in enumerate(messages, start=1)
    ]
    for statement in dialect.add_messages:
        yield ScriptStatement(statement, each=values)
    vectors = [
        {"owner": owner, "message": row["id"], "vector": item.vector}
        for row, item in zip(values, messages, strict=True)
        if item.vector is not None
    ]
    insert = (
        "INSERT INTO toolyard_message_vectors (owner, message, vector) VALUES (:owner, :message, :vector)"
    )
    yield ScriptStatement(insert, each=vectors)


def _row(
    dialect: StoreDialect, key: int, session: int, message: ConversationMessage, turns: dict[str, int]
) -> dict[str, Any]:
    if message.role == "user":
        turns[message.thread] = turns.get(message.thread, 0) + 1
    tools = "\n".join(f"{tool.name} {tool.arguments}".rstrip() for tool in message.tools)[:MAX_TEXT]
    return {
        "id": key,
        "session": session,
        "uid": message.id,
        "thread": message.thread,
        "turn": turns.get(message.thread, 0),
        "role": message.role,
        "time": message.time,
        "text": message.text,
        "tools": tools,
        "words": dialect.index(f"{message.text}\n{tools}"[:MAX_TEXT]),
    }


def _forget(dialect: StoreDialect, keys: range) -> Script[None]:
    span = {"first": keys.start, "last": keys.stop}
    yield ScriptStatement(
        "DELETE FROM toolyard_message_vectors WHERE message >= :first AND message < :last", span
    )
    for statement in dialect.forget_messages:
        yield ScriptStatement(statement, span)


def _describe(dialect: StoreDialect, owner: int, number: int, given: Conversation) -> Script[None]:
    """Updates title, summary, times and counts, and indexes the title for searches."""
    rows = yield ScriptStatement(
        "SELECT title, named, summary, created_at, updated_at, cost_usd, topics"
        " FROM toolyard_sessions WHERE id = :id",
        {"id": number},
    )
    title, title_source, summary, created, updated, cost, topics = rows[0]
    before = (title, summary)
    if given.title and given.title_source >= title_source:
        title, title_source = given.title, int(given.title_source)
    if not title:
        title = yield from _first_words(number)
    summary = given.summary or summary
    counted = yield ScriptStatement(
        "SELECT COUNT(*) FROM toolyard_messages"
        " WHERE session = :id AND thread = '' AND role IN ('user', 'assistant') AND text <> ''",
        {"id": number},
    )
    yield ScriptStatement(
        "UPDATE toolyard_sessions SET title = :title, named = :named, summary = :summary,"
        " created_at = :created, updated_at = :updated, cost_usd = :cost, topics = :topics,"
        " message_count = :count WHERE id = :id",
        {
            "id": number,
            "title": title,
            "named": title_source,
            "summary": summary,
            "created": min(filter(None, (created, given.created_at)), default=""),
            "updated": max(updated, given.updated_at, given.created_at),
            "cost": cost if given.cost_usd is None else given.cost_usd,
            "topics": msgspec.json.encode(given.topics).decode() if given.topics else topics,
            "count": counted[0][0],
        },
    )
    if before != (title, summary) or not before[0]:
        yield from _index_title(dialect, number, title, summary)


def _first_words(session: int) -> Script[str]:
    rows = yield ScriptStatement(
        "SELECT text FROM toolyard_messages WHERE session = :session AND thread = '' AND turn = 1"
        " AND role = 'user' AND text <> '' ORDER BY id LIMIT 1",
        {"session": session},
    )
    return line(rows[0][0], _FIRST_WORDS) if rows else ""


def _index_title(dialect: StoreDialect, session: int, title: str, summary: str) -> Script[None]:
    place = messages_in(session).start
    yield from _forget(dialect, range(place, place + 1))
    text = f"{title}\n{summary}".strip()
    values = {"id": place, "session": session, "uid": "", "thread": "", "turn": 0, "role": TITLE}
    values |= {"time": "", "text": text, "tools": "", "words": dialect.index(text)}
    for statement in dialect.add_messages:
        yield ScriptStatement(statement, each=[values])


class Bookmark(Struct, frozen=True):
    """How far a file has been imported, and its size and fingerprint at that time."""

    size: int
    changed: int
    done: int
    mark: str


def bookmarks(owner: ConversationOwner) -> Script[dict[str, Bookmark]]:
    number = yield from find_owner(owner)
    rows = yield ScriptStatement(
        "SELECT path, size, changed, done, mark FROM toolyard_session_files WHERE owner = :owner",
        {"owner": -1 if number is None else number},
    )
    return {row[0]: Bookmark(*row[1:]) for row in rows}


def mark(dialect: StoreDialect, owner: ConversationOwner, path: str, bookmark: Bookmark) -> Script[None]:
    yield from lock_writers(dialect)
    number = yield from get_or_add_owner(owner)
    yield ScriptStatement(
        "INSERT INTO toolyard_session_files (owner, path, size, changed, done, mark)"
        " VALUES (:owner, :path, :size, :changed, :done, :mark) ON CONFLICT (owner, path) DO UPDATE SET"
        " size = excluded.size, changed = excluded.changed, done = excluded.done, mark = excluded.mark",
        {"owner": number, "path": path, **msgspec.structs.asdict(bookmark)},
    )
