"""The distinct values of a column, asked for with names that are the database's own, and quoted."""

import re

from ...databases import Column, Database, DatabaseError, Table
from .answers import Values

MOST = 50
_BYTES = 64 * 1024
_TEXT = re.compile(r"char|text|string|clob|enum|^set\b|^name$", re.IGNORECASE)
_BOOLEAN = re.compile(r"^bool|^tinyint\(1\)|^bit\(1\)", re.IGNORECASE)


def has_values(column: Column) -> bool:
    """Whether its values are words: only those of text and boolean columns are worth a list."""
    # What is in brackets belongs to an enumeration, or to a record that has text in it; `text[]` is a list.
    base = column.type.partition("(")[0]
    is_list = column.type.endswith("]")
    return not is_list and bool(_TEXT.search(base) or _BOOLEAN.match(column.type))


async def values(database: Database, table: Table, column: Column, seconds: float) -> Values:
    """Raises DatabaseError, also when it takes too long."""
    # One more than are shown tells whether there are more.
    rows = await database.query(
        statement(table, column, database.dialect), seconds=seconds, rows=MOST + 1, bytes=_BYTES
    )
    if rows.truncated and not rows.count:
        raise DatabaseError("not even one value fits", "too_big")
    found = [_shown(row[0], column) for row in rows.rows]
    return Values(
        table=table.name,
        field=column.name,
        field_type=column.type,
        value_count=len(found[:MOST]),
        values=found[:MOST],
        has_more=len(found) > MOST or rows.truncated,
    )


def statement(table: Table, column: Column, dialect: str) -> str:
    from sqlglot import exp  # 60 ms of CPU, when the first values are asked for

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
        .limit(MOST + 1)
        .sql(dialect=dialect)
    )


def _shown(value: object, column: Column) -> str:
    """SQLite and MySQL keep a boolean as a number."""
    if _BOOLEAN.match(column.type):
        return "true" if value in (True, 1, "1", "true", "01") else "false"
    return str(value)
