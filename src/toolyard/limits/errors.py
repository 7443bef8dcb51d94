"""What a caller is told who may not call now.

McpError
├── LimitExceededError      -32029  a limit is reached; under HTTP 429
└── LimitsUnavailableError  -32603  limits cannot be counted, and the configuration wants them; under HTTP 503
"""

import math
from datetime import UTC, datetime
from typing import Any

from ..languages import said
from ..wire.errors import INTERNAL_ERROR, LIMIT_EXCEEDED, McpError


class LimitExceededError(McpError):
    def __init__(
        self, limit: str, text: str, scope: str, retry_after: float, resets_at: float | None = None
    ) -> None:
        """`limit` is the rule's name, if it has one; `resets_at` is in seconds since 1970, if it is known."""
        self.limit = limit
        self.retry_after = max(1, math.ceil(retry_after))
        data: dict[str, Any] = {"limit": limit or text, "scope": scope, "retry_after": self.retry_after}
        wait = format_duration(self.retry_after)
        if limit:
            named = said(f"limit {limit!r} reached", f"limite {limit!r} atingido")
        else:
            named = said("limit reached", "limite atingido")
        message = said(
            f"{named}: {text} for {scope}; try again in {wait}",
            f"{named}: {text} para {scope}; tente de novo em {wait}",
        )
        if resets_at is not None:
            # Rounded up, so that who comes then is not early.
            data["resets_at"] = format_time(math.ceil(resets_at))
            at = data["resets_at"]
            message += said(f", at {at}", f", às {at}")
        super().__init__(LIMIT_EXCEEDED, message[:1].upper() + message[1:], data)

    @property
    def http_status(self) -> int:
        return 429

    @property
    def http_headers(self) -> list[tuple[bytes, bytes]]:
        return [(b"retry-after", b"%d" % self.retry_after)]


class LimitsUnavailableError(McpError):
    """Says nothing about the store; the log does."""

    def __init__(self, retry_after: float) -> None:
        self.retry_after = max(1, math.ceil(retry_after))
        wait = format_duration(self.retry_after)
        super().__init__(
            INTERNAL_ERROR,
            said(
                "This gateway cannot count calls just now, and it has limits that must be counted; "
                f"try again in {wait}",
                "Este gateway não pode contar chamadas agora, e há limites que precisam ser contados; "
                f"tente de novo em {wait}",
            ),
            {"retry_after": self.retry_after},
        )

    @property
    def http_status(self) -> int:
        return 503

    @property
    def http_headers(self) -> list[tuple[bytes, bytes]]:
        return [(b"retry-after", b"%d" % self.retry_after)]


def format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_duration(seconds: float) -> str:
    """`45 s`, `3 min`, `6 h 12 min`, `12 days`."""
    whole = max(1, math.ceil(seconds))
    if whole < 120:
        return f"{whole} s"
    minutes = math.ceil(whole / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days = math.ceil(whole / 86400)
    return said(f"{days} days", f"{days} dias")
