"""A conversation, its messages and its owner: the structs and their limits. No storage, no files."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import IntEnum
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from ...wire.text import clean, normalized

Role = Literal["user", "assistant", "system", "tool"]
Row = tuple[Any, ...]
"""A row of a database."""

MAX_TEXT = 200_000
"""Characters kept of one message."""
MAX_ARGUMENTS = 2_000
"""Characters kept of a tool call's arguments."""
MAX_LINE = 300
"""Characters kept of a title, a name or an id."""


class ConversationOwner(NamedTuple):
    tenant: str = "local"
    user: str = ""


class TitleSource(IntEnum):
    """Where a title comes from; a higher value replaces a lower one."""

    BY_FIRST_WORDS = 0
    BY_A_MODEL = 1
    BY_A_PERSON = 2


class CalledTool(Struct, frozen=True):
    """A tool call in a message."""

    name: str
    arguments: str = ""


class ConversationMessage(Struct, frozen=True, kw_only=True):
    role: Role
    text: str = ""
    time: str = ""
    tools: tuple[CalledTool, ...] = ()
    id: str
    """Unique in a conversation; a message with a known id is not stored again."""
    thread: str = ""
    """Empty for the main agent, else the sub-agent."""


class VectoredMessage(Struct, frozen=True):
    """A message and its encoded vector, if it has one."""

    message: ConversationMessage
    vector: bytes | None = None


class Conversation(Struct, frozen=True, kw_only=True):
    """A conversation, or the part of it that has been read so far."""

    session_id: str
    title: str = ""
    title_source: TitleSource = TitleSource.BY_FIRST_WORDS
    channel: str = ""
    created_at: str = ""
    updated_at: str = ""
    cost_usd: float | None = None
    summary: str = ""
    topics: tuple[str, ...] = ()
    messages: tuple[ConversationMessage, ...] = ()


class StoredConversation(Struct, frozen=True, kw_only=True):
    """A stored conversation, without its messages."""

    number: int
    session_id: str
    title: str
    channel: str
    created_at: str
    updated_at: str
    message_count: int
    cost_usd: float | None
    summary: str
    topics: tuple[str, ...]


class StoredMessage(Struct, frozen=True, kw_only=True):
    """A stored message; its tool calls as text, one a line."""

    role: str
    text: str
    time: str
    tools: str
    thread: str


def tidy(text: str, most: int = MAX_TEXT) -> str:
    """Prepares a text for storage: composed characters, none that a database refuses, limited length."""
    text = clean(text).replace("\x00", "")
    if len(text) > most:
        text = f"{text[: most - 1]}…"
    return normalized("NFC", text)


def line(text: str, most: int = MAX_LINE) -> str:
    """Makes one line of a text, cut at a word."""
    joined = " ".join(tidy(text, most * 8).split())
    if len(joined) <= most:
        return joined
    cut = joined[: most - 1]
    return (cut.rsplit(" ", 1)[0] if " " in cut[most // 2 :] else cut) + "…"


def moment(value: object) -> str:
    """Converts ISO 8601 or seconds since 1970 to UTC, to the second; returns "" for anything else."""
    try:
        if isinstance(value, str) and value:
            read = datetime.fromisoformat(value)
            read = read if read.tzinfo else read.replace(tzinfo=UTC)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            read = datetime.fromtimestamp(value, UTC)
        else:
            return ""
        return read.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if read.year >= 1000 else ""
    except (ValueError, OverflowError, OSError):
        return ""
