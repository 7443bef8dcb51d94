"""The interface of every source of logs: queries, entries, statuses, notices and errors.

Also the rules that all sources share: levels from words and numbers, services from names, and messages
without terminal escapes and of bounded length.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any, Protocol

from msgspec import Struct

from ...kit.schema.annotations import schema_name

LONGEST_MESSAGE = 4_000
ANY_TYPE = "any"
"""As the type of a query: all types, whatever the source's default."""


@schema_name("Entry")
class LogEntry(Struct, frozen=True):
    """One line of a log, or several that belong together."""

    timestamp: datetime
    level: str
    """debug, info, warning, error, critical, or the log's own word; empty if it has none."""
    type: str
    """app, request or build."""
    service: str
    message: str


@schema_name("Status")
class ServiceStatus(Struct, omit_defaults=True, kw_only=True):
    """The status of a service. Other unknown facts are absent, and `problem` says why."""

    name: str
    ok: bool
    status: str | None
    """State of the last deploy, or of a database; None: not known."""
    last_deploy: datetime | None
    id: str = ""
    type: str = ""
    suspended: bool | None = None
    deploy: str | None = None
    """`status`, under the name it had in 0.6."""
    deployed_at: datetime | None = None
    """`last_deploy`, under the name it had in 0.6."""
    commit: str | None = None
    errors_15min: int | None = None
    errors_has_more: bool = False
    url: str | None = None
    problem: str | None = None


class LogQuery(Struct, frozen=True, kw_only=True):
    """Which entries to return, newest first. Empty: no condition, or the source's default."""

    service: str = ""
    type: str = ""
    level: str = ""
    text: str = ""
    period: timedelta
    limit: int

    def type_or(self, default: str) -> str:
        """The condition on types; empty if there is none."""
        return "" if self.type == ANY_TYPE else self.type or default


class LogResult(Struct, kw_only=True):
    """The result of a query."""

    service: str
    type: str
    entries: list[LogEntry]
    has_more: bool = False
    notices: list["LogNotice"] = []


class LogNotice(Struct, frozen=True):
    """A message by its key in `texts` and its facts, put into words in the caller's language."""

    kind: str
    facts: Mapping[str, Any] = {}


class LogsError(Exception):
    """The query failed; `notice` says why."""

    def __init__(self, kind: str, **facts: Any) -> None:
        super().__init__(kind)
        self.notice = LogNotice(kind, facts)


ReportProgress = Callable[[float, float | None, LogNotice], Awaitable[None]]
"""Reports progress: done, total, and a notice."""


class LogSource(Protocol):
    """A source of logs. Every method may raise LogsError."""

    kind: str
    """render, files or sample."""

    async def logs(self, query: LogQuery, report: ReportProgress) -> LogResult: ...

    async def statuses(
        self, explain: Callable[[LogNotice], str], report: ReportProgress
    ) -> list[ServiceStatus]: ...

    async def names(self) -> list[str]: ...

    async def close(self) -> None: ...


_LEVELS = {
    "trace": "debug", "verbose": "debug", "debug": "debug", "dbg": "debug",
    "info": "info", "information": "info", "notice": "info", "log": "info", "inf": "info",
    "warn": "warning", "warning": "warning", "wrn": "warning",
    "err": "error", "error": "error", "severe": "error", "eror": "error",
    "crit": "critical", "critical": "critical", "fatal": "critical", "alert": "critical",
    "emerg": "critical", "emergency": "critical", "panic": "critical",
}  # fmt: skip
LEVEL_WORDS = frozenset(_LEVELS)
_TENS = ("debug", "debug", "info", "warning", "error", "critical")
_PRIORITIES = ("critical", "critical", "critical", "error", "warning", "info", "info", "debug")


def level_of(value: Any) -> str:
    """Reads a word, or a number of pino or bunyan; returns other values unchanged."""
    if isinstance(value, bool):
        return ""
    if isinstance(value, int | float):
        return _TENS[int(max(10, min(value, 60))) // 10 - 1]
    word = str(value).strip().casefold()[:40] if value is not None else ""
    return _LEVELS.get(word, word)


def level_of_priority(value: Any) -> str:
    """Reads a syslog priority, 0 to 7."""
    text = str(value)
    priority = int(text) if text.isdecimal() and len(text) < 3 else 6
    return _PRIORITIES[min(7, priority)]


def level_of_status(status: int) -> str:
    """The level of an HTTP status."""
    return "error" if status >= 500 else "warning" if status >= 400 else "info"


def is_wanted(level: str, wanted: str) -> bool:
    """Whether an entry has the wanted level; `error` includes `critical`."""
    return not wanted or level == wanted or (wanted == "error" and level == "critical")


MAX_NAMES = 20
ALL_SERVICES = ("all", "todos", "*")
KINDS = {
    "web": "web_service",
    "worker": "background_worker",
    "private": "private_service",
    "cron": "cron_job",
    "static": "static_site",
    "postgres": "postgres",
    "redis": "key_value",
}


class LoggedService(Struct, frozen=True, kw_only=True):
    """A service, database or file with logs."""

    id: str
    name: str
    type: str = ""
    slug: str = ""
    owner: str = ""
    region: str = ""
    suspended: bool | None = None
    url: str | None = None


def choose_services(wanted: str, services: Sequence[LoggedService]) -> list[LoggedService]:
    """Returns the services that a name or kind means, at least one; else raises LogsError."""
    name = wanted.strip()
    folded = name.casefold()
    if folded in ALL_SERVICES:
        return _not_empty(list(services), name)
    for found in (
        [service for service in services if service.id == name],
        [service for service in services if folded in (service.name.casefold(), service.slug.casefold())],
    ):
        if found:
            return found
    kind = KINDS.get(folded, folded)
    if kind in KINDS.values():
        return _not_empty([service for service in services if service.type == kind], name, services)
    raise unknown_service(name, services)


def _not_empty(
    found: list[LoggedService], name: str, among: Sequence[LoggedService] = ()
) -> list[LoggedService]:
    if not found:
        raise LogsError("no_such_kind", name=name, names=_listed([service.name for service in among]))
    return found


def unknown_service(name: str, services: Sequence[LoggedService]) -> LogsError:
    names = sorted({service.name for service in services})
    folded = name.casefold()
    near = [known for known in names if folded and folded in known.casefold()]
    near += [known for known in get_close_matches(name, names, 5, 0.6) if known not in near]
    kind = "unknown_service_near" if near else "unknown_service"
    return LogsError(kind, name=name[:100], near=_listed(near[:5]), names=_listed(names))


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:MAX_NAMES])
    return f"{shown}, …" if len(names) > MAX_NAMES else shown or "-"


LONGEST_NAME = 100

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def clean_message(message: str) -> str:
    """Removes escapes and control characters, and limits the length."""
    cut = message[: 4 * LONGEST_MESSAGE]  # escapes do not count, but their number is limited too
    clean = _CONTROLS.sub("", _ESCAPES.sub("", cut)).rstrip()
    more = max(0, len(clean) - LONGEST_MESSAGE) + len(message) - len(cut)
    return f"{clean[:LONGEST_MESSAGE]}… (+{more})" if more else clean


def clean_label(name: str) -> str:
    """Makes a service name from a file name or log line safe: on one line, and short."""
    spelt = name.encode(errors="surrogateescape").decode(errors="replace")  # file names are bytes
    return " ".join(clean_message(spelt).split())[:LONGEST_NAME]


def has_text(message: str, wanted: str) -> bool:
    """Ignores case; `*` matches anything. Takes linear time."""
    where, folded = 0, message.casefold()
    for piece in wanted.casefold().split("*"):
        found = folded.find(piece, where)
        if found < 0:
            return False
        where = found + len(piece)
    return True
