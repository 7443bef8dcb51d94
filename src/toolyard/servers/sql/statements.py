"""One statement: past the guard, then to the database, within the limits of the settings."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial

from ...databases import Database, Rows
from ...databases.guard import Guarded, guarded
from .settings import Settings


class Statements:
    def __init__(
        self,
        database: Database,
        settings: Settings,
        blocked_tables: Sequence[str],
        blocked_columns: Sequence[str],
    ) -> None:
        self._database = database
        self._settings = settings
        self._blocks_columns = bool(blocked_columns)
        self._guard = partial(
            guarded,
            dialect=database.dialect,
            blocked_tables=blocked_tables,
            blocked_columns=blocked_columns,
            # One more than is shown: so that it is known whether there are more.
            limit=settings.max_rows + 1,
        )

    @property
    def dialect(self) -> str:
        return self._database.dialect

    async def checked(self, sql: str) -> Guarded:
        """Refused with a reason for all that is not one statement that reads."""
        known = await self._known() if self._blocks_columns else None
        # In a thread: a long statement of a stranger's takes long to parse.
        return await asyncio.to_thread(self._guard, sql, known=known)

    async def _known(self) -> Mapping[str, Sequence[str]]:
        """Without them `*` could not be told from a blocked column."""
        tables = await self._database.tables()
        return {table.name: [column.name for column in table.columns] for table in tables}

    async def run(self, statement: Guarded, caller: str) -> Rows:
        return await self._database.query(
            statement.sql,
            seconds=self._settings.seconds,
            rows=self._settings.max_rows,
            bytes=self._settings.max_bytes,
            caller=caller,
        )
