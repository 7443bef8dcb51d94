"""What every source of logs takes and gives: queries, entries, statuses, notices and errors.

Also the rules that all sources share: levels from the many words and numbers for them, which services a name
means, and messages without terminal escapes and of bounded length.
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
"""As the type of a query: no condition, whatever the source's default."""


@schema_name("Entry")
class LogEntry(Struct, frozen=True):
    """One line of a log, or several that belong together."""

    timestamp: datetime
    level: str
    """debug, info, warning, error, critical, or what the log says; empty where it says nothing."""
    type: str
    """app, request or build."""
    service: str
    message: str


@schema_name("Status")
class ServiceStatus(Struct, omit_defaults=True, kw_only=True):
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


class LogQuery(Struct, frozen=True, kw_only=True):
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


class LogResult(Struct, kw_only=True):
    """The answer to a query; `notices` are kinds of messages, with their facts."""

    service: str
    type: str
    entries: list[LogEntry]
    has_more: bool = False
    notices: list["LogNotice"] = []


class LogNotice(Struct, frozen=True):
    """Something to say in the caller's language: a key of `texts`, and what belongs into its gaps."""

    kind: str
    facts: Mapping[str, Any] = {}


class LogsError(Exception):
    """No answer; `notice` says why."""

    def __init__(self, kind: str, **facts: Any) -> None:
        super().__init__(kind)
        self.notice = LogNotice(kind, facts)


ReportProgress = Callable[[float, float | None, LogNotice], Awaitable[None]]
"""How far a source has come: done, of how much, in words."""


class LogSource(Protocol):
    """Where logs come from. Every method raises LogsError."""

    kind: str
    """render, files or sample."""

    async def logs(self, query: LogQuery, tell: ReportProgress) -> LogResult: ...

    async def statuses(
        self, say: Callable[[LogNotice], str], tell: ReportProgress
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
    """A level by a word, or by pino's and bunyan's numbers; as it is when it is neither."""
    if isinstance(value, bool):
        return ""
    if isinstance(value, int | float):
        return _TENS[int(max(10, min(value, 60))) // 10 - 1]
    word = str(value).strip().casefold()[:40] if value is not None else ""
    return _LEVELS.get(word, word)


def level_of_priority(value: Any) -> str:
    """A level by syslog's numbers, 0 to 7."""
    text = str(value)
    priority = int(text) if text.isdecimal() and len(text) < 3 else 6
    return _PRIORITIES[min(7, priority)]


def level_of_status(status: int) -> str:
    """How bad an HTTP status is."""
    return "error" if status >= 500 else "warning" if status >= 400 else "info"


def is_wanted(level: str, wanted: str) -> bool:
    """Whoever wants errors wants what is worse as well."""
    return not wanted or level == wanted or (wanted == "error" and level == "critical")


MOST_NAMES = 20
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
    """Something that has logs."""

    id: str
    name: str
    type: str = ""
    slug: str = ""
    owner: str = ""
    region: str = ""
    suspended: bool | None = None
    url: str | None = None


def chosen(wanted: str, services: Sequence[LoggedService]) -> list[LoggedService]:
    """Those that are meant, one at least; LogsError `unknown_service` or `no_such_kind`."""
    name = wanted.strip()
    folded = name.casefold()
    if folded in ALL_SERVICES:
        return _some(list(services), name)
    for found in (
        [service for service in services if service.id == name],
        [service for service in services if folded in (service.name.casefold(), service.slug.casefold())],
    ):
        if found:
            return found
    kind = KINDS.get(folded, folded)
    if kind in KINDS.values():
        return _some([service for service in services if service.type == kind], name, services)
    raise unknown_service(name, services)


def _some(found: list[LoggedService], name: str, among: Sequence[LoggedService] = ()) -> list[LoggedService]:
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
    shown = ", ".join(repr(name) for name in names[:MOST_NAMES])
    return f"{shown}, …" if len(names) > MOST_NAMES else shown or "-"


LONGEST_NAME = 100

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def clean_message(message: str) -> str:
    """Without escapes and control characters, and cut where it is very long."""
    cut = message[: 4 * LONGEST_MESSAGE]  # escapes are not counted, but a message of nothing else has an end
    clean = _CONTROLS.sub("", _ESCAPES.sub("", cut)).rstrip()
    more = max(0, len(clean) - LONGEST_MESSAGE) + len(message) - len(cut)
    return f"{clean[:LONGEST_MESSAGE]}… (+{more})" if more else clean


def clean_label(name: str) -> str:
    """The name of a service, which a file or a line in it may have made up: on one line, and short."""
    spelt = name.encode(errors="surrogateescape").decode(errors="replace")  # names of files are bytes
    return " ".join(clean_message(spelt).split())[:LONGEST_NAME]


def has_text(message: str, wanted: str) -> bool:
    """Upper and lower case are the same; `*` stands for anything. Linear, whatever is asked."""
    where, folded = 0, message.casefold()
    for piece in wanted.casefold().split("*"):
        found = folded.find(piece, where)
        if found < 0:
            return False
        where = found + len(piece)
    return True
