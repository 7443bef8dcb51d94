"""The three tools: describe a table, list a column's values, draw the relations.

A statement contains only names that the database reported, quoted.
"""

import asyncio
import re
from collections.abc import Sequence

from ...databases import Database, DatabaseError, Table, TableColumn
from ...kit import Image, ToolError, ToolResult
from .answers import (
    ColumnValues,
    Diagram,
    DiagramLine,
    description_text,
    diagram_text,
    table_description,
    unknown_text,
    values_text,
)
from .catalogue import SchemaCatalogue, Snapshot, find, similar
from .diagram import mermaid_text, select_tables
from .texts import SchemaTexts

MAX_VALUES = 50
_BYTES = 64 * 1024
_TEXT = re.compile(r"char|text|string|clob|enum|^set\b|^name$", re.IGNORECASE)
_BOOLEAN = re.compile(r"^bool|^tinyint\(1\)|^bit\(1\)", re.IGNORECASE)


def has_values(column: TableColumn) -> bool:
    """Whether its values can be listed: those of text and boolean columns."""
    # In parentheses are an enumeration's values or a record's fields; `text[]` is a list.
    base = column.type.partition("(")[0]
    is_list = column.type.endswith("]")
    return not is_list and bool(_TEXT.search(base) or _BOOLEAN.match(column.type))


async def distinct_values(
    database: Database, table: Table, column: TableColumn, seconds: float
) -> ColumnValues:
    """Raises DatabaseError, also if it takes too long."""
    # One more than is shown, to learn whether there are more.
    rows = await database.query(
        statement(table, column, database.dialect), seconds=seconds, rows=MAX_VALUES + 1, bytes=_BYTES
    )
    if rows.truncated and not rows.count:
        raise DatabaseError("a single value exceeds the size limit", "too_big")
    found = [_shown(row[0], column) for row in rows.rows]
    return ColumnValues(
        table=table.name,
        field=column.name,
        field_type=column.type,
        value_count=len(found[:MAX_VALUES]),
        values=found[:MAX_VALUES],
        has_more=len(found) > MAX_VALUES or rows.truncated,
    )


def statement(table: Table, column: TableColumn, dialect: str) -> str:
    from sqlglot import exp  # 60 ms of CPU, only for values

    prefix = f"{table.schema}."
    bare = table.name.removeprefix(prefix)
    schema = table.schema if bare != table.name else None
    name = exp.column(column.name, quoted=True)
    return (
        exp.select(name)
        .distinct()
        .from_(exp.table_(bare, db=schema, quoted=True))
        .where(exp.Not(this=exp.Is(this=name.copy(), expression=exp.Null())))
        .order_by(exp.Literal.number(1))
        .limit(MAX_VALUES + 1)
        .sql(dialect=dialect)
    )


def _shown(value: object, column: TableColumn) -> str:
    """SQLite and MySQL store a boolean as a number."""
    if _BOOLEAN.match(column.type):
        return "true" if value in (True, 1, "1", "true", "01") else "false"
    return str(value)


_LONGEST_NAME = 200
"""Characters of an unknown name that an error quotes."""


class SchemaTools:
    def __init__(self, catalogue: SchemaCatalogue, texts: SchemaTexts, seconds: float) -> None:
        self._catalogue = catalogue
        self._texts = texts
        self._seconds = seconds

    async def describe(self, table: str = "") -> ToolResult:
        answer = table_description(await self.snapshot(), table[:_LONGEST_NAME])
        return ToolResult(content=[description_text(answer, self._texts)], structured=answer)

    async def list_values(self, table: str, column: str) -> ToolResult:
        found = self._table(await self.snapshot(), table)
        wanted = self._column(found, column)
        try:
            answer = await distinct_values(self._catalogue.database, found, wanted, self._seconds)
        except DatabaseError as error:
            raise ToolError(self._refused(error, found, wanted)) from None
        return ToolResult(content=[values_text(answer, self._texts)], structured=answer)

    async def draw(self, tables: list[str] = [], image: bool = False) -> ToolResult:  # noqa: B006 (the schema's)
        snapshot = await self.snapshot()
        named = [self._table(snapshot, name).name for name in tables]
        diagram = select_tables(snapshot, named)
        if not diagram.tables:
            raise ToolError(self._texts.nothing_to_draw)
        lines = [
            DiagramLine(one.table, list(one.columns), one.references, list(one.referenced))
            for one in diagram.relations
        ]
        names = [table.name for table in diagram.tables]
        answer = Diagram(names, lines, mermaid_text(diagram), diagram.left_out)
        if not image:
            return ToolResult(content=[diagram_text(answer, self._texts, cut=False)], structured=answer)
        from .diagram.picture import draw

        drawn = await asyncio.to_thread(draw, diagram)
        text = diagram_text(answer, self._texts, drawn.cut)
        return ToolResult(content=[text, Image(drawn.png, "image/png")], structured=answer)

    async def snapshot(self) -> Snapshot:
        try:
            return await self._catalogue.snapshot()
        except DatabaseError as error:
            known = {
                "unreachable": self._texts.unreachable,
                "timeout": self._texts.unreachable,
                "unusable": self._texts.unusable,
            }
            text = known.get(error.kind, self._texts.failed)
            raise ToolError(text.format(reason=error.reason)) from None

    def _table(self, snapshot: Snapshot, name: str) -> Table:
        found = snapshot.find(name)
        if found is None:
            what = self._texts.unknown_table.format(name=name[:_LONGEST_NAME])
            raise ToolError(
                unknown_text(what, similar(name, snapshot.tables), self._texts.all_tables, self._texts)
            )
        return found

    def _column(self, table: Table, name: str) -> TableColumn:
        columns = {column.name: column for column in table.columns}
        known = find(name, columns)
        if known is None:
            what = self._texts.unknown_column.format(table=table.name, name=name[:_LONGEST_NAME])
            raise ToolError(unknown_text(what, similar(name, columns), self._texts.all_columns, self._texts))
        if not has_values(columns[known]):
            raise ToolError(self._without_values(table, columns[known], list(columns.values())))
        return columns[known]

    def _without_values(self, table: Table, column: TableColumn, columns: Sequence[TableColumn]) -> str:
        listable = ", ".join(one.name for one in columns if has_values(one)) or "-"
        return self._texts.no_values.format(
            table=table.name, column=column.name, type=column.type, names=listable
        )

    def _refused(self, error: DatabaseError, table: Table, column: TableColumn) -> str:
        facts = {"table": table.name, "column": column.name, "seconds": self._seconds, "reason": error.reason}
        known = {
            "timeout": self._texts.timeout,
            "too_big": self._texts.too_big,
            "unreachable": self._texts.unreachable,
            "unusable": self._texts.unusable,
        }
        return known.get(error.kind, self._texts.failed).format(**facts)
