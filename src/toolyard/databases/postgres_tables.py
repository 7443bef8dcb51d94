"""What tables a PostgreSQL database has, from its catalogue: one question for each kind of thing."""

from collections import defaultdict
from typing import Any

from psycopg import AsyncConnection

from .model import Column, ForeignKey, Index, Table

# Partitions are seen through their table, and what this user may not read is not there.
_TABLES = """
SELECT c.oid, n.nspname, c.relname, c.relkind IN ('v', 'm'), coalesce(obj_description(c.oid, 'pg_class'), ''),
       CASE WHEN c.relkind IN ('r', 'p', 'm') AND c.reltuples >= 0 THEN c.reltuples::bigint END,
       n.nspname = current_schema()
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
  AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
  AND has_schema_privilege(n.oid, 'USAGE') AND has_any_column_privilege(c.oid, 'SELECT')
ORDER BY n.nspname <> current_schema(), n.nspname, c.relname
"""
# An enumeration says its words, as it does in DuckDB and MySQL.
_COLUMNS = """
SELECT a.attrelid, a.attname,
       coalesce((SELECT 'enum(' || string_agg(quote_literal(enumlabel), ', ' ORDER BY enumsortorder) || ')'
                 FROM pg_enum WHERE enumtypid = a.atttypid), format_type(a.atttypid, a.atttypmod)),
       NOT a.attnotnull,
       pg_get_expr(d.adbin, d.adrelid), coalesce(col_description(a.attrelid, a.attnum), '')
FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = ANY (%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attrelid, a.attnum
"""
_KEYS = """
SELECT k.conrelid, k.contype::text, r.relname, rn.nspname, rn.nspname = current_schema(),
       ARRAY(SELECT a.attname::text FROM unnest(k.conkey) WITH ORDINALITY u(n, o)
             JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = u.n ORDER BY u.o),
       ARRAY(SELECT a.attname::text FROM unnest(k.confkey) WITH ORDINALITY u(n, o)
             JOIN pg_attribute a ON a.attrelid = k.confrelid AND a.attnum = u.n ORDER BY u.o)
FROM pg_constraint k LEFT JOIN pg_class r ON r.oid = k.confrelid
     LEFT JOIN pg_namespace rn ON rn.oid = r.relnamespace
WHERE k.conrelid = ANY (%s) AND k.contype IN ('p', 'f') ORDER BY k.conname
"""
_INDICES = """
SELECT i.indrelid, c.relname, i.indisunique,
       ARRAY(SELECT pg_get_indexdef(i.indexrelid, n, true) FROM generate_series(1, i.indnkeyatts) n)
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = ANY (%s) ORDER BY c.relname
"""

Found = dict[int, list[tuple[Any, ...]]]


async def look(connection: AsyncConnection[Any]) -> list[Table]:
    tables = await (await connection.execute(_TABLES)).fetchall()
    numbers = [row[0] for row in tables]
    columns, keys, indices = [
        await _found(connection, asked, numbers) for asked in (_COLUMNS, _KEYS, _INDICES)
    ]
    return [_table(row, columns[row[0]], keys[row[0]], indices[row[0]]) for row in tables]


async def _found(connection: AsyncConnection[Any], asked: str, numbers: list[int]) -> Found:
    """What was answered, by the table it is about."""
    found: Found = defaultdict(list)
    for number, *rest in await (await connection.execute(asked.encode(), (numbers,))).fetchall():
        found[number].append(tuple(rest))
    return found


def _table(
    row: tuple[Any, ...],
    columns: list[tuple[Any, ...]],
    keys: list[tuple[Any, ...]],
    indices: list[tuple[Any, ...]],
) -> Table:
    _, schema, name, is_view, description, estimate, is_default = row
    primary: tuple[str, ...] = next((tuple(own) for kind, *_, own, _there in keys if kind == "p"), ())
    return Table(
        name=_said(schema, name, is_default),
        schema=schema,
        kind="view" if is_view else "table",
        description=description,
        columns=tuple(Column(*column) for column in columns),
        primary_key=primary,
        foreign_keys=tuple(
            ForeignKey(tuple(own), _said(other_schema, other, default), tuple(there))
            for kind, other, other_schema, default, own, there in keys
            if kind == "f"
        ),
        indices=tuple(Index(index, tuple(parts), unique) for index, unique, parts in indices),
        row_estimate=estimate,
    )


def _said(schema: str, name: str, is_default: bool | None) -> str:
    return name if is_default else f"{schema}.{name}"
