"""How upstreams say that a session is over: in words, for want of a code that they agree on.

Owns the words only. What they were said about, and what follows, is for whoever holds the session.
"""

import re

MAX_LENGTH = 2000
"""A longer text is about something, and mentions a session at most."""

_OVER = r"(?:expired|invalid|ended|closed|gone|unknown|terminated|timed out)"
_NOT_THERE = r"(?:no longer|not (?:found|valid|known)|does not exist)"
_SAYS = re.compile(
    # "Session trs_1 has expired", "session is not valid", "session not found", "SESSION_EXPIRED"
    r"(?<![a-z])sessions?(?:[ _-]?id)?(?![a-z])[^.\n]{0,80}?"
    rf"(?<![a-z])(?:{_OVER}|{_NOT_THERE})(?![a-z])"
    # "expired session", "invalid session id", "no such session"
    rf"|(?<![a-z])(?:{_OVER}|no such)[ _-]+(?:[a-z]+[ _-]+)?session(?![a-z])",
    re.I,
)
_SUBJECT = re.compile(r"\W*(?:(?:the|your|this|mcp|composio|tool[ _-]?router)\s+)*session(?![a-z])", re.I)


def says_expired(text: str) -> bool:
    """Whether a refusal names a session that is over, or was never known."""
    return len(text) <= MAX_LENGTH and _SAYS.search(text) is not None


def is_subject(text: str) -> bool:
    """Whether a text speaks of the session first of all, and not of something else's session."""
    return _SUBJECT.match(text) is not None
