"""What can go wrong between us and an upstream, told apart by what may be done about it.

UpstreamError       -32603, names the server; `data` has `server` and `reason`
├── NotReached      the request never left, or was turned away unread: any call may be tried again
│   ├── Busy        we have too much under way with it: it is not its fault
│   ├── Starting    its program is not ready yet: nobody is kept waiting, and it is not its fault either
│   ├── Stale       our session, or the era we took it for, is not good any more: try again, once
│   └── Down        known to be down: do not even try now
├── Refused         it was reached and will not have us: trying again as we are does not help; `status` is
│                   the HTTP status it said so with, `expired` that it spoke of a session
├── Lost            it left and no answer came: only what may run twice is tried again
├── Late            no answer within the time limit
└── Garbled         the answer is not JSON-RPC

Spoken              a JSON-RPC error in the upstream's own words, which came under an HTTP error's `status`
"""

from typing import Any

from ..telemetry.masking import masked
from ..wire.errors import INTERNAL_ERROR, McpError
from ..wire.text import clean

MAX_REASON = 500


class UpstreamError(McpError):
    """`reason` is a sentence without the server's name, fit for lists and /health."""

    def __init__(self, server: str, reason: str, retry_after: float | None = None) -> None:
        # Reasons are shown to everybody, and may hold an upstream's own words.
        reason = masked(clean(reason))[:MAX_REASON]
        data: dict[str, Any] = {"server": server, "reason": reason}
        if retry_after is not None:
            data["retryAfterMs"] = int(retry_after * 1000)
        super().__init__(INTERNAL_ERROR, f"Server {server!r}: {reason}", data)
        self.server = server
        self.reason = reason
        self.retry_after = retry_after


class NotReached(UpstreamError):
    pass


class Busy(NotReached):
    pass


class Starting(NotReached):
    expected = True
    """A start that takes long is no fault of the call, and is logged by itself."""


class Stale(NotReached):
    expired = False
    """It spoke of a session that is over, which may be another than ours with it."""


class Down(NotReached):
    expected = True
    """That it is down was told when it was found out; the log need not repeat it for every call."""


class Refused(UpstreamError):
    def __init__(self, server: str, reason: str, status: int = 0, expired: bool = False) -> None:
        super().__init__(server, reason)
        self.status = status
        self.expired = expired


class Lost(UpstreamError):
    pass


class Late(UpstreamError, TimeoutError):
    pass


class Garbled(UpstreamError):
    id: int | str | None = None
    """Of the request whose answer it would have been, where that can be told."""


class Spoken(McpError):
    def __init__(self, code: int, message: str, data: Any, status: int) -> None:
        super().__init__(code, message, data)
        self.status = status
