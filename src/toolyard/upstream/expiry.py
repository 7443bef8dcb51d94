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
_SUBJECT = re.compile(
    # "Error: ", "MCP error -32001: ", '{"data": {}, "successful": false, "error": "'
    r"\W*(?:(?:mcp|errors?|message|detail|reason|code|status|unauthori[sz]ed|forbidden|gone|\d+"
    r"|data|ok|success|successful|false|null)\W+)*"
    # "your Composio session", "invalid session id", "no such session"; but not "the browser session"
    rf"(?:(?:the|your|this|an?|no|such|mcp|composio|tool[ _-]?router|{_OVER})[ _-]+)*"
    r"session(?:[ _-]?id)?(?![a-z])",
    re.I,
)


def says_expired(text: str) -> bool:
    """Whether a refusal names a session that is over, or was never known."""
    return len(text) <= MAX_LENGTH and _SAYS.search(text) is not None


def is_refusal(text: str) -> bool:
    """The same, of a text that speaks of the session first of all.

    What a tool says after it has done something may mention a session too: that of a browser, or of a shop.
    """
    return says_expired(text) and _SUBJECT.match(text) is not None
