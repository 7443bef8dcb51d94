"""From a question to rows: generator, tables, evaluator, safety, executor.

What a model writes is a stranger's text: it runs only when the guard lets it. What went wrong is told to it
once, in our words, because those of the database may hold values of rows.
"""

from collections.abc import Sequence
from typing import TypeVar

import msgspec
from msgspec import Struct

from ...databases import DatabaseError, ErrorKind, Rows, Table
from ...databases.guard import Guarded, Refused
from .catalogue import Catalogue, detailed, light
from .instructions import DRAFT, EVALUATOR, GENERATOR, VERDICT, Complaint, Draft, Verdict, asked, judged
from .models import ModelFailed, Models
from .names import unknown_names
from .statements import Statements
from .steps import Steps
from .texts import Texts

T = TypeVar("T")

ROUNDS = 2
STEPS_OF_A_ROUND = 4
LONGEST_REASON = 300
_MENDABLE: dict[ErrorKind, str] = {
    "unknown": "it names a table, column or function that does not exist",
    "syntax": "the database does not understand it",
    "memory": "it needs more memory than it may take",
    "other": "the database answered with an error, such as values of types that do not fit",
}


class NoAnswer(Exception):
    """The models found no statement."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = " ".join(reason.split())[:LONGEST_REASON]


class Unanswered(Exception):
    """The last statement failed as well."""

    def __init__(self, sql: str, cause: Exception) -> None:
        super().__init__(str(cause))
        self.sql = sql
        self.cause = cause


class Found(Struct, frozen=True):
    statement: Guarded
    original: str
    rows: Rows
    doubt: ModelFailed | None = None
    """Why the evaluator has not looked at it."""


class Pipeline:
    def __init__(
        self, catalogue: Catalogue, statements: Statements, models: Models, texts: Texts, max_rows: int
    ) -> None:
        self._catalogue = catalogue
        self._statements = statements
        self._models = models
        self._texts = texts
        self._rules = {"dialect": statements.dialect, "rows": max_rows}

    async def answer(self, question: str, steps: Steps, caller: str) -> Found:
        """ModelFailed, DatabaseError or Unanswered when there is none."""
        async with steps.step(self._texts.reading):
            tables = await self._catalogue.tables()
        complaint: Complaint | None = None
        for _ in range(ROUNDS):
            try:
                return await self._attempt(question, tables, complaint, steps, caller)
            except Complaint as found:
                complaint = found
                steps.expect(STEPS_OF_A_ROUND)
        assert complaint is not None
        raise Unanswered(complaint.sql, complaint.cause)

    async def _attempt(
        self,
        question: str,
        tables: Sequence[Table],
        complaint: Complaint | None,
        steps: Steps,
        caller: str,
    ) -> Found:
        async with steps.step(self._texts.writing if complaint is None else self._texts.writing_again):
            draft = await self._written(question, tables, complaint)
            used = (await self._checked(draft)).tables
        async with steps.step(self._texts.evaluating):
            sql, doubt = await self._evaluated(question, draft, used)
        async with steps.step(self._texts.checking):
            statement = await self._checked(sql)
        async with steps.step(self._texts.running):
            return Found(statement, draft, await self._run(sql, statement, caller), doubt)

    async def _written(self, question: str, tables: Sequence[Table], complaint: Complaint | None) -> str:
        system = GENERATOR.format(**self._rules)
        filled = await self._models.fill(DRAFT, system, asked(question, light(tables), complaint))
        draft = _typed(filled, Draft) or Draft()
        if not draft.sql.strip():
            raise Unanswered("", NoAnswer(draft.reason or "-"))
        return draft.sql.strip()

    async def _evaluated(
        self, question: str, draft: str, used: Sequence[str]
    ) -> tuple[str, ModelFailed | None]:
        """The statement to run. One that nobody could look at runs all the same: safety is the guard's."""
        schema = detailed(await self._catalogue.among(used))
        try:
            filled = await self._models.fill(
                VERDICT, EVALUATOR.format(**self._rules), judged(question, draft, schema)
            )
        except ModelFailed as failure:
            return draft, failure
        verdict = _typed(filled, Verdict)
        if verdict is None:
            return draft, ModelFailed("", "unreadable")
        if verdict.approved:
            return draft, None
        if verdict.improved_sql and verdict.improved_sql.strip():
            return verdict.improved_sql.strip(), None
        reason = verdict.reason[:LONGEST_REASON] or "-"
        raise Complaint(draft, reason, NoAnswer(reason))

    async def _checked(self, sql: str) -> Guarded:
        try:
            return await self._statements.checked(sql)
        except Refused as error:
            raise Complaint(sql, f"it was refused: {error.reason}", error) from None

    async def _run(self, sql: str, statement: Guarded, caller: str) -> Rows:
        try:
            return await self._statements.run(statement, caller)
        except DatabaseError as error:
            words = _MENDABLE.get(error.kind)
            if words is None:
                raise Unanswered(sql, error) from None
            if error.kind == "unknown":
                words += await self._unknown(statement)
            raise Complaint(sql, words, error) from None

    async def _unknown(self, statement: Guarded) -> str:
        missing = await unknown_names(self._catalogue, statement)
        schema = detailed(await self._catalogue.among(statement.tables))
        names = ", ".join((*missing.tables, *missing.columns))
        return f": {names}. The schema of its tables:\n{schema}"


def _typed(filled: object, kind: type[T]) -> T | None:
    try:
        return msgspec.convert(filled, kind, strict=False)
    except msgspec.ValidationError:
        return None
