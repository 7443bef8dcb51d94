"""The content of one line of a file: an addition to a conversation, a whole one, a title, or nothing."""

from __future__ import annotations

from msgspec import Struct

from ..model import Conversation


class ConversationAddition(Struct, frozen=True):
    """Messages or facts to add to a conversation."""

    conversation: Conversation


class WholeConversation(Struct, frozen=True):
    """A whole conversation, which replaces the stored one."""

    conversation: Conversation


class ConversationTitle(Struct, frozen=True):
    """A title for the conversation that contains a message."""

    message: str
    title: str


class NothingKept(Struct, frozen=True):
    """A known line without anything to store."""


ConversationPart = ConversationAddition | WholeConversation | ConversationTitle | NothingKept


class UnknownFormatError(Exception):
    """The line is in no known format."""
