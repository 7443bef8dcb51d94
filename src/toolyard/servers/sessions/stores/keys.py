"""Numbers that say whose a thing is: a message's begins with its session's, a session's with its owner's.

So everything of an owner, or of a session, is one range of the message's key, in the full-text index too,
and a search never passes over what is somebody else's.
"""

from __future__ import annotations

_SESSION_BITS = 24
_MESSAGE_BITS = 20
MOST_OWNERS = 1 << (63 - _SESSION_BITS - _MESSAGE_BITS)
MOST_SESSIONS = 1 << _SESSION_BITS
MOST_MESSAGES = 1 << _MESSAGE_BITS

SESSION_OF = f"id >> {_MESSAGE_BITS}"
"""In SQL: a message's session."""


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
