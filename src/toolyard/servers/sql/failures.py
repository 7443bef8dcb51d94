"""What went wrong, told in the language of the server, with what to do."""

from ...databases import DatabaseError
from ...databases.guard import Guarded, Refused
from . import refusals
from .catalogue import Catalogue
from .models import ModelFailed
from .names import named_in, near, unknown_names
from .pipeline import NoAnswer
from .settings import Settings
from .texts import Texts

LONGEST_SQL = 500
MOST_TABLES = 20


class Failures:
    def __init__(self, settings: Settings, texts: Texts, catalogue: Catalogue) -> None:
        self._settings = settings
        self._texts = texts
        self._catalogue = catalogue

    async def told(self, error: Exception, statement: Guarded | None = None) -> str:
        if isinstance(error, Refused):
            return self.refused(error)
        if isinstance(error, DatabaseError):
            return await self._of_database(error, statement)
        if isinstance(error, ModelFailed):
            return f"{self.of_model(error)} {self._texts.instead}"
        if isinstance(error, NoAnswer):
            return self._texts.no_answer.format(reason=error.reason)
        raise error

    def refused(self, error: Refused) -> str:
        reason = refusals.told(error.reason, self._settings.locale)
        if error.place is None:
            return self._texts.refused.format(reason=reason)
        line, column = error.place
        return self._texts.refused_at.format(reason=reason, line=line, column=column)

    def of_model(self, failure: ModelFailed) -> str:
        fault = "busy_for" if failure.fault == "busy" and failure.detail else failure.fault
        words: str = getattr(self._texts, f"model_{fault}")
        return words.format(model=failure.model, detail=failure.detail)

    def written(self, sql: str) -> str:
        """What the model wrote, for whoever wants to mend it."""
        shown = sql if len(sql) <= LONGEST_SQL else sql[: LONGEST_SQL - 1] + "…"
        return self._texts.model_sql.format(sql=shown)

    async def _of_database(self, error: DatabaseError, statement: Guarded | None) -> str:
        if error.kind == "timeout":
            return self._texts.timeout.format(seconds=f"{self._settings.seconds:g}")
        if error.kind == "unknown" and statement is not None:
            return await self._of_unknown(error, statement)
        words: str = getattr(self._texts, error.kind)
        return words.format(reason=error.reason.rstrip(". \n"))

    async def _of_unknown(self, error: DatabaseError, statement: Guarded) -> str:
        missing = named_in(error.reason, await unknown_names(self._catalogue, statement))
        parts: list[str] = []
        for name in missing.tables:
            parts.append(self._texts.unknown_table.format(name=name))
            parts.append(self._likely(name, missing.known_tables) or self.tables(missing.known_tables))
        for name in () if missing.tables else missing.columns:
            parts.append(self._texts.unknown_column.format(name=name, tables=", ".join(statement.tables)))
            parts.append(self._likely(name, missing.known_columns))
        # A function, perhaps: then all there is are the words of the database.
        told = parts or [self._texts.unknown.format(reason=error.reason.rstrip(". \n"))]
        return " ".join(part for part in told if part)

    def _likely(self, name: str, known: tuple[str, ...]) -> str:
        found = near(name, known)
        return self._texts.near.format(names=", ".join(map(repr, found))) if found else ""

    def tables(self, known: tuple[str, ...]) -> str:
        names = ", ".join(known[:MOST_TABLES]) + (", …" if len(known) > MOST_TABLES else "")
        return self._texts.known_tables.format(names=names) if known else ""
