"""One call of the tool: what was asked, answered or explained."""

from ...databases import DatabaseError, Rows
from ...databases.guard import Guarded, Refused
from ...kit import Context, ToolError
from .answers import SHOWN_ROWS, Answer, Reply
from .catalogue import Catalogue
from .dialogues import Anthropic, OpenAi
from .failures import Failures
from .models import ModelFailed, Models
from .pipeline import STEPS_OF_A_ROUND, Found, Pipeline, Unanswered
from .settings import Settings
from .statements import Statements
from .steps import Steps
from .texts import texts_of

LONGEST_QUESTION = 4_000


class Asking:
    def __init__(
        self, settings: Settings, catalogue: Catalogue, statements: Statements, models: Models | None
    ) -> None:
        self._settings = settings
        self._texts = texts_of(settings.locale)
        self._catalogue = catalogue
        self._statements = statements
        self._failures = Failures(settings, self._texts, catalogue)
        self._pipeline = None
        if models is not None:
            self._pipeline = Pipeline(catalogue, statements, models, self._texts, settings.max_rows)

    async def answer(self, ctx: Context, question: str, sql: str) -> Reply:
        """ToolError with what its reader can do."""
        question, sql = question.strip(), sql.strip()
        if bool(question) == bool(sql):
            raise ToolError(self._texts.both if sql else self._texts.neither)
        return await (self._selected(ctx, sql) if sql else self._asked(ctx, question))

    async def _selected(self, ctx: Context, sql: str) -> Reply:
        steps = Steps(ctx, 1)
        statement: Guarded | None = None
        try:
            statement = await self._statements.checked(sql)
            async with steps.step(self._texts.running):
                rows = await self._statements.run(statement, ctx.caller.tenant)
        except (Refused, DatabaseError) as error:
            raise ToolError(await self._failures.told(error, statement)) from None
        await steps.end()
        return self._found(Found(statement, sql, rows), steps)

    async def _asked(self, ctx: Context, question: str) -> Reply:
        if len(question) > LONGEST_QUESTION:
            raise ToolError(self._texts.too_long.format(count=len(question), most=LONGEST_QUESTION))
        if self._pipeline is None:
            raise ToolError(await self._without_model())
        steps = Steps(ctx, 1 + STEPS_OF_A_ROUND)
        try:
            found = await self._pipeline.answer(question, steps, ctx.caller.tenant)
        except (ModelFailed, DatabaseError) as error:
            raise ToolError(await self._failures.told(error)) from None
        except Unanswered as error:
            raise ToolError(await self._unanswered(error)) from None
        await steps.end()
        reply = self._found(found, steps)
        reply.answer.question = question
        reply.answer.steps = steps.taken
        return reply

    def _found(self, found: Found, steps: Steps) -> Reply:
        rows = found.rows
        answer = Answer(
            success=True,
            columns=rows.columns,
            rows=rows.json,
            row_count=rows.count,
            truncated=rows.truncated,
            sql=found.statement.sql,
            original_sql=found.original,
            tables_used=list(found.statement.tables),
            elapsed_ms=steps.elapsed_ms,
        )
        warnings = [*self._doubt(found), *self._cut(rows)]
        if warnings:
            answer.warning = " ".join(warnings)
        return Reply(answer, rows.first(SHOWN_ROWS))

    def _doubt(self, found: Found) -> list[str]:
        if found.doubt is None:
            return []
        return [self._texts.not_evaluated.format(reason=self._failures.of_model(found.doubt))]

    def _cut(self, rows: Rows) -> list[str]:
        if not rows.truncated:
            return []
        by_rows = rows.count >= self._settings.max_rows
        words = self._texts.cut_rows if by_rows else self._texts.cut_bytes
        return [words.format(count=self._texts.whole(rows.count))]

    async def _unanswered(self, error: Unanswered) -> str:
        statement = None
        if isinstance(error.cause, DatabaseError):
            statement = await self._statements.checked(error.sql)  # it has been checked once
        told = await self._failures.told(error.cause, statement)
        return f"{told} {self._failures.written(error.sql)}" if error.sql else told

    async def _without_model(self) -> str:
        try:
            tables = self._failures.tables(tuple(table.name for table in await self._catalogue.tables()))
        except DatabaseError:  # that there is no model is what matters
            tables = ""
        provider = Anthropic if self._settings.provider == "anthropic" else OpenAi
        return self._texts.no_model.format(tables=tables, variable=provider.variable)
