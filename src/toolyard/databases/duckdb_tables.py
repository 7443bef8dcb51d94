"""What tables a DuckDB file has, from its catalogue functions."""

import re
from collections import defaultdict
from typing import Any

from duckdb import DuckDBPyConnection

from .model import Column, ForeignKey, Index, Table

_HERE = "database_name = current_database() AND NOT internal"
_TABLES = f"""
SELECT schema_name, table_name, 'table', coalesce(comment, ''), estimated_size
FROM duckdb_tables() WHERE {_HERE}
UNION ALL
SELECT schema_name, view_name, 'view', coalesce(comment, ''), NULL FROM duckdb_views() WHERE {_HERE}
ORDER BY schema_name <> current_schema(), schema_name, table_name
"""
_COLUMNS = f"""
SELECT schema_name, table_name, column_name, data_type, is_nullable, column_default, coalesce(comment, '')
FROM duckdb_columns() WHERE {_HERE} ORDER BY column_index
"""
_KEYS = """
SELECT schema_name, table_name, constraint_type, constraint_column_names, referenced_table,
       referenced_column_names
FROM duckdb_constraints() WHERE database_name = current_database()
  AND constraint_type IN ('PRIMARY KEY', 'FOREIGN KEY', 'UNIQUE') ORDER BY constraint_index
"""
_INDICES = """
SELECT schema_name, table_name, index_name, expressions, is_unique FROM duckdb_indexes()
WHERE database_name = current_database() ORDER BY index_name
"""
_WORDS = re.compile(r"\w+")

Found = dict[tuple[str, str], list[tuple[Any, ...]]]


def look(cursor: DuckDBPyConnection) -> list[Table]:
    default = str(cursor.execute("SELECT current_schema()").fetchall()[0][0])
    columns, keys, indices = (_found(cursor, asked) for asked in (_COLUMNS, _KEYS, _INDICES))
    return [
        _table(row, default, columns[row[:2]], keys[row[:2]], indices[row[:2]])
        for row in cursor.execute(_TABLES).fetchall()
    ]


def _found(cursor: DuckDBPyConnection, asked: str) -> Found:
    """What was answered, by the table it is about."""
    found: Found = defaultdict(list)
    for schema, name, *rest in cursor.execute(asked).fetchall():
        found[schema, name].append(tuple(rest))
    return found


def _table(
    row: tuple[Any, ...],
    default: str,
    columns: list[tuple[Any, ...]],
    keys: list[tuple[Any, ...]],
    indices: list[tuple[Any, ...]],
) -> Table:
    schema, name, kind, description, estimate = row
    primary: tuple[str, ...] = next((tuple(own) for key, own, _, _ in keys if key == "PRIMARY KEY"), ())
    made = [Index(index, tuple(_WORDS.findall(str(parts))), unique) for index, parts, unique in indices]
    unique = [
        Index(f"{name}_{'_'.join(own)}_key", tuple(own), True) for key, own, _, _ in keys if key == "UNIQUE"
    ]
    return Table(
        name=name if schema == default else f"{schema}.{name}",
        schema=schema,
        kind=kind,
        description=description,
        columns=tuple(Column(*column) for column in columns),
        primary_key=primary,
        foreign_keys=tuple(
            ForeignKey(tuple(own), other if schema == default else f"{schema}.{other}", tuple(there))
            for key, own, other, there in keys
            if key == "FOREIGN KEY"
        ),
        indices=tuple(made + unique),
        row_estimate=estimate,
    )
