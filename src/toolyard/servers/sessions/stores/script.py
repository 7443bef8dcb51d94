"""Scripts: the work on the tables, written once for both databases.

A script yields statements and is sent the rows of each; an engine runs it, in one transaction if it writes.
The dialect holds the few statements that differ. A message's key begins with its conversation's, and that
with its owner's, so everything of an owner is one range of keys.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from ..model import ConversationOwner, Row
from ..words import all_words


class ConversationStoreError(Exception):
    """`reason` says what is wrong, `hint` what to do."""

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(f"{reason}; hint: {hint}")
        self.reason = reason
        self.hint = hint


_SESSION_BITS = 24
_MESSAGE_BITS = 20
MAX_OWNERS = 1 << (63 - _SESSION_BITS - _MESSAGE_BITS)
MAX_SESSIONS = 1 << _SESSION_BITS
MAX_MESSAGES = 1 << _MESSAGE_BITS

SESSION_OF = f"id >> {_MESSAGE_BITS}"
"""In SQL: the conversation of a message."""


def sessions_of(owner: int) -> range:
    return range(owner << _SESSION_BITS, (owner + 1) << _SESSION_BITS)


def messages_of(owner: int) -> range:
    bits = _SESSION_BITS + _MESSAGE_BITS
    return range(owner << bits, (owner + 1) << bits)


def messages_in(session: int) -> range:
    return range(session << _MESSAGE_BITS, (session + 1) << _MESSAGE_BITS)


def session_of(message: int) -> int:
    return message >> _MESSAGE_BITS


def is_of(owner: int, message: int) -> bool:
    return message in messages_of(owner)


_COLUMNS = "(id, session, uid, thread, turn, role, time, text, tools{more})"
_VALUES = "(:id, :session, :uid, :thread, :turn, :role, :time, :text, :tools{more})"


class StoreDialect(Struct, frozen=True, kw_only=True):
    create: tuple[str, ...]
    lock: tuple[str, ...]
    """Statements that a writing script runs first, so that writers take turns."""
    add_messages: tuple[str, ...]
    """Statements to run for every message."""
    forget_messages: tuple[str, ...]
    """Statements that delete messages with :first <= id < :last."""
    matching: str
    """Selects the ids of messages that match :words, with :first <= id < :last."""
    query_text: Callable[[Sequence[str], bool], str]
    """Makes the value of :words: all of these words, whole or as prefixes."""
    index: Callable[[str], object]
    """Makes the value of :words for a message that is added."""


def _tables(integer: str, number: str, blob: str, serial: str, more: str) -> tuple[str, ...]:
    return (
        f"CREATE TABLE IF NOT EXISTS toolyard_session_owners (number {integer} PRIMARY KEY,"
        " tenant TEXT NOT NULL, agent TEXT NOT NULL, UNIQUE (tenant, agent))",
        f"CREATE TABLE IF NOT EXISTS toolyard_sessions (id {integer} PRIMARY KEY, owner {integer} NOT NULL,"
        f" session_id TEXT NOT NULL, title TEXT NOT NULL, named {integer} NOT NULL, channel TEXT NOT NULL,"
        f" created_at TEXT NOT NULL, updated_at TEXT NOT NULL, message_count {integer} NOT NULL,"
        f" cost_usd {number}, summary TEXT NOT NULL, topics TEXT NOT NULL, UNIQUE (owner, session_id))",
        "CREATE INDEX IF NOT EXISTS toolyard_sessions_recent ON toolyard_sessions (owner, updated_at)",
        f"CREATE TABLE IF NOT EXISTS toolyard_messages (id {integer} PRIMARY KEY, session {integer} NOT NULL,"
        f" uid TEXT NOT NULL, thread TEXT NOT NULL, turn {integer} NOT NULL, role TEXT NOT NULL,"
        f" time TEXT NOT NULL, text TEXT NOT NULL, tools TEXT NOT NULL{more}, UNIQUE (uid, session))",
        "CREATE INDEX IF NOT EXISTS toolyard_messages_turn ON toolyard_messages (session, thread, turn)",
        f"CREATE TABLE IF NOT EXISTS toolyard_message_vectors (serial {serial}, owner {integer} NOT NULL,"
        f" message {integer} NOT NULL, vector {blob} NOT NULL)",
        "CREATE INDEX IF NOT EXISTS toolyard_message_vectors_new ON toolyard_message_vectors (owner, serial)",
        "CREATE INDEX IF NOT EXISTS toolyard_message_vectors_of ON toolyard_message_vectors (message)",
        f"CREATE TABLE IF NOT EXISTS toolyard_session_files (owner {integer} NOT NULL, path TEXT NOT NULL,"
        f" size {integer} NOT NULL, changed {integer} NOT NULL, done {integer} NOT NULL, mark TEXT NOT NULL,"
        " PRIMARY KEY (owner, path))",
    )


def _fts5(words: Sequence[str], begun: bool) -> str:
    # Quotes prevent syntax, and words contain no quotes.
    return " AND ".join(f'"{word}"*' if begun and len(word) > 2 else f'"{word}"' for word in words)


def _tsquery(words: Sequence[str], begun: bool) -> str:
    return " & ".join(f"'{word}':*" if begun and len(word) > 2 else f"'{word}'" for word in words)


def _nothing(text: str) -> object:
    return None


def _distinct(text: str) -> object:
    return all_words(text)


SQLITE = StoreDialect(
    create=(
        *_tables("INTEGER", "REAL", "BLOB", "INTEGER PRIMARY KEY AUTOINCREMENT", ""),
        "CREATE VIRTUAL TABLE IF NOT EXISTS toolyard_words USING fts5(text, tools,"
        " content='toolyard_messages', content_rowid='id', tokenize='unicode61 remove_diacritics 2')",
    ),
    lock=(),
    add_messages=(
        f"INSERT INTO toolyard_messages {_COLUMNS.format(more='')} VALUES {_VALUES.format(more='')}",
        "INSERT INTO toolyard_words (rowid, text, tools) VALUES (:id, :text, :tools)",
    ),
    forget_messages=(
        "INSERT INTO toolyard_words (toolyard_words, rowid, text, tools)"
        " SELECT 'delete', id, text, tools FROM toolyard_messages WHERE id >= :first AND id < :last",
        "DELETE FROM toolyard_messages WHERE id >= :first AND id < :last",
    ),
    matching="SELECT rowid AS id FROM toolyard_words"
    " WHERE toolyard_words MATCH :words AND rowid >= :first AND rowid < :last",
    query_text=_fts5,
    index=_nothing,
)

POSTGRES = StoreDialect(
    create=(
        *_tables("BIGINT", "DOUBLE PRECISION", "BYTEA", "BIGSERIAL PRIMARY KEY", ", words TSVECTOR NOT NULL"),
        "CREATE INDEX IF NOT EXISTS toolyard_messages_words ON toolyard_messages USING GIN (words)",
    ),
    # An arbitrary number; all processes use the same.
    lock=("SELECT pg_advisory_xact_lock(7406801)",),
    add_messages=(
        f"INSERT INTO toolyard_messages {_COLUMNS.format(more=', words')}"
        f" VALUES {_VALUES.format(more=', array_to_tsvector(CAST(:words AS TEXT[]))')}",
    ),
    forget_messages=("DELETE FROM toolyard_messages WHERE id >= :first AND id < :last",),
    matching="SELECT id FROM toolyard_messages"
    " WHERE words @@ CAST(:words AS TSQUERY) AND id >= :first AND id < :last",
    query_text=_tsquery,
    index=_distinct,
)


T = TypeVar("T")


class ScriptStatement(Struct, frozen=True):
    """One statement, for one set of values; or for each of many, then without rows."""

    sql: str
    values: Mapping[str, Any] = {}
    each: Sequence[Mapping[str, Any]] | None = None


Script = Generator[ScriptStatement, list[Row], T]


class StoreFullError(ConversationStoreError):
    """No more numbers are left."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, "use another database")


def lock_writers(dialect: StoreDialect) -> Script[None]:
    """Makes writers take turns from here on."""
    for statement in dialect.lock:
        yield ScriptStatement(statement)


def find_owner(owner: ConversationOwner) -> Script[int | None]:
    rows = yield ScriptStatement(
        "SELECT number FROM toolyard_session_owners WHERE tenant = :tenant AND agent = :user",
        owner._asdict(),
    )
    return rows[0][0] if rows else None


def get_or_add_owner(owner: ConversationOwner) -> Script[int]:
    """Returns the owner's number; assigns one the first time."""
    number = yield from find_owner(owner)
    if number is not None:
        return number
    rows = yield ScriptStatement("SELECT COALESCE(MAX(number), 0) + 1 FROM toolyard_session_owners")
    number = rows[0][0]
    if number >= MAX_OWNERS:
        raise StoreFullError(f"the limit of {MAX_OWNERS} owners is reached")
    yield ScriptStatement(
        "INSERT INTO toolyard_session_owners VALUES (:number, :tenant, :user)",
        {"number": number, **owner._asdict()},
    )
    return number


class ScriptEngine(Protocol):
    """Raises ConversationStoreError if the database fails."""

    dialect: StoreDialect

    async def read(self, script: Script[T]) -> T: ...

    async def write(self, script: Script[T]) -> T:
        """In one transaction."""
        ...

    def elsewhere(self) -> ScriptEngine:
        """The same tables, for use in another thread with an event loop of its own."""
        ...

    async def close(self) -> None: ...
