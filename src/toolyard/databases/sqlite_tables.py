"""What tables a SQLite file has, from its pragmas; descriptions from the comments in its `CREATE` texts."""

import sqlite3
from typing import Any

from .model import Column, ForeignKey, Index, Table

_OBJECTS = """
SELECT name, type, coalesce(sql, '') FROM sqlite_schema
WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name
"""


def look(connection: sqlite3.Connection) -> list[Table]:
    estimates = _analysed(connection)
    return [
        _table(connection, name, kind, text, estimates)
        for name, kind, text in connection.execute(_OBJECTS).fetchall()
    ]


def _table(
    connection: sqlite3.Connection, name: str, kind: str, text: str, estimates: dict[str, int]
) -> Table:
    rows = connection.execute("SELECT * FROM pragma_table_info(?) ORDER BY cid", (name,)).fetchall()
    table_says, columns_say = _comments(text)
    keys = sorted((row[5], row[1]) for row in rows if row[5])
    return Table(
        name=name,
        schema="main",
        kind=kind,
        description=table_says,
        columns=tuple(_column(row, columns_say.get(str(row[1]).casefold(), "")) for row in rows),
        primary_key=tuple(column for _, column in keys),
        foreign_keys=_foreign_keys(connection, name),
        indices=_indices(connection, name),
        row_estimate=None if kind == "view" else estimates.get(name, _largest_rowid(connection, name)),
    )


def _column(row: tuple[Any, ...], description: str) -> Column:
    _, name, kind, not_null, default, key = row
    return Column(name, kind, nullable=not (not_null or key), default=default, description=description)


def _foreign_keys(connection: sqlite3.Connection, table: str) -> tuple[ForeignKey, ...]:
    found: dict[int, list[tuple[str, str, str | None]]] = {}
    rows = connection.execute(
        'SELECT id, "from", "table", "to" FROM pragma_foreign_key_list(?) ORDER BY id, seq', (table,)
    )
    for number, column, other, referenced in rows:
        found.setdefault(number, []).append((column, other, referenced))
    return tuple(
        ForeignKey(
            columns=tuple(column for column, _, _ in parts),
            table=parts[0][1],
            # No column is named when the other table's primary key is meant.
            referenced=tuple(referenced for _, _, referenced in parts if referenced),
        )
        for _, parts in sorted(found.items())
    )


def _indices(connection: sqlite3.Connection, table: str) -> tuple[Index, ...]:
    listed = connection.execute('SELECT name, "unique" FROM pragma_index_list(?) ORDER BY name', (table,))
    return tuple(
        Index(name, _index_columns(connection, name), bool(unique)) for name, unique in listed.fetchall()
    )


def _index_columns(connection: sqlite3.Connection, index: str) -> tuple[str, ...]:
    rows = connection.execute("SELECT name FROM pragma_index_info(?) ORDER BY seqno", (index,))
    return tuple(name if name is not None else "(expression)" for (name,) in rows)


def _analysed(connection: sqlite3.Connection) -> dict[str, int]:
    """Rows as `ANALYZE` counted them, where somebody ran it."""
    try:
        rows = connection.execute("SELECT tbl, stat FROM sqlite_stat1 WHERE stat IS NOT NULL").fetchall()
    except sqlite3.OperationalError:
        return {}
    return {table: int(str(stat).split()[0]) for table, stat in rows}


def _largest_rowid(connection: sqlite3.Connection, table: str) -> int | None:
    """Close to the count unless much was deleted, and found without reading the table."""
    quoted = table.replace('"', '""')
    try:
        return connection.execute(f'SELECT max(rowid) FROM "{quoted}"').fetchone()[0] or 0
    except sqlite3.Error:  # WITHOUT ROWID, or a virtual table
        return None


def _comments(text: str) -> tuple[str, dict[str, str]]:
    """Of the table and, by name, of its columns, as they stand in its `CREATE` text."""
    # 60 ms to import, and only looking needs it.
    from sqlglot import exp, parse_one
    from sqlglot.errors import SqlglotError

    if "--" not in text and "/*" not in text:
        return "", {}
    try:
        parsed = parse_one(text, dialect="sqlite")
    except (SqlglotError, RecursionError):
        return "", {}
    columns = {
        definition.name.casefold(): " ".join(part for part in map(str.strip, _all_comments(definition)))
        for definition in parsed.find_all(exp.ColumnDef)
    }
    table = parsed.find(exp.Table)
    return " ".join(comment.strip() for comment in (table.comments if table else None) or ()), columns


def _all_comments(part: Any) -> list[str]:
    return [comment for node in part.walk() for comment in node.comments or ()]
