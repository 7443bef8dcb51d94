"""What every source of logs gives, and what it is asked for."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Protocol

from msgspec import Struct

LONGEST_MESSAGE = 4_000
ANY_TYPE = "any"
"""As the type of a query: no condition, whatever the source's default."""


class Entry(Struct, frozen=True):
    """One line of a log, or several that belong together."""

    timestamp: datetime
    level: str
    """debug, info, warning, error, critical, or what the log says; empty where it says nothing."""
    type: str
    """app, request or build."""
    service: str
    message: str


class Status(Struct, omit_defaults=True, kw_only=True):
    """How one service is. What could not be learnt is absent, and `problem` says why."""

    name: str
    ok: bool
    id: str = ""
    type: str = ""
    suspended: bool | None = None
    deploy: str | None = None
    """State of the last deploy, or of a database."""
    deployed_at: datetime | None = None
    commit: str | None = None
    errors_15min: int | None = None
    errors_has_more: bool = False
    url: str | None = None
    problem: str | None = None


class Query(Struct, frozen=True, kw_only=True):
    """Which entries are wanted, newest first. Empty: no such condition, or the source's own default."""

    service: str = ""
    type: str = ""
    level: str = ""
    text: str = ""
    period: timedelta
    limit: int

    def type_or(self, default: str) -> str:
        """The condition on types; empty when there is none."""
        return "" if self.type == ANY_TYPE else self.type or default


class Found(Struct, kw_only=True):
    """The answer to a query; `notices` are kinds of messages, with their facts."""

    service: str
    type: str
    entries: list[Entry]
    has_more: bool = False
    notices: list["Notice"] = []


class Notice(Struct, frozen=True):
    """Something to say in the caller's language: a key of `texts`, and what belongs into its gaps."""

    kind: str
    facts: Mapping[str, Any] = {}


class LogsError(Exception):
    """No answer; `notice` says why."""

    def __init__(self, kind: str, **facts: Any) -> None:
        super().__init__(kind)
        self.notice = Notice(kind, facts)


Tell = Callable[[float, float | None, Notice], Awaitable[None]]
"""How far a source has come: done, of how much, in words."""


class Source(Protocol):
    """Where logs come from. Every method raises LogsError."""

    kind: str
    """render, files or sample."""

    async def logs(self, query: Query, tell: Tell) -> Found: ...

    async def statuses(self, say: Callable[[Notice], str], tell: Tell) -> list[Status]: ...

    async def names(self) -> list[str]: ...

    async def close(self) -> None: ...
