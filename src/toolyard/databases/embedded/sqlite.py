"""SQLite: a file opened with `mode=ro`, or the sample in memory; an authorizer permits only reads.

Each statement has its own connection, so no temporary table or pragma outlives it. Tables come from
pragmas, their descriptions from the comments in `CREATE` texts. Runs in a worker.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ...languages import current_locale
from ..model import DatabaseError, ErrorKind, ForeignKey, Rows, Table, TableColumn, TableIndex
from ..values import Row, gather, in_chunks, plain_rows
from .sample import sample_image

_OBJECTS = """
SELECT name, type, coalesce(sql, '') FROM sqlite_schema
WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name
"""


def read_tables(connection: sqlite3.Connection) -> list[Table]:
    estimates = _row_estimates(connection)
    return [
        _table(connection, name, kind, text, estimates)
        for name, kind, text in connection.execute(_OBJECTS).fetchall()
    ]


def _table(
    connection: sqlite3.Connection, name: str, kind: str, text: str, estimates: dict[str, int]
) -> Table:
    rows = connection.execute("SELECT * FROM pragma_table_info(?) ORDER BY cid", (name,)).fetchall()
    table_comment, column_comments = _comments(text)
    keys = sorted((row[5], row[1]) for row in rows if row[5])
    return Table(
        name=name,
        schema="main",
        kind=kind,
        description=table_comment,
        columns=tuple(_column(row, column_comments.get(str(row[1]).casefold(), "")) for row in rows),
        primary_key=tuple(column for _, column in keys),
        foreign_keys=_foreign_keys(connection, name),
        indices=_indices(connection, name),
        row_estimate=None if kind == "view" else estimates.get(name, _largest_rowid(connection, name)),
    )


def _column(row: tuple[Any, ...], description: str) -> TableColumn:
    _, name, kind, not_null, default, key = row
    return TableColumn(name, kind, nullable=not (not_null or key), default=default, description=description)


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


def _indices(connection: sqlite3.Connection, table: str) -> tuple[TableIndex, ...]:
    listed = connection.execute('SELECT name, "unique" FROM pragma_index_list(?) ORDER BY name', (table,))
    return tuple(
        TableIndex(name, _index_columns(connection, name), bool(unique)) for name, unique in listed.fetchall()
    )


def _index_columns(connection: sqlite3.Connection, index: str) -> tuple[str, ...]:
    rows = connection.execute("SELECT name FROM pragma_index_info(?) ORDER BY seqno", (index,))
    return tuple(name if name is not None else "(expression)" for (name,) in rows)


def _row_estimates(connection: sqlite3.Connection) -> dict[str, int]:
    """Rows as counted by `ANALYZE`, if it was run."""
    try:
        rows = connection.execute("SELECT tbl, stat FROM sqlite_stat1 WHERE stat IS NOT NULL").fetchall()
    except sqlite3.OperationalError:
        return {}
    return {table: int(str(stat).split()[0]) for table, stat in rows}


def _largest_rowid(connection: sqlite3.Connection, table: str) -> int | None:
    """Close to the number of rows unless many were deleted; found without reading the table."""
    quoted = table.replace('"', '""')
    try:
        return connection.execute(f'SELECT max(rowid) FROM "{quoted}"').fetchone()[0] or 0
    except sqlite3.Error:  # WITHOUT ROWID, or a virtual table
        return None


def _comments(text: str) -> tuple[str, dict[str, str]]:
    """The comments of the table and, by name, of its columns in its `CREATE` text."""
    # 60 ms to import, and only listing tables needs it.
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


# Comparing a long pattern with a long text takes minutes; one of this length is fast.
_PATTERN_BYTES = 250
_NOT_UTF8 = "Could not decode to UTF-8"
_READ_ACTIONS = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}
# SQLite asks for these before it reads json_each or a full-text index. A real UPDATE of the schema fails all
# the same, because no pragma makes it writable here.
_FOR_VIRTUAL_TABLES = {(sqlite3.SQLITE_UPDATE, "sqlite_master"), (sqlite3.SQLITE_PRAGMA, "data_version")}
_FORBIDDEN_FUNCTIONS = {
    "load_extension",
    "fts3_tokenizer",
    "readfile",
    "writefile",
    "edit",
    "zipfile",
    "fsdir",
    "lsdir",
}
_TYPES: dict[type[Any], str] = {int: "INTEGER", float: "REAL", str: "TEXT", bytes: "BLOB"}


class SqliteReader:
    def __init__(self, path: str, memory: int) -> None:
        """Without a path it is the sample."""
        self._path = Path(path) if path else None
        self._memory = memory

    def open(self) -> None:
        self._connect().close()

    def tables(self) -> list[Table]:
        with closing(self._connect()) as connection:
            connection.text_factory = _text
            try:
                return read_tables(connection)
            except sqlite3.Error as error:
                raise self._translate_error(error) from error

    def query(self, sql: str, rows: int, bytes: int) -> Rows:
        with closing(self._connect()) as connection:
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max(bytes, 1_000_000))
            connection.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, _PATTERN_BYTES)
            connection.set_authorizer(_authorize)
            try:
                return _read(connection, sql, rows, bytes)
            except (sqlite3.Error, sqlite3.Warning) as error:
                raise self._translate_error(error) from error

    def _connect(self) -> sqlite3.Connection:
        connection = self._open()
        try:
            connection.execute("PRAGMA query_only = ON")
            connection.execute("PRAGMA trusted_schema = OFF")
            # A result that does not fit in memory is an error, not a temporary file.
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.execute(f"PRAGMA hard_heap_limit = {self._memory:d}")
        except sqlite3.Error as error:
            connection.close()
            raise self._translate_error(error) from error
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        return connection

    def _open(self) -> sqlite3.Connection:
        if self._path is None:
            connection = sqlite3.connect(":memory:", isolation_level=None)
            connection.deserialize(sample_image(current_locale()))
            return connection
        if not self._path.exists():
            raise DatabaseError(f"there is no file {self._path.name!r}", "unusable")
        if self._path.is_dir():
            raise DatabaseError(f"{self._path.name!r} is a folder; hint: name a file in it", "unusable")
        try:
            return sqlite3.connect(f"file:{quote(str(self._path))}?mode=ro", uri=True, isolation_level=None)
        except sqlite3.Error as error:
            raise DatabaseError(f"cannot open {self._path.name!r}: {error}", "unreachable") from error

    def _translate_error(self, error: Exception) -> DatabaseError:
        message = str(error)
        kinds: list[ErrorKind] = [kind for text, kind in _KINDS if text in message]
        if kinds == ["unusable"] and self._path is not None:
            message = f"{self._path.name!r} is not an SQLite database"
        return DatabaseError(message, kinds[0] if kinds else "other")


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _authorize(
    action: int, first: str | None, second: str | None, _database: str | None, _via: str | None
) -> int:
    if action in _READ_ACTIONS:
        return sqlite3.SQLITE_OK
    if (action, first) in _FOR_VIRTUAL_TABLES:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() not in _FORBIDDEN_FUNCTIONS:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY


def _read(connection: sqlite3.Connection, sql: str, rows: int, bytes: int) -> Rows:
    try:
        return _fetch(connection, sql, rows, bytes)
    except sqlite3.OperationalError as error:
        if _NOT_UTF8 not in str(error):
            raise
        # One invalid text must not fail the whole result. Not done at first: it takes a third more time.
        connection.text_factory = _text
        return _fetch(connection, sql, rows, bytes)


def _fetch(connection: sqlite3.Connection, sql: str, rows: int, bytes: int) -> Rows:
    cursor = connection.execute(sql)
    if cursor.description is None:
        raise DatabaseError("the statement returns no rows", "read_only")
    columns = [column[0] for column in cursor.description]
    seen: dict[int, str] = {}

    def convert(chunk: Sequence[Row]) -> Sequence[Row]:
        _note_types(chunk, seen)
        return plain_rows(chunk)

    kept = gather(in_chunks(cursor.fetchmany), rows=rows, bytes=bytes, convert=convert)
    types = [seen.get(place, "") for place in range(len(columns))]
    return Rows(columns, types, kept.json, kept.count, kept.truncated)


def _note_types(chunk: Sequence[Row], seen: dict[int, str]) -> None:
    """SQLite has types of values, not of columns: take those of the first rows."""
    if len(seen) < len(chunk[0]):
        for place, column in enumerate(zip(*chunk, strict=True)):
            kinds = {*map(type, column)} - {type(None)}
            if kinds and place not in seen:
                seen[place] = _TYPES[kinds.pop()] if len(kinds) == 1 else ""


_KINDS: tuple[tuple[str, ErrorKind], ...] = (
    ("not authorized", "read_only"),
    ("authorization denied", "read_only"),
    ("prohibited", "read_only"),
    ("readonly database", "read_only"),
    ("too many attached", "read_only"),
    ("one statement at a time", "syntax"),
    ("no such", "unknown"),
    ("syntax error", "syntax"),
    ("incomplete input", "syntax"),
    ("unrecognized token", "syntax"),
    ("too big", "too_big"),
    ("unable to open", "unreachable"),
    ("not a database", "unusable"),
)
