"""Errors between the gateway and an upstream, told apart by what may be done about them.

UpstreamError           -32603, names the server; `data` has `server` and `reason`
├── NotReachedError     the request never left, or was rejected unread: any call may be retried
│   ├── UpstreamBusyError      we have too many calls under way with it; not its fault
│   ├── UpstreamStartingError  its program is not ready yet; callers are not kept waiting
│   ├── StaleSessionError      our session, or the era we assumed, is no longer valid: retry once
│   └── UpstreamDownError      known to be down: do not try now
├── UpstreamRefusedError  it rejected us: a retry does not help; `status` is its HTTP status,
│                         `expired` says that it named a session
├── ConnectionLostError   the request left and no answer came: retry only what may run twice
├── UpstreamTimeoutError  no answer within the time limit
└── InvalidReplyError     the answer is not valid JSON-RPC

HttpRpcError            a JSON-RPC error of the upstream's that came with an HTTP error `status`

Also owns the wording by which upstreams say that a session has expired, for want of a code they agree on.
"""

import re
from typing import Any

from ..telemetry.redaction import redact
from ..wire.errors import INTERNAL_ERROR, McpError
from ..wire.text import clean

MAX_REASON = 500


class UpstreamError(McpError):
    """`reason` is a sentence without the server's name, fit for lists and /health."""

    def __init__(self, server: str, reason: str, retry_after: float | None = None) -> None:
        # Reasons are shown to everybody, and may hold an upstream's own words.
        reason = redact(clean(reason))[:MAX_REASON]
        data: dict[str, Any] = {"server": server, "reason": reason}
        if retry_after is not None:
            data["retryAfterMs"] = int(retry_after * 1000)
        super().__init__(INTERNAL_ERROR, f"Server {server!r}: {reason}", data)
        self.server = server
        self.reason = reason
        self.retry_after = retry_after


class NotReachedError(UpstreamError):
    pass


class UpstreamBusyError(NotReachedError):
    pass


class UpstreamStartingError(NotReachedError):
    expected = True
    """A start that takes long is no fault of the call, and is logged by itself."""


class StaleSessionError(NotReachedError):
    expired = False
    """It spoke of a session that is over, which may be another than ours with it."""


class UpstreamDownError(NotReachedError):
    expected = True
    """That it is down was told when it was found out; the log need not repeat it for every call."""


class UpstreamRefusedError(UpstreamError):
    def __init__(self, server: str, reason: str, status: int = 0, expired: bool = False) -> None:
        super().__init__(server, reason)
        self.status = status
        self.expired = expired


class ConnectionLostError(UpstreamError):
    pass


class UpstreamTimeoutError(UpstreamError, TimeoutError):
    pass


class InvalidReplyError(UpstreamError):
    id: int | str | None = None
    """Of the request whose answer it would have been, where that can be told."""


class HttpRpcError(McpError):
    def __init__(self, code: int, message: str, data: Any, status: int) -> None:
        super().__init__(code, message, data)
        self.status = status


MAX_EXPIRY_TEXT = 2000
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
    return len(text) <= MAX_EXPIRY_TEXT and _SAYS.search(text) is not None


def is_refusal(text: str) -> bool:
    """The same, of a text that speaks of the session first of all.

    What a tool says after it has done something may mention a session too: that of a browser, or of a shop.
    """
    return says_expired(text) and _SUBJECT.match(text) is not None
