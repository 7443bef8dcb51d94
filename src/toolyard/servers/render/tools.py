"""The three tools, a resource and a prompt, for any source of logs.

Owns the results: the structs, and the text beside them.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from ...kit import Context, Message, Server, ToolError, ToolResult, user
from ...kit.localization import add_localized_tool
from ...kit.schema.validation import schema_of
from ...languages import Locale
from .model import (
    ANY_TYPE,
    LogEntry,
    LogNotice,
    LogQuery,
    LogResult,
    LogsError,
    LogSource,
    ReportProgress,
    ServiceStatus,
)
from .texts import ERRORS, LOGS, STATUS, message, notice_text


class Logs(Struct, kw_only=True):
    service: str
    period_hours: int
    log_type: Annotated[str, Meta(description="app, request, build, or empty for all")]
    level_filter: str
    text_filter: str
    total_logs: int
    has_more: bool
    logs: Annotated[list[LogEntry], Meta(description="Newest first")]
    entries: Annotated[list[LogEntry], Meta(description="logs, under the name it had in 0.6")]
    source: Annotated[str, Meta(description="render, files or sample")]
    notices: list[str]


class Errors(Struct, kw_only=True):
    service: str
    period_minutes: int
    total_errors: int
    has_more: bool
    text_filter: str
    entries: Annotated[list[LogEntry], Meta(description="Newest first")]
    source: Annotated[str, Meta(description="render, files or sample")]
    notices: list[str]


class Services(Struct, kw_only=True):
    services: list[ServiceStatus]
    source: Annotated[str, Meta(description="render, files or sample")]
    notices: list[str]


def logs_text(locale: Locale, answer: Logs) -> str:
    filters = ", ".join(part for part in (answer.log_type, answer.level_filter, answer.text_filter) if part)
    kind = "logs" if answer.logs else "nothing"
    head = message(locale, kind, count=answer.total_logs, service=answer.service, hours=answer.period_hours)
    head += message(locale, "filters", filters=filters) if filters else ""
    return _text(locale, head, answer.logs, answer.has_more, answer.notices)


def errors_text(locale: Locale, answer: Errors) -> str:
    kind = "errors" if answer.entries else "no_errors"
    head = message(
        locale, kind, count=answer.total_errors, service=answer.service, minutes=answer.period_minutes
    )
    head += message(locale, "filters", filters=answer.text_filter) if answer.text_filter else ""
    return _text(locale, head, answer.entries, answer.has_more, answer.notices)


def found_text(locale: Locale, found: LogResult, hours: int) -> str:
    """The text of the resource."""
    kind = "logs" if found.entries else "nothing"
    head = message(locale, kind, count=len(found.entries), service=found.service, hours=hours)
    return _text(locale, head, found.entries, found.has_more, notice_texts(locale, found.notices))


def services_text(locale: Locale, answer: Services) -> str:
    bad = sum(not status.ok for status in answer.services)
    lines = [
        message(locale, "services", count=len(answer.services), bad=bad)
        if answer.services
        else message(locale, "no_services")
    ]
    lines += [_status_line(locale, status) for status in answer.services]
    return "\n".join([*lines, *answer.notices])


def notice_texts(locale: Locale, notices: Sequence[LogNotice]) -> list[str]:
    return [notice_text(locale, notice) for notice in notices]


def _text(locale: Locale, head: str, entries: list[LogEntry], has_more: bool, notices: list[str]) -> str:
    head += message(locale, "more") if has_more else ""
    return "\n".join([head, *notices, *(_entry_line(entry) for entry in entries)])


def _entry_line(entry: LogEntry) -> str:
    moment = entry.timestamp.isoformat(timespec="seconds").replace("+00:00", "Z")
    message = entry.message.replace("\n", "\n    ")
    return f"{moment} {(entry.level or '-').upper():8} {entry.service} {entry.type}: {message}"


def _status_line(locale: Locale, status: ServiceStatus) -> str:
    parts = [status.type, status.status or "", message(locale, "suspended") if status.suspended else ""]
    if status.errors_15min is not None:
        plus = "+" if status.errors_has_more else ""
        parts.append(message(locale, "error_count", count=status.errors_15min, plus=plus))
    parts += [status.url or "", status.problem or ""]
    return f"{'OK ' if status.ok else '!! '} {status.name}: " + ", ".join(part for part in parts if part)


MAX_ERRORS = 50
RESOURCE = "render://logs/{service}"


class RenderTools:
    def __init__(self, source: LogSource, locale: Locale) -> None:
        self._source = source
        self._locale: Locale = locale

    async def search_logs(
        self,
        ctx: Context,
        text: str = "",
        service: str = "",
        type: Literal["app", "request", "build", ""] = "",
        level: Literal["error", "warning", "info", ""] = "",
        hours: Annotated[int, Meta(ge=1, le=24)] = 1,
        limit: Annotated[int, Meta(ge=1, le=100)] = 50,
    ) -> ToolResult:
        query = LogQuery(
            service=service, type=type, level=level, text=text, period=timedelta(hours=hours), limit=limit
        )
        try:
            found = await self._source.logs(query, self._report(ctx))
        except LogsError as error:
            raise ToolError(notice_text(self._locale, error.notice)) from None
        answer = Logs(
            service=found.service,
            period_hours=hours,
            log_type=found.type,
            level_filter=level,
            text_filter=text,
            total_logs=len(found.entries),
            has_more=found.has_more,
            logs=found.entries,
            entries=found.entries,
            source=self._source.kind,
            notices=notice_texts(self._locale, found.notices),
        )
        return ToolResult(content=[logs_text(self._locale, answer)], structured=answer)

    async def find_errors(
        self,
        ctx: Context,
        service: str = "",
        minutes: Annotated[int, Meta(ge=5, le=120)] = 30,
        text: str = "",
    ) -> ToolResult:
        query = LogQuery(
            service=service,
            type=ANY_TYPE,
            level="error",
            text=text,
            period=timedelta(minutes=minutes),
            limit=MAX_ERRORS,
        )
        try:
            found = await self._source.logs(query, self._report(ctx))
        except LogsError as error:
            raise ToolError(notice_text(self._locale, error.notice)) from None
        answer = Errors(
            service=found.service,
            period_minutes=minutes,
            total_errors=len(found.entries),
            has_more=found.has_more,
            text_filter=text,
            entries=found.entries,
            source=self._source.kind,
            notices=notice_texts(self._locale, found.notices),
        )
        return ToolResult(content=[errors_text(self._locale, answer)], structured=answer)

    async def service_status(self, ctx: Context) -> ToolResult:
        try:
            statuses = await self._source.statuses(self._explain, self._report(ctx))
        except LogsError as error:
            raise ToolError(self._explain(error.notice)) from None
        notices = [message(self._locale, "sample")] if self._source.kind == "sample" else []
        answer = Services(services=statuses, source=self._source.kind, notices=notices)
        return ToolResult(content=[services_text(self._locale, answer)], structured=answer)

    async def recent(self, service: str) -> str:
        """The resource: the last hour of a service."""
        try:
            found = await self._source.logs(
                LogQuery(service=service, type=ANY_TYPE, period=timedelta(hours=1), limit=100), _silent
            )
        except LogsError as error:
            raise ToolError(self._explain(error.notice)) from None
        return found_text(self._locale, found, 1)

    async def complete(self, value: str, context: dict[str, str]) -> list[str]:
        try:
            names = await self._source.names()
        except LogsError:
            return []
        return [name for name in names if value.casefold() in name.casefold()]

    def investigate(self, service: str) -> list[Message]:
        return [user(message(self._locale, "investigate", service=service))]

    def _explain(self, notice: LogNotice) -> str:
        return notice_text(self._locale, notice)

    def _report(self, ctx: Context) -> ReportProgress:
        furthest = 0.0

        async def report(done: float, total: float | None, notice: LogNotice) -> None:
            """Reports only growing progress, also when several requests run at once."""
            nonlocal furthest
            if done > furthest:
                furthest = done
                await ctx.report_progress(done, total, self._explain(notice))

        return report


async def _silent(done: float, total: float | None, notice: LogNotice) -> None:
    """A resource has no progress."""


def add_tools(server: Server, source: LogSource, locale: Locale) -> None:
    tools = RenderTools(source, locale)
    for function, localized, form in (
        (tools.search_logs, LOGS, Logs),
        (tools.find_errors, ERRORS, Errors),
        (tools.service_status, STATUS, Services),
    ):
        add_localized_tool(
            server,
            function,
            en=localized["en"],
            pt=localized["pt"],
            read_only=True,
            destructive=False,
            idempotent=True,
            open_world=True,
            output_schema=schema_of(form),
        )
    _add_resource(server, tools, locale)
    _add_prompt(server, tools, locale)


def _add_resource(server: Server, tools: RenderTools, locale: Locale) -> None:
    titles = {"en": "The last hour of a service's logs", "pt": "A última hora dos logs de um serviço"}
    server.add_resource(
        tools.recent,
        RESOURCE,
        name="logs",
        title=titles[locale],
        description=titles[locale],
        mime_type="text/plain",
    )
    server.completion(resource=RESOURCE, argument="service")(tools.complete)


def _add_prompt(server: Server, tools: RenderTools, locale: Locale) -> None:
    arguments = {"en": "The service to investigate", "pt": "O serviço a examinar"}

    async def investigate(service: Annotated[str, arguments[locale]]) -> Any:
        return tools.investigate(service)

    names = {"en": "investigate_service", "pt": "investigar_servico"}
    titles = {"en": "What is wrong with a service", "pt": "O que há de errado com um serviço"}
    server.add_prompt(investigate, name=names[locale], title=titles[locale], description=titles[locale])
    server.completion(prompt=names[locale], argument="service")(tools.complete)
