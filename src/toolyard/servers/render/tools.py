"""The three tools, a resource and a prompt, on whatever source there is."""

from datetime import timedelta
from typing import Annotated, Any, Literal

from msgspec import Meta

from ...kit import Context, Message, Server, ToolError, ToolResult, user
from ...kit.languages import Locale, add_tool
from ...kit.schema import schema_of
from .answers import Errors, Logs, Services, errors_text, found_text, logs_text, services_text, spoken
from .entries import ANY_TYPE, LogsError, Notice, Query, Source, Tell
from .faces import ERRORS, LOGS, STATUS
from .texts import said, say

MOST_ERRORS = 50
RESOURCE = "render://logs/{service}"


class Tools:
    def __init__(self, source: Source, locale: Locale) -> None:
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
        query = Query(
            service=service, type=type, level=level, text=text, period=timedelta(hours=hours), limit=limit
        )
        try:
            found = await self._source.logs(query, self._tell(ctx))
        except LogsError as error:
            raise ToolError(said(self._locale, error.notice)) from None
        answer = Logs(
            service=found.service,
            period_hours=hours,
            log_type=found.type,
            level_filter=level,
            text_filter=text,
            total_logs=len(found.entries),
            has_more=found.has_more,
            entries=found.entries,
            source=self._source.kind,
            notices=spoken(self._locale, found.notices),
        )
        return ToolResult(content=[logs_text(self._locale, answer)], structured=answer)

    async def find_errors(
        self,
        ctx: Context,
        service: str = "",
        minutes: Annotated[int, Meta(ge=5, le=120)] = 30,
        text: str = "",
    ) -> ToolResult:
        query = Query(
            service=service,
            type=ANY_TYPE,
            level="error",
            text=text,
            period=timedelta(minutes=minutes),
            limit=MOST_ERRORS,
        )
        try:
            found = await self._source.logs(query, self._tell(ctx))
        except LogsError as error:
            raise ToolError(said(self._locale, error.notice)) from None
        answer = Errors(
            service=found.service,
            period_minutes=minutes,
            total_errors=len(found.entries),
            has_more=found.has_more,
            text_filter=text,
            entries=found.entries,
            source=self._source.kind,
            notices=spoken(self._locale, found.notices),
        )
        return ToolResult(content=[errors_text(self._locale, answer)], structured=answer)

    async def service_status(self, ctx: Context) -> ToolResult:
        try:
            statuses = await self._source.statuses(self._say, self._tell(ctx))
        except LogsError as error:
            raise ToolError(self._say(error.notice)) from None
        notices = [say(self._locale, "sample")] if self._source.kind == "sample" else []
        answer = Services(services=statuses, source=self._source.kind, notices=notices)
        return ToolResult(content=[services_text(self._locale, answer)], structured=answer)

    async def recent(self, service: str) -> str:
        """The resource: the last hour of a service."""
        try:
            found = await self._source.logs(
                Query(service=service, type=ANY_TYPE, period=timedelta(hours=1), limit=100), _silent
            )
        except LogsError as error:
            raise ToolError(self._say(error.notice)) from None
        return found_text(self._locale, found, 1)

    async def complete(self, value: str, context: dict[str, str]) -> list[str]:
        try:
            names = await self._source.names()
        except LogsError:
            return []
        return [name for name in names if value.casefold() in name.casefold()]

    def investigate(self, service: str) -> list[Message]:
        return [user(say(self._locale, "investigate", service=service))]

    def _say(self, notice: Notice) -> str:
        return said(self._locale, notice)

    def _tell(self, ctx: Context) -> Tell:
        furthest = 0.0

        async def tell(done: float, total: float | None, notice: Notice) -> None:
            """Progress only ever grows, also where several are asked side by side."""
            nonlocal furthest
            if done > furthest:
                furthest = done
                await ctx.report_progress(done, total, self._say(notice))

        return tell


async def _silent(done: float, total: float | None, notice: Notice) -> None:
    """Nobody follows how far a resource has come."""


def declare(server: Server, source: Source, locale: Locale) -> None:
    tools = Tools(source, locale)
    for function, faces, form in (
        (tools.search_logs, LOGS, Logs),
        (tools.find_errors, ERRORS, Errors),
        (tools.service_status, STATUS, Services),
    ):
        add_tool(
            server,
            locale,
            function,
            en=faces["en"],
            pt=faces["pt"],
            read_only=True,
            destructive=False,
            idempotent=True,
            open_world=True,
            output_schema=schema_of(form),
        )
    _declare_resource(server, tools, locale)
    _declare_prompt(server, tools, locale)


def _declare_resource(server: Server, tools: Tools, locale: Locale) -> None:
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


def _declare_prompt(server: Server, tools: Tools, locale: Locale) -> None:
    arguments = {"en": "The service to look at", "pt": "O serviço a examinar"}

    async def investigate(service: Annotated[str, arguments[locale]]) -> Any:
        return tools.investigate(service)

    names = {"en": "investigate_service", "pt": "investigar_servico"}
    titles = {"en": "What is wrong with a service", "pt": "O que há de errado com um serviço"}
    server.add_prompt(investigate, name=names[locale], title=titles[locale], description=titles[locale])
    server.completion(prompt=names[locale], argument="service")(tools.complete)
