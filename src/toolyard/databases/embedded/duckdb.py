"""DuckDB: a database file opened read-only, or views over data files, and no access to anything else.

A statement can reach no other file, network, extension or setting. DuckDB's own parser checks that the text
is one SELECT before anything runs. Runs in a worker.
"""

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import duckdb
from duckdb import DuckDBPyConnection, StatementType

from ..model import (
    DatabaseError,
    ErrorKind,
    ForeignKey,
    Rows,
    Table,
    TableColumn,
    TableIndex,
    group_by_table,
    qualified_name,
)
from ..values import Row, gather, in_chunks, iso_timestamp, plain_rows
from .duckdb_files import DataFiles, FileView, is_data, literal

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


def read_tables(cursor: DuckDBPyConnection) -> list[Table]:
    default = str(cursor.execute("SELECT current_schema()").fetchall()[0][0])
    columns, keys, indices = (
        group_by_table(cursor.execute(statement).fetchall()) for statement in (_COLUMNS, _KEYS, _INDICES)
    )
    return [
        _table(row, default, columns[row[:2]], keys[row[:2]], indices[row[:2]])
        for row in cursor.execute(_TABLES).fetchall()
    ]


def _table(
    row: tuple[Any, ...],
    default: str,
    columns: list[tuple[Any, ...]],
    keys: list[tuple[Any, ...]],
    indices: list[tuple[Any, ...]],
) -> Table:
    schema, name, kind, description, estimate = row
    primary: tuple[str, ...] = next((tuple(own) for key, own, _, _ in keys if key == "PRIMARY KEY"), ())
    made = [TableIndex(index, tuple(_WORDS.findall(str(parts))), unique) for index, parts, unique in indices]
    unique = [
        TableIndex(f"{name}_{'_'.join(own)}_key", tuple(own), True)
        for key, own, _, _ in keys
        if key == "UNIQUE"
    ]
    return Table(
        name=qualified_name(schema, name, default),
        schema=schema,
        kind=kind,
        description=description,
        columns=tuple(TableColumn(*column) for column in columns),
        primary_key=primary,
        foreign_keys=tuple(
            ForeignKey(tuple(own), qualified_name(schema, other, default), tuple(there))
            for key, own, other, there in keys
            if key == "FOREIGN KEY"
        ),
        indices=tuple(made + unique),
        row_estimate=estimate,
    )


THREADS = 4
_MEMORY_PER_THREAD = 2**28
"""A thread that reads a file has its own buffers."""
_MAGIC = b"DUCK"
_MAGIC_AT = 8
_SQLITE_MAGIC = b"SQLite format 3"
_COUNTED_SHARE = 3 / 4
"""The share of the memory that DuckDB counts and limits; the rest is for what it does not count."""
_ZONED = re.compile("TIME ZONE|TIMESTAMPTZ")
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
_EXACT_DIGITS = 15
T = TypeVar("T")
Config = dict[str, str | bool | int | float | list[str]]


def _settings(memory: int) -> Config:
    return {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        # Otherwise DuckDB looks for an unknown table among the variables of this program.
        "python_enable_replacements": "false",
        # A result that does not fit in memory is an error, not a temporary file.
        "temp_directory": "",
        "memory_limit": f"{int(memory * _COUNTED_SHARE) // 2**20}MiB",
        "threads": max(1, min(THREADS, os.cpu_count() or 1, memory // _MEMORY_PER_THREAD)),
    }


class DuckdbReader:
    def __init__(self, path: str, memory: int) -> None:
        self._path = Path(path)
        self._memory = memory
        self._root: DuckDBPyConnection | None = None
        self._files: DataFiles | None = None
        self._views: set[str] = set()
        """The names of the views made so far."""

    def open(self) -> None:
        self._open("")

    def tables(self) -> list[Table]:
        return self._run(read_tables, None)

    def query(self, sql: str, rows: int, bytes: int) -> Rows:
        return self._run(lambda cursor: _read(cursor, sql, rows, bytes), sql.casefold())

    def _run(self, work: Callable[[DuckDBPyConnection], T], statement: str | None) -> T:
        """Run on a new connection, so that no temporary table or prepared statement outlives it.

        `statement` may name views; None: all views are needed.
        """
        cursor = self._open(statement).cursor()
        try:
            cursor.execute("BEGIN TRANSACTION READ ONLY")
            return work(cursor)
        except duckdb.Error as error:
            if isinstance(error, duckdb.FatalException | duckdb.InternalException):
                self._close()  # the connection accepts no more statements
            raise self._translate_error(error) from error
        finally:
            cursor.close()

    def _open(self, statement: str | None) -> DuckDBPyConnection:
        if is_data(self._path):
            return self._open_files(statement)
        if self._root is None:
            self._root = self._open_database()
        return self._root

    def _open_files(self, statement: str | None) -> DuckDBPyConnection:
        """Make the views of the files as they are now; a new, removed or changed file makes them all again.

        A view is made only when a statement may need it, since that reads from its files: a folder may have
        thousands.
        """
        found = DataFiles.find(self._path)
        if self._root is None or found != self._files:
            self._close()
            self._root = duckdb.connect(":memory:", config=_settings(self._memory))
            self._files = found
            _lock(self._root, found)
        for view in found.views:
            is_needed = statement is None or view.name.casefold() in statement or len(found.views) == 1
            if is_needed and view.name not in self._views:
                _make_view(self._root, found, view)
                self._views.add(view.name)
        return self._root

    def _open_database(self) -> DuckDBPyConnection:
        _check_database(self._path)
        locked: Config = {"enable_external_access": "false", "lock_configuration": "true"}
        try:
            return duckdb.connect(str(self._path), read_only=True, config=_settings(self._memory) | locked)
        except duckdb.OutOfMemoryException:
            raise MemoryError from None
        except duckdb.Error as error:
            message = str(error).replace(str(self._path), self._path.name).splitlines()[0]
            raise DatabaseError(f"cannot open {self._path.name!r}: {message}", "unreachable") from error

    def _close(self) -> None:
        if self._root is not None:
            self._root.close()
        self._root = self._files = None
        self._views.clear()

    def _translate_error(self, error: duckdb.Error) -> Exception:
        if isinstance(error, duckdb.OutOfMemoryException):
            return MemoryError()
        message = str(error).strip().splitlines()[0]
        if self._files is not None:
            message = self._files.without_paths(message)
        _, _, shorter = message.partition("Error: ")
        kinds: list[ErrorKind] = [kind for error_type, kind in _KINDS if isinstance(error, error_type)]
        return DatabaseError(shorter or message, kinds[0] if kinds else "other")


def _check_database(path: Path) -> None:
    """Refuse files that cannot become readable by trying again."""
    if not path.exists():
        raise DatabaseError(f"there is no file {path.name!r}", "unusable")
    try:
        with path.open("rb") as file:
            start = file.read(32)
    except OSError as error:
        raise DatabaseError(f"cannot open {path.name!r}: {error.strerror}", "unusable") from error
    if start.startswith(_SQLITE_MAGIC):
        raise DatabaseError(f"{path.name!r} is an SQLite database; hint: sqlite:PATH", "unusable")
    if start[_MAGIC_AT : _MAGIC_AT + len(_MAGIC)] != _MAGIC:
        raise DatabaseError(
            f"{path.name!r} is not a DuckDB database, and its name is not that of a data file;"
            " hint: data files end in .csv, .tsv, .json, .jsonl, .ndjson or .parquet, the texts also in .gz",
            "unusable",
        )


def _lock(connection: DuckDBPyConnection, files: DataFiles) -> None:
    """From now on only these files can be read."""
    # DuckDB checks a name that looks like a pattern as a pattern, and again as the file.
    paths = {path for view in files.views for path in (*view.patterns, *(file.path for file in view.files))}
    allowed = ", ".join(map(literal, sorted(paths)))
    connection.execute(f"SET allowed_paths = [{allowed}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _make_view(connection: DuckDBPyConnection, files: DataFiles, view: FileView) -> None:
    try:
        connection.execute(f"CREATE VIEW {view.quoted} AS {view.query}")
        comment = view.origin
    except duckdb.OutOfMemoryException:
        raise MemoryError from None
    except duckdb.Error as error:
        comment = _unreadable(view, files, error)
        if len(files.views) == 1:
            raise DatabaseError(comment, "unusable") from error
        # A bad file does not hide the others; a statement that reads it gets the reason.
        connection.execute(f"CREATE VIEW {view.quoted} AS SELECT error({literal(comment)}) AS problem")
    connection.execute(f"COMMENT ON VIEW {view.quoted} IS {literal(comment)}")


def _unreadable(view: FileView, files: DataFiles, error: duckdb.Error) -> str:
    message = files.without_paths(str(error)).partition("Error: ")[2].partition("LINE 1:")[0]
    return f"{view.origin} cannot be read as {view.kind}: {' '.join(message.split())[:300]}"


def _read(cursor: DuckDBPyConnection, sql: str, rows: int, bytes: int) -> Rows:
    statements = cursor.extract_statements(sql)
    if len(statements) != 1:
        raise DatabaseError(f"there are {len(statements)} statements; one is run", "syntax")
    if statements[0].type is not StatementType.SELECT:
        raise DatabaseError(f"only SELECT is run, and this is {statements[0].type.name}", "read_only")
    relation = cursor.sql(sql)
    columns, types = relation.columns, [str(kind) for kind in relation.types]
    zoned = [index for index, kind in enumerate(types) if _ZONED.search(kind)]
    # The new line ends a comment at the end of the statement.
    cursor.execute(f"SELECT {_projection(types)} FROM ({sql}\n) AS asked LIMIT {rows + 1}")

    def convert(chunk: Sequence[Row]) -> Sequence[Row]:
        return plain_rows([_with_iso(row, zoned) for row in chunk] if zoned else chunk)

    kept = gather(in_chunks(cursor.fetchmany), rows=rows, bytes=bytes, convert=convert)
    return Rows(columns, types, kept.json, kept.count, kept.truncated)


def _with_iso(row: Row, zoned: Sequence[int]) -> Row:
    values = list(row)
    for index in zoned:
        values[index] = values[index] and iso_timestamp(values[index])
    return values


def _projection(types: Sequence[str]) -> str:
    shown = [_shown(f"#{number}", kind) for number, kind in enumerate(types, 1)]
    return ", ".join(shown) if any("(" in one for one in shown) else "*"


def _shown(column: str, kind: str) -> str:
    """Times with a zone as text, because the driver needs another package for them; small decimals as floats,
    which cost a tenth and lose no digit."""
    if _ZONED.search(kind):
        return f"CAST({column} AS VARCHAR)"
    decimal = _DECIMAL.fullmatch(kind)
    if decimal and int(decimal[1]) <= _EXACT_DIGITS:
        return f"CAST({column} AS {'DOUBLE' if int(decimal[2]) else 'BIGINT'})"
    return column


_KINDS: tuple[tuple[type[duckdb.Error], ErrorKind], ...] = (
    (duckdb.PermissionException, "read_only"),
    (duckdb.TransactionException, "read_only"),
    (duckdb.ParserException, "syntax"),
    (duckdb.SyntaxException, "syntax"),
    (duckdb.CatalogException, "unknown"),
    (duckdb.BinderException, "unknown"),
    (duckdb.IOException, "unreachable"),
)
