"""What one line of a file contributes: an addition to a conversation, a whole one, a title, or nothing."""

from __future__ import annotations

from msgspec import Struct

from ..model import Conversation


class ConversationAddition(Struct, frozen=True):
    """What is to be added to a session."""

    session: Conversation


class WholeConversation(Struct, frozen=True):
    """A session as it is now; what was known of it before is out of date."""

    session: Conversation


class ConversationTitle(Struct, frozen=True):
    """A title for the session that has a certain message."""

    message: str
    title: str


class NothingKept(Struct, frozen=True):
    """A line that is known, and has nothing that is kept."""


ConversationPart = ConversationAddition | WholeConversation | ConversationTitle | NothingKept


class UnknownFormatError(Exception):
    """The line is in none of the forms that are read here."""
