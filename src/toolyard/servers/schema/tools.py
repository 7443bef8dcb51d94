"""The three tools: what they look up, and what they say when that is not there."""

import asyncio
from collections.abc import Sequence

from ...databases import Column, DatabaseError, Table
from ...kit import Image, ToolError, ToolResult
from .answers import Diagram, Line
from .catalogue import Catalogue, Snapshot
from .describing import described
from .diagram import chosen, mermaid
from .names import find, similar
from .texts import Texts
from .values import has_values, values
from .writing import unknown, written, written_diagram, written_values

_LONGEST_NAME = 200
"""Of a name that is said back; longer ones are nobody's."""


class Tools:
    def __init__(self, catalogue: Catalogue, texts: Texts, seconds: float) -> None:
        self._catalogue = catalogue
        self._texts = texts
        self._seconds = seconds

    async def describe(self, table: str = "") -> ToolResult:
        answer = described(await self.look(), table[:_LONGEST_NAME])
        return ToolResult(content=[written(answer, self._texts)], structured=answer)

    async def list_values(self, table: str, column: str) -> ToolResult:
        found = self._table(await self.look(), table)
        wanted = self._column(found, column)
        try:
            answer = await values(self._catalogue.database, found, wanted, self._seconds)
        except DatabaseError as error:
            raise ToolError(self._refused(error, found, wanted)) from None
        return ToolResult(content=[written_values(answer, self._texts)], structured=answer)

    async def draw(self, tables: list[str] = [], image: bool = False) -> ToolResult:  # noqa: B006 (the schema's)
        snapshot = await self.look()
        named = [self._table(snapshot, name).name for name in tables]
        diagram = chosen(snapshot, named)
        if not diagram.tables:
            raise ToolError(self._texts.nothing_to_draw)
        lines = [
            Line(one.table, list(one.columns), one.references, list(one.referenced))
            for one in diagram.relations
        ]
        names = [table.name for table in diagram.tables]
        answer = Diagram(names, lines, mermaid(diagram), diagram.left_out)
        if not image:
            return ToolResult(content=[written_diagram(answer, self._texts, cut=False)], structured=answer)
        from .diagram.picture import draw

        drawn = await asyncio.to_thread(draw, diagram)
        text = written_diagram(answer, self._texts, drawn.cut)
        return ToolResult(content=[text, Image(drawn.png, "image/png")], structured=answer)

    async def look(self) -> Snapshot:
        try:
            return await self._catalogue.snapshot()
        except DatabaseError as error:
            known = {
                "unreachable": self._texts.unreachable,
                "timeout": self._texts.unreachable,
                "unusable": self._texts.unusable,
            }
            said = known.get(error.kind, self._texts.failed)
            raise ToolError(said.format(reason=error.reason)) from None

    # What is not there

    def _table(self, snapshot: Snapshot, name: str) -> Table:
        found = snapshot.find(name)
        if found is None:
            what = self._texts.unknown_table.format(name=name[:_LONGEST_NAME])
            raise ToolError(
                unknown(what, similar(name, snapshot.tables), self._texts.all_tables, self._texts)
            )
        return found

    def _column(self, table: Table, name: str) -> Column:
        columns = {column.name: column for column in table.columns}
        known = find(name, columns)
        if known is None:
            what = self._texts.unknown_column.format(table=table.name, name=name[:_LONGEST_NAME])
            raise ToolError(unknown(what, similar(name, columns), self._texts.all_columns, self._texts))
        if not has_values(columns[known]):
            raise ToolError(self._without_values(table, columns[known], list(columns.values())))
        return columns[known]

    def _without_values(self, table: Table, column: Column, columns: Sequence[Column]) -> str:
        able = ", ".join(one.name for one in columns if has_values(one)) or "-"
        return self._texts.no_values.format(
            table=table.name, column=column.name, type=column.type, names=able
        )

    def _refused(self, error: DatabaseError, table: Table, column: Column) -> str:
        said = {"table": table.name, "column": column.name, "seconds": self._seconds, "reason": error.reason}
        known = {
            "timeout": self._texts.timeout,
            "too_big": self._texts.too_big,
            "unreachable": self._texts.unreachable,
            "unusable": self._texts.unusable,
        }
        return known.get(error.kind, self._texts.failed).format(**said)
