"""What the tools answer: the structured form, and the same to read."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct

from ...kit.languages import Locale
from .entries import Entry, Found, Notice, Status
from .texts import said, say


class Logs(Struct, kw_only=True):
    service: str
    period_hours: int
    log_type: Annotated[str, Meta(description="app, request, build, or empty for all")]
    level_filter: str
    text_filter: str
    total_logs: int
    has_more: bool
    entries: Annotated[list[Entry], Meta(description="Newest first")]
    source: Annotated[str, Meta(description="render, files or sample")]
    notices: list[str]


class Errors(Struct, kw_only=True):
    service: str
    period_minutes: int
    total_errors: int
    has_more: bool
    text_filter: str
    entries: Annotated[list[Entry], Meta(description="Newest first")]
    source: Annotated[str, Meta(description="render, files or sample")]
    notices: list[str]


class Services(Struct, kw_only=True):
    services: list[Status]
    source: Annotated[str, Meta(description="render, files or sample")]
    notices: list[str]


def logs_text(locale: Locale, answer: Logs) -> str:
    filters = ", ".join(part for part in (answer.log_type, answer.level_filter, answer.text_filter) if part)
    kind = "logs" if answer.entries else "nothing"
    head = say(locale, kind, count=answer.total_logs, service=answer.service, hours=answer.period_hours)
    head += say(locale, "filters", filters=filters) if filters else ""
    return _text(locale, head, answer.entries, answer.has_more, answer.notices)


def errors_text(locale: Locale, answer: Errors) -> str:
    kind = "errors" if answer.entries else "no_errors"
    head = say(locale, kind, count=answer.total_errors, service=answer.service, minutes=answer.period_minutes)
    head += say(locale, "filters", filters=answer.text_filter) if answer.text_filter else ""
    return _text(locale, head, answer.entries, answer.has_more, answer.notices)


def found_text(locale: Locale, found: Found, hours: int) -> str:
    """As a resource."""
    kind = "logs" if found.entries else "nothing"
    head = say(locale, kind, count=len(found.entries), service=found.service, hours=hours)
    return _text(locale, head, found.entries, found.has_more, spoken(locale, found.notices))


def services_text(locale: Locale, answer: Services) -> str:
    bad = sum(not status.ok for status in answer.services)
    lines = [
        say(locale, "services", count=len(answer.services), bad=bad)
        if answer.services
        else say(locale, "no_services")
    ]
    lines += [_status_line(locale, status) for status in answer.services]
    return "\n".join([*lines, *answer.notices])


def spoken(locale: Locale, notices: Sequence[Notice]) -> list[str]:
    return [said(locale, notice) for notice in notices]


def _text(locale: Locale, head: str, entries: list[Entry], has_more: bool, notices: list[str]) -> str:
    head += say(locale, "more") if has_more else ""
    return "\n".join([head, *notices, *(_entry_line(entry) for entry in entries)])


def _entry_line(entry: Entry) -> str:
    moment = entry.timestamp.isoformat(timespec="seconds").replace("+00:00", "Z")
    message = entry.message.replace("\n", "\n    ")
    return f"{moment} {(entry.level or '-').upper():8} {entry.service} {entry.type}: {message}"


def _status_line(locale: Locale, status: Status) -> str:
    parts = [status.type, status.deploy or "", say(locale, "suspended") if status.suspended else ""]
    if status.errors_15min is not None:
        plus = "+" if status.errors_has_more else ""
        parts.append(say(locale, "error_count", count=status.errors_15min, plus=plus))
    parts += [status.url or "", status.problem or ""]
    return f"{'OK ' if status.ok else '!! '} {status.name}: " + ", ".join(part for part in parts if part)
