"""The query tool, the list of tables as a resource, and the prompt.

Owns one call from its arguments to the answer: the struct, and the Markdown beside it.
"""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from ...databases import DatabaseError, Rows
from ...databases.guard.statement import GuardedStatement
from ...databases.model import StatementRefusedError
from ...kit import Context, Message, Server, ToolError, ToolResult, user
from ...kit.localization import add_localized_tool
from ...kit.schema.annotations import schema_name
from ...languages import Locale
from .catalogue import SqlCatalogue, short_catalogue
from .failures import FailureTexts
from .models import AnthropicApi, FormFillingError, ModelClient, OpenAiApi
from .pipeline import (
    STEPS_OF_A_ROUND,
    GuardedStatements,
    PipelineSteps,
    SqlPipeline,
    SqlResult,
    UnansweredError,
)
from .settings import Settings
from .texts import PROMPT, QUERY_EN, QUERY_PT, SqlTexts, texts_of

SHOWN_ROWS = 20
LONGEST_CELL = 120


@schema_name("Answer")
class SqlAnswer(Struct, kw_only=True):
    """Rows of a database, and how they were found."""

    success: bool
    error: Annotated[None, Meta(description="A call that fails has no structured content")] = None
    query_executed: Annotated[str, Meta(description="The statement as it ran, with its limit")]
    columns: list[str]
    rows: Annotated[
        Raw,
        Meta(
            description="Values in the order of the columns",
            extra_json_schema={"type": "array", "items": {"type": "array"}},
        ),
    ]
    """Already JSON, so that many rows are not encoded again."""
    row_count: int
    truncated: Annotated[bool, Meta(description="Whether there are more rows than these")] = False
    sql: Annotated[str, Meta(description="query_executed, under the name it had in 0.6")] = ""
    original_sql: Annotated[str, Meta(description="The statement as given, or as first written")] = ""
    tables_used: list[str] = []
    execution_time_ms: int = 0
    elapsed_ms: Annotated[int, Meta(description="execution_time_ms, under the name it had in 0.6")] = 0
    warning: str | None = None
    question: str | UnsetType = UNSET
    steps: Annotated[list[str], Meta(description="What was done for a question")] | UnsetType = UNSET


class SqlReply(Struct, frozen=True):
    answer: SqlAnswer
    rows: list[list[Any]]
    """The first rows, for the text."""


def as_result(reply: SqlReply, texts: SqlTexts) -> ToolResult:
    return ToolResult(content=[_readable(reply.answer, reply.rows, texts)], structured=reply.answer)


def _readable(answer: SqlAnswer, rows: list[list[Any]], texts: SqlTexts) -> str:
    count = texts.whole(answer.row_count)
    head = (texts.one_row if answer.row_count == 1 else texts.rows).format(
        count=count, ms=texts.whole(answer.execution_time_ms)
    )
    parts = [head, f"```sql\n{answer.query_executed}\n```"]
    if answer.warning is not None:
        parts.append(f"> {answer.warning}")
    if rows:
        parts.append(_table(answer.columns, rows, texts))
    more = answer.row_count - SHOWN_ROWS
    if more > 0:
        parts.append(texts.more.format(count=texts.whole(more)))
    if answer.tables_used:
        parts.append(texts.tables_used.format(tables=", ".join(answer.tables_used)))
    return "\n\n".join(parts)


def _table(columns: list[str], rows: list[list[Any]], texts: SqlTexts) -> str:
    lines = [_line([_cell(name, texts) for name in columns]), "|" + "---|" * len(columns)]
    return "\n".join([*lines, *(_line([_cell(value, texts) for value in row]) for row in rows)])


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(value: Any, texts: SqlTexts) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return texts.yes if value else texts.no
    if isinstance(value, float):
        return texts.number(value)
    # A value must not end its cell or begin a new row.
    text = " ".join(str(value).split()).replace("\\", "\\\\").replace("|", "\\|")
    return text if len(text) <= LONGEST_CELL else text[: LONGEST_CELL - 1] + "…"


LONGEST_QUESTION = 4_000


class SqlTool:
    def __init__(
        self,
        settings: Settings,
        catalogue: SqlCatalogue,
        statements: GuardedStatements,
        models: ModelClient | None,
    ) -> None:
        self._settings = settings
        self._texts = texts_of(settings.locale)
        self._catalogue = catalogue
        self._statements = statements
        self._failures = FailureTexts(settings, self._texts, catalogue)
        self._pipeline = None
        if models is not None:
            self._pipeline = SqlPipeline(catalogue, statements, models, self._texts, settings.max_rows)

    async def call(self, ctx: Context, question: str, sql: str) -> SqlReply:
        """Raises ToolError with advice for the caller."""
        question, sql = question.strip(), sql.strip()
        if bool(question) == bool(sql):
            raise ToolError(self._texts.both if sql else self._texts.neither)
        return await (self._run_sql(ctx, sql) if sql else self._run_question(ctx, question))

    async def _run_sql(self, ctx: Context, sql: str) -> SqlReply:
        steps = PipelineSteps(ctx, 1)
        statement: GuardedStatement | None = None
        try:
            statement = await self._statements.check(sql)
            async with steps.step(self._texts.running):
                rows = await self._statements.run(statement, ctx.caller.owner)
        except (StatementRefusedError, DatabaseError) as error:
            raise ToolError(await self._failures.explain(error, statement)) from None
        await steps.end()
        return self._reply(SqlResult(statement, sql, rows), steps)

    async def _run_question(self, ctx: Context, question: str) -> SqlReply:
        if len(question) > LONGEST_QUESTION:
            raise ToolError(self._texts.too_long.format(count=len(question), most=LONGEST_QUESTION))
        if self._pipeline is None:
            raise ToolError(await self._no_model_text())
        steps = PipelineSteps(ctx, 1 + STEPS_OF_A_ROUND)
        try:
            found = await self._pipeline.answer(question, steps, ctx.caller.owner)
        except (FormFillingError, DatabaseError) as error:
            raise ToolError(await self._failures.explain(error)) from None
        except UnansweredError as error:
            raise ToolError(await self._failure_text(error)) from None
        await steps.end()
        return self._reply(found, steps, question)

    def _reply(self, found: SqlResult, steps: PipelineSteps, question: str = "") -> SqlReply:
        rows = found.rows
        warnings = [*self._evaluator_warnings(found), *self._cut_warnings(rows)]
        answer = SqlAnswer(
            success=True,
            query_executed=found.statement.sql,
            columns=rows.columns,
            rows=rows.json,
            row_count=rows.count,
            truncated=rows.truncated,
            sql=found.statement.sql,
            original_sql=found.original,
            tables_used=list(found.statement.tables),
            execution_time_ms=(elapsed := steps.elapsed_ms),
            elapsed_ms=elapsed,
            question=question or UNSET,
            steps=steps.durations if question else UNSET,
            warning=" ".join(warnings) or None,
        )
        return SqlReply(answer, rows.first(SHOWN_ROWS))

    def _evaluator_warnings(self, found: SqlResult) -> list[str]:
        if found.evaluator_error is None:
            return []
        return [self._texts.not_evaluated.format(reason=self._failures.model_failure(found.evaluator_error))]

    def _cut_warnings(self, rows: Rows) -> list[str]:
        if not rows.truncated:
            return []
        by_rows = rows.count >= self._settings.max_rows
        words = self._texts.cut_rows if by_rows else self._texts.cut_bytes
        return [words.format(count=self._texts.whole(rows.count))]

    async def _failure_text(self, error: UnansweredError) -> str:
        statement = None
        if isinstance(error.cause, DatabaseError):
            statement = await self._statements.check(error.sql)  # it has passed the guard before
        text = await self._failures.explain(error.cause, statement)
        return f"{text} {self._failures.written_sql(error.sql)}" if error.sql else text

    async def _no_model_text(self) -> str:
        try:
            tables = self._failures.tables(tuple(table.name for table in await self._catalogue.tables()))
        except DatabaseError:  # the missing model matters more
            tables = ""
        provider = AnthropicApi if self._settings.provider == "anthropic" else OpenAiApi
        return self._texts.no_model.format(tables=tables, variable=provider.variable)


TABLES = "sql://tables"


def add_query_tool(server: Server, locale: Locale, tool: SqlTool, catalogue: SqlCatalogue) -> None:
    texts = texts_of(locale)

    async def query(ctx: Context, question: str = "", sql: str = "") -> ToolResult:
        return as_result(await tool.call(ctx, question, sql), texts)

    add_localized_tool(
        server,
        query,
        en=QUERY_EN,
        pt=QUERY_PT,
        output_schema=SqlAnswer,
        read_only=True,
        destructive=False,
        idempotent=True,
        open_world=False,
    )
    _add_tables(server, locale, catalogue)


def _add_tables(server: Server, locale: Locale, catalogue: SqlCatalogue) -> None:
    texts = texts_of(locale)

    async def tables() -> str:
        try:
            return short_catalogue(await catalogue.tables()) or texts.no_tables
        except DatabaseError as error:
            raise ToolError(texts.unreachable.format(reason=error.reason)) from None

    async def explore(topic: Annotated[str, texts.prompt_topic] = "") -> list[Message]:
        text = texts.explore.format(tables=await tables())
        return [user(f"{text}\n\n{texts.explore_topic.format(topic=topic)}" if topic else text)]

    server.add_resource(
        tables,
        TABLES,
        name="tables",
        title=texts.tables_title,
        description=texts.tables_description,
        mime_type="text/plain",
    )
    server.add_prompt(
        explore, name=PROMPT[locale], title=texts.prompt_title, description=texts.prompt_description
    )
