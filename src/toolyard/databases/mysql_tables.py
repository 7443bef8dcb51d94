"""What tables a MySQL database has, from its information schema."""

from collections import defaultdict
from typing import Any

from pymysql.connections import Connection
from pymysql.cursors import Cursor

from .model import Column, ForeignKey, Index, Table

_TABLES = """
SELECT table_schema, table_name, table_type = 'VIEW', table_comment, table_rows FROM information_schema.tables
WHERE table_schema NOT IN ('mysql', 'information_schema', 'performance_schema', 'sys')
ORDER BY table_schema <> coalesce(database(), ''), table_schema, table_name
"""
_COLUMNS = """
SELECT table_schema, table_name, column_name, column_type, is_nullable = 'YES', column_default, column_comment
FROM information_schema.columns ORDER BY ordinal_position
"""
_KEYS = """
SELECT table_schema, table_name, constraint_name, column_name, referenced_table_schema, referenced_table_name,
       referenced_column_name
FROM information_schema.key_column_usage
WHERE constraint_name = 'PRIMARY' OR referenced_table_name IS NOT NULL
ORDER BY constraint_name, ordinal_position
"""
_INDICES = """
SELECT table_schema, table_name, index_name, coalesce(column_name, '(expression)'), non_unique
FROM information_schema.statistics ORDER BY index_name, seq_in_index
"""

Found = dict[tuple[str, str], list[tuple[Any, ...]]]


def look(line: "Connection[Cursor]") -> list[Table]:
    with line.cursor() as cursor:
        cursor.execute("SELECT database()")
        default = cursor.fetchall()[0][0]
        columns, keys, indices = (_found(cursor, asked) for asked in (_COLUMNS, _KEYS, _INDICES))
        cursor.execute(_TABLES)
        return [
            _table(row, default, columns[row[:2]], keys[row[:2]], indices[row[:2]])
            for row in cursor.fetchall()
        ]


def _found(cursor: Cursor, asked: str) -> Found:
    """What was answered, by the table it is about."""
    found: Found = defaultdict(list)
    cursor.execute(asked)
    for schema, name, *rest in cursor.fetchall():
        found[schema, name].append(tuple(rest))
    return found


def _table(
    row: tuple[Any, ...],
    default: str | None,
    columns: list[tuple[Any, ...]],
    keys: list[tuple[Any, ...]],
    indices: list[tuple[Any, ...]],
) -> Table:
    schema, name, is_view, description, estimate = row
    return Table(
        name=name if schema == default else f"{schema}.{name}",
        schema=schema,
        kind="view" if is_view else "table",
        # MySQL says VIEW where a view has no comment.
        description="" if is_view else description,
        columns=tuple(
            Column(column, kind, bool(nullable), default, said)
            for column, kind, nullable, default, said in columns
        ),
        primary_key=tuple(key[1] for key in keys if key[0] == "PRIMARY"),
        foreign_keys=_foreign_keys(keys, default),
        indices=_indices(indices),
        row_estimate=None if is_view else estimate,
    )


def _foreign_keys(keys: list[tuple[Any, ...]], default: str | None) -> tuple[ForeignKey, ...]:
    grouped: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for constraint, column, schema, table, referenced in keys:
        if table is not None:
            grouped[constraint].append(
                (column, table if schema == default else f"{schema}.{table}", referenced)
            )
    return tuple(
        ForeignKey(tuple(part[0] for part in parts), parts[0][1], tuple(part[2] for part in parts))
        for parts in grouped.values()
    )


def _indices(rows: list[tuple[Any, ...]]) -> tuple[Index, ...]:
    grouped: dict[tuple[str, bool], list[str]] = defaultdict(list)
    for name, column, non_unique in rows:
        grouped[name, not non_unique].append(column)
    return tuple(Index(name, tuple(columns), unique) for (name, unique), columns in grouped.items())
