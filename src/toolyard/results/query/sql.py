"""SQL over a stored result: one SELECT on the table `result`, a row for each record, value or line.

Runs in the worker. DuckDB's parse tree says whether a statement only reads, and gives a good error if
not. The guarantee is the transaction: it is read-only and never committed, so no query changes what the
next one reads.
"""

import json
import re
import sys
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any, cast

import msgspec
from msgspec import Raw

from ...languages import said
from ..formats.json_parts import (
    LIST,
    OBJECT,
    all_items_of,
    decode_line,
    find_json_lines,
    first_byte,
    is_json,
    open_envelope,
)
from ..formats.tables import as_record, distinct, records_of
from ..formats.texts import separator_in
from .content import QueryFailedError, ResultPage, page_of_items

SHORTEST_BUFFER = 2**20
_READ_JSON = (
    "CREATE TABLE result AS SELECT * FROM read_json(?, format = ?, maximum_object_size = ?, "
    "sample_size = -1, map_inference_threshold = -1)"
)


def load_table(connection: Any, path: Path, json: bool) -> None:
    body = path.read_bytes()
    if json and is_json(body):
        _load_json(connection, path, body)
        return
    lines = find_json_lines(body)
    if lines is None:
        _load_text(connection, body)
    else:
        _load_lines(connection, path, lines)


def _load_lines(connection: Any, path: Path, lines: Sequence[Raw]) -> None:
    import duckdb

    try:
        _read(connection, path, "newline_delimited", _longest(lines))
    except duckdb.InvalidInputException:  # some lines are broken
        _rewrite(connection, map(_line_record, lines))


def _line_record(line: Raw) -> bytes:
    value = decode_line(line)
    return bytes(line) if isinstance(value, dict) else msgspec.json.encode({"value": value})


def _load_json(connection: Any, path: Path, body: bytes) -> None:
    inside = open_envelope(body)
    inner = inside.inner
    if first_byte(inner) != LIST:
        _rewrite(connection, iter([bytes(inner)]))
        return
    items = all_items_of(inner)
    if not items:
        raise QueryFailedError(
            said(
                "The result is an empty list: there is nothing to select",
                "O resultado é uma lista vazia: não há o que selecionar",
            )
        )
    if inside.columns:
        _rewrite(connection, (_row_record(inside.columns, part) for part in items))
    elif not all(first_byte(memoryview(part)) == OBJECT for part in items):
        _rewrite(connection, map(_value_record, items))
    elif len(inner) == len(body):
        _read(connection, path, "array", _longest(items))
    else:
        with _temporary() as (file, at):
            file.write(inner)
            file.flush()
            _read(connection, at, "array", _longest(items))


def _longest(items: Sequence[Raw]) -> int:
    return max(len(memoryview(part)) for part in items)


def _row_record(columns: Sequence[str], row: Raw) -> bytes:
    """Encodes a row of a table as a record."""
    value = as_record(columns, decode_line(row))
    return msgspec.json.encode(value if isinstance(value, dict) else {"value": value})


def _value_record(part: Raw) -> bytes:
    body = bytes(part)
    return body if body[:1] == b"{" else b'{"value":%s}' % body


def _load_text(connection: Any, body: bytes) -> None:
    """Does not use DuckDB's CSV reader, which takes other cells for numbers than expressions and pages do."""
    text = body.decode("utf-8", "replace")
    separator = separator_in(body)
    if separator is not None:
        _rewrite(connection, map(msgspec.json.encode, records_of(text, separator)))
    else:
        lines = enumerate(text.removesuffix("\n").split("\n"), 1)
        _rewrite(connection, (msgspec.json.encode({"line": at, "text": line}) for at, line in lines))


def _rewrite(connection: Any, records: Iterator[bytes]) -> None:
    longest = 0
    with _temporary() as (file, at):
        for record in records:
            line = record.replace(b"\n", b" ").replace(b"\r", b" ")
            longest = max(longest, len(line))
            file.write(line + b"\n")
        file.flush()
        _read(connection, at, "newline_delimited", longest)


@contextmanager
def _temporary() -> Generator[tuple[IO[bytes], Path]]:
    """Yields a temporary file and its path. On Linux it has no name, so it vanishes with a killed worker."""
    if sys.platform == "linux":
        with tempfile.TemporaryFile("wb") as file:
            yield file, Path(f"/proc/self/fd/{file.fileno()}")
    else:
        with tempfile.NamedTemporaryFile("wb") as file:
            yield file, Path(file.name)


def _read(connection: Any, path: Path, form: str, longest: int) -> None:
    # DuckDB allocates a multiple of the largest object size.
    connection.execute(_READ_JSON, [str(path), form, max(SHORTEST_BUFFER, longest + 1024)])


AT_A_TIME = 1_000
MOST_COUNTED = 100_000
LONGEST_TOLD = 1_000

_READ_NODES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
_SOURCES = frozenset(
    {
        *("range", "generate_series", "repeat", "repeat_row", "unnest", "json_each", "json_tree", "summary"),
        *("histogram", "histogram_values", "test_all_types", "test_vector_types"),
        *("pragma_table_info", "duckdb_columns", "duckdb_functions", "duckdb_types", "duckdb_keywords"),
    }
)
"""Table functions that neither read nor change files or the state of the process."""
_SCHEMAS = frozenset({"", "main", "memory"})

# Values of other types need optional packages in Python, or have no JSON form.
_DIRECT = re.compile(
    r'(?:BOOLEAN|U?(?:TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)|FLOAT|DOUBLE|VARCHAR|DATE|TIME|UUID|"NULL"'
    r"|TIMESTAMP(?:_M?S)?|DECIMAL\(\d++,\d++\))"
)
_PATH = re.compile(r"(?<![\w/])/(?:[\w.@+-]++/)+[\w.@+-]*+")


class ResultDatabase:
    """Keeps the last result loaded, because queries often follow one another."""

    def __init__(self) -> None:
        self._loaded: tuple[Path, int] | None = None
        self._connection: Any = None

    def select(self, path: Path, json: bool, text: str, memory: int) -> "Selection":
        """Runs a statement. The caller closes the selection, and passes errors of reading it to `failure`."""
        import duckdb

        try:
            _check_kind(text)
            if self._loaded != (path, memory):
                self._load(path, json, memory)
            _check_tree(self._connection, text)
            return Selection(self._connection, text)
        except duckdb.Error as error:
            raise self.failure(error, text, memory) from None

    def _load(self, path: Path, json: bool, memory: int) -> None:
        import duckdb

        self.close()
        self._connection = duckdb.connect(":memory:", config=_settings(memory))
        self._connection.execute("SET TimeZone = 'UTC'")
        try:
            load_table(self._connection, path, json)
        except duckdb.OutOfMemoryException:
            raise
        except duckdb.Error:
            # DuckDB's message names our file, which stays private.
            raise QueryFailedError(
                said(
                    "The result cannot be read as a table; read it by pages or with a JMESPath query",
                    "O resultado não pode ser lido como tabela; leia-o por páginas ou com JMESPath",
                )
            ) from None
        # From here on SQL can access only the table.
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET lock_configuration = true")
        self._loaded = (path, memory)

    def failure(self, error: Exception, text: str, memory: int) -> QueryFailedError:
        """Converts an error to one for the author of the statement, without internals."""
        import duckdb

        if isinstance(error, duckdb.OutOfMemoryException):
            self.close()
            most = memory // 2**20
            return QueryFailedError(
                said(
                    f"The SQL needs more than the {most} MiB that a query may take",
                    f"O SQL precisa de mais que os {most} MiB que uma consulta pode usar",
                )
            )
        if isinstance(error, duckdb.FatalException | duckdb.InternalException):
            self.close()
            return _cannot_run(
                said("DuckDB fails on it; rephrase it", "o DuckDB falha com ele; escreva-o de outro modo")
            )
        told = _without_internals(str(error), text)
        if "disabled by configuration" in told:
            told = _only_the_table()
        if "read-only mode" in told:
            told = said("a stored result is read-only", "um resultado guardado é só para leitura")
        return _cannot_run(told)

    def close(self) -> None:
        self._loaded = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _without_internals(told: str, statement: str) -> str:
    """Removes stack traces, and paths that are not in the statement itself."""
    for mark in ("Traceback (most recent call last)", "Stack Trace"):
        told = told.partition(mark)[0]
    told = _PATH.sub(lambda found: found[0] if found[0] in statement else "…", told)
    return told.strip()[:LONGEST_TOLD] or said("DuckDB fails on it", "o DuckDB falha com ele")


def _settings(memory: int) -> dict[str, Any]:
    return {
        "threads": 1,
        "memory_limit": f"{max(1, memory // 2**20)}MiB",
        # Never spill to disk: a size of 0 means no limit, and files of a killed query would remain.
        "temp_directory": "",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "allow_community_extensions": "false",
        "python_enable_replacements": "false",
    }


def _check_kind(text: str) -> None:
    import duckdb

    statements = duckdb.extract_statements(text)
    if len(statements) != 1:
        count = len(statements)
        raise QueryFailedError(
            said(f"Only one statement is allowed, not {count}", f"Só um comando é permitido, e não {count}")
        )
    if statements[0].type != duckdb.StatementType.SELECT:
        kind = str(statements[0].type).rpartition(".")[2]
        raise _only_select(kind)


def _check_tree(connection: Any, text: str) -> None:
    """Rejects a SELECT that contains other statements or reads more than the table."""
    with closing(connection.cursor()) as cursor:
        (found,) = cursor.execute("SELECT json_serialize_sql(?::VARCHAR)", [text]).fetchone()
    tree = json.loads(found)
    if tree["error"]:
        raise _cannot_run(str(tree.get("error_message", ""))[:LONGEST_TOLD])
    nodes = list(_nodes(tree["statements"]))
    named = {entry["key"].lower() for node in nodes for entry in node.get("cte_map", {}).get("map", ())}
    for node in nodes:
        kind = str(node.get("type", ""))
        if kind.endswith("_NODE") and kind not in _READ_NODES:
            shown = kind.removesuffix("_NODE").removesuffix("_QUERY")
            raise _only_select(shown)
        if kind == "TABLE_FUNCTION":
            _check_function(node["function"]["qualified_name"]["path"])
        if kind == "BASE_TABLE":
            _check_table(node["qualified_name"]["path"], named)


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Yields every object in a tree, without recursion: a statement may be nested deeply."""
    waiting: list[Any] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            members = cast(dict[str, Any], node)
            yield members
            waiting.extend(members.values())
        elif isinstance(node, list):
            waiting.extend(cast(list[Any], node))


def _check_function(path: list[str]) -> None:
    if path[-1].lower() not in _SOURCES:
        function, why = path[-1][:60], _only_the_table()
        raise _cannot_run(
            said(f"{function}() is not available: {why}", f"{function}() não está disponível: {why}")
        )


def _check_table(path: list[str], named: set[str]) -> None:
    name = path[-1].lower()
    places = {place.lower() for place in path[:-1]}
    if name in named and not places - {""}:
        return
    if places - {""} == {"information_schema"} or (name == "result" and places <= _SCHEMAS):
        return
    shown = path[-1][:60]
    raise _cannot_run(
        said(
            f"there is no table {shown!r}, only the table `result`",
            f"não há a tabela {shown!r}, só a tabela `result`",
        )
    )


def _no_form() -> QueryFailedError:
    return QueryFailedError(
        said(
            "The SQL returns values that JSON cannot express; convert them: CAST(… AS VARCHAR)",
            "O SQL devolve valores que JSON não expressa; converta-os: CAST(… AS VARCHAR)",
        )
    )


def _cannot_run(why: str) -> QueryFailedError:
    return QueryFailedError(said(f"The SQL cannot be run: {why}", f"O SQL não pode ser executado: {why}"))


def _only_select(kind: str) -> QueryFailedError:
    return QueryFailedError(
        said(
            f"Only SELECT can be run, not {kind}: a stored result is read-only",
            f"Só SELECT pode ser executado, não {kind}: um resultado guardado é só para leitura",
        )
    )


def _only_the_table() -> str:
    return said(
        "files and addresses cannot be read, only the table `result`",
        "arquivos e endereços não podem ser lidos, só a tabela `result`",
    )


class Selection:
    """The rows of a SELECT."""

    def __init__(self, connection: Any, text: str) -> None:
        self._connection = connection
        self._cursors: list[Any] = []
        self._whole = text.strip().rstrip(";")
        self._encoded: list[bool] = []
        try:
            self._rows = self._selected(text)
        except BaseException:
            self.close()
            raise

    def _run(self, text: str) -> Any:
        """Runs a statement in its own read-only transaction, which ends with the cursor."""
        cursor = self._connection.cursor()
        self._cursors.append(cursor)
        cursor.execute("BEGIN TRANSACTION READ ONLY")
        return cursor.execute(text)

    def close(self) -> None:
        for cursor in self._cursors:
            cursor.close()

    def _selected(self, text: str) -> Any:
        import duckdb

        try:
            columns = self._run(f"DESCRIBE\n{self._whole}").fetchall()
        except duckdb.Error:  # cannot be described; if it is invalid, running it raises an error
            return self._as_it_is(text)
        self._names = distinct([column[0] for column in columns])
        self._encoded = [_DIRECT.fullmatch(column[1]) is None for column in columns]
        if not any(self._encoded):
            return self._run(text)
        try:
            return self._run(self._as_json())
        except duckdb.ParserException:  # it cannot be a subquery
            raise _no_form() from None

    def _as_it_is(self, text: str) -> Any:
        found = self._run(text)
        self._names = distinct([column[0] for column in found.description])
        self._encoded = [False] * len(self._names)
        if not all(_DIRECT.fullmatch(str(column[1])) for column in found.description):
            raise _no_form()
        return found

    def _as_json(self) -> str:
        """Lets DuckDB convert values of other types to JSON."""
        names = [f"c{at}" for at in range(len(self._names))]
        pairs = zip(names, self._encoded, strict=True)
        shown = [f"to_json({name})" if encoded else name for name, encoded in pairs]
        return f"SELECT {', '.join(shown)} FROM (\n{self._whole}\n) AS found({', '.join(names)})"

    def _record(self, row: tuple[Any, ...]) -> dict[str, Any]:
        values = (
            _decoded(value) if encoded and value is not None else _plain(value)
            for value, encoded in zip(row, self._encoded, strict=True)
        )
        return dict(zip(self._names, values, strict=True))

    def part(self, offset: int, limit: int, room: int) -> ResultPage:
        passed = self._passed(offset)
        rows = self._rows.fetchmany(limit)
        found = [self._record(row) for row in rows]
        total, exact = passed + len(rows), True
        if len(rows) == limit:
            total, exact = self._counted(total)
        part = page_of_items(found, total, passed, room, "rows")
        return ResultPage(part.kind, part.shown, passed, part.count, total, part.cut, at_least=not exact)

    def _passed(self, most: int) -> int:
        passed = 0
        while passed < most and (rows := self._rows.fetchmany(min(AT_A_TIME, most - passed))):
            passed += len(rows)
        return passed

    def _counted(self, so_far: int) -> tuple[int, bool]:
        """Returns the total number of rows, and whether it is exact. Counting computes no values."""
        import duckdb

        try:
            found = self._run(f"SELECT count(*) FROM (\n{self._whole}\n)").fetchone()
            return int(found[0]), True
        except (duckdb.ParserException, duckdb.BinderException):  # it cannot be a subquery
            more = self._passed(MOST_COUNTED)
            return so_far + more, more < MOST_COUNTED


def _decoded(text: str) -> Any:
    """Decodes DuckDB's JSON, which may have NaN, or any text that a statement cast to JSON."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        return _plain(json.loads(text, parse_constant=str))
    except (ValueError, RecursionError):
        return text


def _plain(value: Any) -> Any:
    """Converts values that JSON cannot express to text."""
    if isinstance(value, float) and value - value != 0:
        return str(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in cast(list[Any], value)]
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in cast(dict[Any, Any], value).items()}
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
