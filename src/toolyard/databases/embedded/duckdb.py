"""DuckDB: a database file opened read-only, or views over data files, and no access to anything else.

No other file, network, extension or setting can be reached by a statement. DuckDB's own parser says whether
the text is one SELECT before anything runs. Runs in a worker.
"""

import os
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import duckdb
from duckdb import DuckDBPyConnection, StatementType

from ..model import DatabaseError, ErrorKind, ForeignKey, Rows, Table, TableColumn, TableIndex
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

RowsByTable = dict[tuple[str, str], list[tuple[Any, ...]]]


def read_tables(cursor: DuckDBPyConnection) -> list[Table]:
    default = str(cursor.execute("SELECT current_schema()").fetchall()[0][0])
    columns, keys, indices = (_rows_by_table(cursor, asked) for asked in (_COLUMNS, _KEYS, _INDICES))
    return [
        _table(row, default, columns[row[:2]], keys[row[:2]], indices[row[:2]])
        for row in cursor.execute(_TABLES).fetchall()
    ]


def _rows_by_table(cursor: DuckDBPyConnection, asked: str) -> RowsByTable:
    """What was answered, by the table it is about."""
    found: RowsByTable = defaultdict(list)
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
    made = [TableIndex(index, tuple(_WORDS.findall(str(parts))), unique) for index, parts, unique in indices]
    unique = [
        TableIndex(f"{name}_{'_'.join(own)}_key", tuple(own), True)
        for key, own, _, _ in keys
        if key == "UNIQUE"
    ]
    return Table(
        name=name if schema == default else f"{schema}.{name}",
        schema=schema,
        kind=kind,
        description=description,
        columns=tuple(TableColumn(*column) for column in columns),
        primary_key=primary,
        foreign_keys=tuple(
            ForeignKey(tuple(own), other if schema == default else f"{schema}.{other}", tuple(there))
            for key, own, other, there in keys
            if key == "FOREIGN KEY"
        ),
        indices=tuple(made + unique),
        row_estimate=estimate,
    )


THREADS = 4
_MEMORY_OF_A_THREAD = 2**28
"""A thread that reads a file has buffers of its own."""
_MAGIC = b"DUCK"
_MAGIC_AT = 8
_SQLITE_MAGIC = b"SQLite format 3"
_OF_ITS_OWN = 3 / 4
"""How much of the memory DuckDB itself gives out; the rest is for what it takes without counting."""
_ZONED = re.compile("TIME ZONE|TIMESTAMPTZ")
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")
_EXACT_DIGITS = 15
T = TypeVar("T")
Config = dict[str, str | bool | int | float | list[str]]


def _settings(memory: int) -> Config:
    return {
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        # Otherwise a table that is not there is looked for among the variables of this program.
        "python_enable_replacements": "false",
        # What does not fit in memory is an error, not a file beside the database.
        "temp_directory": "",
        "memory_limit": f"{int(memory * _OF_ITS_OWN) // 2**20}MiB",
        "threads": max(1, min(THREADS, os.cpu_count() or 1, memory // _MEMORY_OF_A_THREAD)),
    }


class DuckdbReader:
    def __init__(self, path: str, memory: int) -> None:
        self._path = Path(path)
        self._memory = memory
        self._root: DuckDBPyConnection | None = None
        self._files: DataFiles | None = None
        self._made: set[str] = set()
        """Views that there are already."""

    def open(self) -> None:
        self._open("")

    def look(self) -> list[Table]:
        return self._run(read_tables, None)

    def read(self, sql: str, rows: int, bytes: int) -> Rows:
        return self._run(lambda cursor: _read(cursor, sql, rows, bytes), sql.casefold())

    def _run(self, work: Callable[[DuckDBPyConnection], T], said: str | None) -> T:
        """On a connection of its own, so nothing (a temporary table, a prepared statement) outlives it.

        `said` is where views may be named; None: all are wanted.
        """
        cursor = self._open(said).cursor()
        try:
            cursor.execute("BEGIN TRANSACTION READ ONLY")
            return work(cursor)
        except duckdb.Error as error:
            if isinstance(error, duckdb.FatalException | duckdb.InternalException):
                self._close()  # it takes no more statements
            raise self._explained(error) from error
        finally:
            cursor.close()

    def _open(self, said: str | None) -> DuckDBPyConnection:
        if is_data(self._path):
            return self._open_files(said)
        if self._root is None:
            self._root = self._open_database()
        return self._root

    def _open_files(self, said: str | None) -> DuckDBPyConnection:
        """As they are now: a file that came, went or changed makes the views anew.

        A view is made when it may be asked for, since each looks into its files: a folder may have thousands.
        """
        found = DataFiles.found(self._path)
        if self._root is None or found != self._files:
            self._close()
            self._root = duckdb.connect(":memory:", config=_settings(self._memory))
            self._files = found
            _lock(self._root, found)
        for view in found.views:
            is_wanted = said is None or view.name.casefold() in said or len(found.views) == 1
            if is_wanted and view.name not in self._made:
                _make_view(self._root, found, view)
                self._made.add(view.name)
        return self._root

    def _open_database(self) -> DuckDBPyConnection:
        _check_database(self._path)
        locked: Config = {"enable_external_access": "false", "lock_configuration": "true"}
        try:
            return duckdb.connect(str(self._path), read_only=True, config=_settings(self._memory) | locked)
        except duckdb.OutOfMemoryException:
            raise MemoryError from None
        except duckdb.Error as error:
            said = str(error).replace(str(self._path), self._path.name).splitlines()[0]
            raise DatabaseError(f"cannot open {self._path.name!r}: {said}", "unreachable") from error

    def _close(self) -> None:
        if self._root is not None:
            self._root.close()
        self._root = self._files = None
        self._made.clear()

    def _explained(self, error: duckdb.Error) -> Exception:
        if isinstance(error, duckdb.OutOfMemoryException):
            return MemoryError()
        said = str(error).strip().splitlines()[0]
        if self._files is not None:
            said = self._files.without_paths(said)
        _, _, shorter = said.partition("Error: ")
        kinds: list[ErrorKind] = [kind for error_type, kind in _KINDS if isinstance(error, error_type)]
        return DatabaseError(shorter or said, kinds[0] if kinds else "other")


def _check_database(path: Path) -> None:
    """What would never become a database by trying again."""
    if not path.exists():
        raise DatabaseError(f"there is no file {path.name!r}", "unusable")
    try:
        with path.open("rb") as file:
            start = file.read(32)
    except OSError as error:
        raise DatabaseError(f"cannot open {path.name!r}: {error.strerror}", "unusable") from error
    if start.startswith(_SQLITE_MAGIC):
        raise DatabaseError(f"{path.name!r} is a SQLite database; hint: sqlite:PATH", "unusable")
    if start[_MAGIC_AT : _MAGIC_AT + len(_MAGIC)] != _MAGIC:
        raise DatabaseError(
            f"{path.name!r} is no DuckDB database, and its name does not say that it is a data file;"
            " hint: data files end in .csv, .tsv, .json, .jsonl, .ndjson or .parquet, the texts also in .gz",
            "unusable",
        )


def _lock(connection: DuckDBPyConnection, files: DataFiles) -> None:
    """From now on nothing but these files can be read."""
    # A name that looks like a pattern is judged as that, and again as the file that it means.
    paths = {path for view in files.views for path in (*view.patterns, *(file.path for file in view.files))}
    allowed = ", ".join(map(literal, sorted(paths)))
    connection.execute(f"SET allowed_paths = [{allowed}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _make_view(connection: DuckDBPyConnection, files: DataFiles, view: FileView) -> None:
    try:
        connection.execute(f"CREATE VIEW {view.quoted} AS {view.question}")
        comment = view.origin
    except duckdb.OutOfMemoryException:
        raise MemoryError from None
    except duckdb.Error as error:
        comment = _unreadable(view, files, error)
        if len(files.views) == 1:
            raise DatabaseError(comment, "unusable") from error
        # One bad file among others does not hide them; whoever asks for it learns what is wrong.
        connection.execute(f"CREATE VIEW {view.quoted} AS SELECT error({literal(comment)}) AS problem")
    connection.execute(f"COMMENT ON VIEW {view.quoted} IS {literal(comment)}")


def _unreadable(view: FileView, files: DataFiles, error: duckdb.Error) -> str:
    told = files.without_paths(str(error)).partition("Error: ")[2].partition("LINE 1:")[0]
    said = " ".join(told.split())
    return f"{view.origin} cannot be read as {view.kind}: {said[:300]}"


def _read(cursor: DuckDBPyConnection, sql: str, rows: int, bytes: int) -> Rows:
    statements = cursor.extract_statements(sql)
    if len(statements) != 1:
        raise DatabaseError(f"there are {len(statements)} statements; one is run", "syntax")
    if statements[0].type is not StatementType.SELECT:
        raise DatabaseError(f"only SELECT is run, and this is {statements[0].type.name}", "read_only")
    asked = cursor.sql(sql)
    columns, types = asked.columns, [str(kind) for kind in asked.types]
    zoned = [place for place, kind in enumerate(types) if _ZONED.search(kind)]
    # The new line ends a comment that the statement may end with.
    cursor.execute(f"SELECT {_projection(types)} FROM ({sql}\n) AS asked LIMIT {rows + 1}")

    def convert(chunk: Sequence[Row]) -> Sequence[Row]:
        return plain_rows([_with_iso(row, zoned) for row in chunk] if zoned else chunk)

    kept = gather(in_chunks(cursor.fetchmany), rows=rows, bytes=bytes, convert=convert)
    return Rows(columns, types, kept.json, kept.count, kept.truncated)


def _with_iso(row: Row, zoned: Sequence[int]) -> Row:
    made = list(row)
    for place in zoned:
        made[place] = made[place] and iso_timestamp(made[place])
    return made


def _projection(types: Sequence[str]) -> str:
    shown = [_shown(f"#{number}", kind) for number, kind in enumerate(types, 1)]
    return ", ".join(shown) if any("(" in one for one in shown) else "*"


def _shown(column: str, kind: str) -> str:
    """Times with a zone as text: the driver gives them only with the help of another package. Decimals that a
    float holds without losing a digit as one, which costs a tenth."""
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
