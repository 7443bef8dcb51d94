"""Errors between the gateway and an upstream, by what a caller may do about them.

UpstreamError           -32603, names the server; `data` has `server` and `reason`
├── NotReachedError     the request never left, or was rejected unread: any call may be retried
│   ├── UpstreamBusyError      the gateway has too many calls to it; not the upstream's fault
│   ├── UpstreamStartingError  its program is not ready yet, and callers do not wait longer
│   ├── StaleSessionError      the gateway's session, or the assumed era, is no longer valid: retry once
│   └── UpstreamDownError      known to be down: do not retry now
├── UpstreamRefusedError  it rejected the gateway: a retry does not help; `status` is its HTTP status,
│                         `expired` says that it named an expired session
├── CredentialError       there is no credential for this caller; says nothing about the server
│   └── ConsentRequiredError   the caller has to agree first, in a browser
├── ConnectionLostError   the request left and no answer came: retry only what may run twice
├── UpstreamTimeoutError  no answer within the time limit
└── InvalidReplyError     the answer is not valid JSON-RPC

HttpRpcError            a JSON-RPC error from the upstream that came with an HTTP error `status`

Also owns the patterns for texts in which upstreams say that a session has expired: there is no common code.
"""

import re
from typing import Any

from ..languages import said
from ..telemetry.redaction import redact
from ..wire.errors import INTERNAL_ERROR, McpError
from ..wire.text import clean, printable

MAX_REASON = 500
WANTS_LOGIN = "it wants a login"
"""Begins the reason of a server that wants OAuth and whose entry has no `auth`."""


class UpstreamError(McpError):
    """`reason` is a sentence without the server's name, for lists and /health."""

    status = 0
    """The HTTP status that it answered with, where that is what went wrong."""
    said: str = ""
    """What a JSON-RPC error in the body of an HTTP error says, where it answers no request of ours."""
    location: str | None = None
    """Where a redirect leads that was not followed."""

    def __init__(self, server: str, reason: str, retry_after: float | None = None) -> None:
        # A reason is shown to every caller, and may quote the upstream.
        reason = redact(printable(clean(reason)).replace("\n", " "))[:MAX_REASON]
        data: dict[str, Any] = {"server": server, "reason": reason}
        if retry_after is not None:
            data["retryAfterMs"] = int(retry_after * 1000)
        super().__init__(
            INTERNAL_ERROR, said(f"Server {server!r}: {reason}", f"Servidor {server!r}: {reason}"), data
        )
        self.server = server
        self.reason = reason
        self.retry_after = retry_after


class NotReachedError(UpstreamError):
    pass


class UpstreamBusyError(NotReachedError):
    pass


class UpstreamStartingError(NotReachedError):
    expected = True
    """Not logged for each call: the start itself is logged."""


class StaleSessionError(NotReachedError):
    supported: tuple[str, ...] = ()
    """The revisions that it says it speaks, where it refused ours."""
    expired = False
    """The upstream said that a session has expired; it may be another than the gateway's with it."""


class UpstreamDownError(NotReachedError):
    expected = True
    """Not logged for each call: the failure was logged when it was found."""


class UpstreamRefusedError(UpstreamError):
    def __init__(self, server: str, reason: str, status: int = 0, expired: bool = False) -> None:
        super().__init__(server, reason)
        self.status = status
        self.expired = expired


class CredentialError(UpstreamError):
    expected = True
    """Not logged for each call: it concerns one caller."""


class ConsentRequiredError(CredentialError):
    """`scopes` are those that the server asked for, and `earlier` those that were granted before."""

    def __init__(
        self, server: str, reason: str, scopes: tuple[str, ...] = (), earlier: tuple[str, ...] = ()
    ) -> None:
        super().__init__(server, reason)
        self.scopes = scopes
        self.earlier = earlier


class ConnectionLostError(UpstreamError):
    pass


class UpstreamTimeoutError(UpstreamError, TimeoutError):
    pass


class InvalidReplyError(UpstreamError):
    id: int | str | None = None
    """The request that it would have answered, where that is known."""


class UnknownRevision(InvalidReplyError):
    def __init__(self, server: str, version: Any) -> None:
        super().__init__(server, f"it wants to speak the unknown revision {str(version)[:40]!r}")
        self.version = str(version)[:80]


class HttpRpcError(McpError):
    def __init__(self, code: int, message: str, data: Any, status: int) -> None:
        super().__init__(code, message, data)
        self.status = status


def cause_of(error: Exception, otherwise: str = "refused") -> str:
    """The status of an error, or else its kind, in few words: metrics count by them."""
    status = error.status if isinstance(error, UpstreamError | HttpRpcError) else 0
    if status >= 400:
        return f"HTTP {status}"
    if isinstance(error, TimeoutError):
        return "timeout"
    is_lost = isinstance(error, ConnectionLostError | NotReachedError)
    return "not reached" if is_lost and not isinstance(error, StaleSessionError) else otherwise


MAX_EXPIRY_TEXT = 2000
"""A longer text is a real answer that only mentions a session."""

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
    """Whether a text says that a session has expired or is unknown."""
    return len(text) <= MAX_EXPIRY_TEXT and _SAYS.search(text) is not None


def is_refusal(text: str) -> bool:
    """Whether a text begins by saying that the session has expired.

    A tool's own result may mention another session later in the text: that of a browser, or of a shop.
    """
    return says_expired(text) and _SUBJECT.match(text) is not None
