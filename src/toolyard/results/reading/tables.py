"""Stored results as the table `result` of a DuckDB: a row for each record, value or line.

What DuckDB can read itself it reads from the file; the rest is rewritten, one JSON object a line.
"""

import csv
import io
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw

from ..csv_texts import separator_of, typed
from ..envelopes import seen_through
from ..grids import as_record
from ..json_parts import OBJECT, Items, first_byte, is_json, items_of, members_of
from ..ndjson import json_lines, value_in
from .expressions import Failed

SHORTEST_BUFFER = 2**20
_READ_JSON = (
    "CREATE TABLE result AS SELECT * FROM read_json(?, format = ?, maximum_object_size = ?, "
    "sample_size = -1, map_inference_threshold = -1)"
)
_READ_CSV = "CREATE TABLE result AS SELECT * FROM read_csv(?, delim = ?, header = true, sample_size = -1)"


def load(connection: Any, path: Path, json: bool) -> None:
    body = path.read_bytes()
    if json and is_json(body):
        _load_json(connection, path, body)
        return
    lines = json_lines(body)
    if lines is None:
        _load_text(connection, path, body.decode("utf-8", "replace"))
    else:
        _load_lines(connection, path, lines)


def _load_lines(connection: Any, path: Path, lines: Items) -> None:
    import duckdb

    try:
        _read(connection, path, "newline_delimited", _longest(lines))
    except duckdb.InvalidInputException:  # some are broken
        _rewrite(connection, map(_whole, lines.parts))


def _whole(line: Raw) -> bytes:
    value = value_in(line)
    return bytes(line) if isinstance(value, dict) else msgspec.json.encode({"value": value})


def _load_json(connection: Any, path: Path, body: bytes) -> None:
    inside = seen_through(body)
    inner = inside.inner
    items = items_of(inner)
    if items is None and members_of(inner) is None:
        raise Failed("It has no records that SQL could ask for; read it by pages or with a JMESPath query")
    if items is None:
        _rewrite(connection, iter([bytes(inner)]))
    elif not items.parts:
        raise Failed("It is an empty list: there is nothing to ask for")
    elif inside.columns:
        _rewrite(connection, (_named(inside.columns, part) for part in items.parts))
    elif not all(first_byte(memoryview(part)) == OBJECT for part in items.parts):
        _rewrite(connection, map(_wrapped, items.parts))
    elif len(inner) == len(body):
        _read(connection, path, "array", _longest(items))
    else:
        with tempfile.NamedTemporaryFile("wb", suffix=".json") as file:
            file.write(inner)
            file.flush()
            _read(connection, Path(file.name), "array", _longest(items))


def _longest(items: Items) -> int:
    return max(len(memoryview(part)) for part in items.parts)


def _named(columns: Sequence[str], row: Raw) -> bytes:
    """A row of a table as a record."""
    value = as_record(columns, value_in(row))
    return msgspec.json.encode(value if isinstance(value, dict) else {"value": value})


def _wrapped(part: Raw) -> bytes:
    body = bytes(part)
    return body if body[:1] == b"{" else b'{"value":%s}' % body


def _load_text(connection: Any, path: Path, text: str) -> None:
    import duckdb

    head = [line for line in text[:100_000].split("\n")[:50] if line.strip()]
    separator = separator_of(head)
    if separator is None:
        lines = enumerate(text.removesuffix("\n").split("\n"), 1)
        _rewrite(connection, (msgspec.json.encode({"line": at, "text": line}) for at, line in lines))
        return
    try:
        connection.execute(_READ_CSV, [str(path), separator])
    except duckdb.Error:  # it is stricter than those who write tables
        _rewrite(connection, _records(text, separator))


def _records(text: str, separator: str) -> Iterator[bytes]:
    for record in csv.DictReader(io.StringIO(text), delimiter=separator):
        yield msgspec.json.encode({name: typed(cell) for name, cell in record.items() if name})


def _rewrite(connection: Any, records: Iterator[bytes]) -> None:
    longest = 0
    with tempfile.NamedTemporaryFile("wb", suffix=".ndjson") as file:
        for record in records:
            line = record.replace(b"\n", b" ").replace(b"\r", b" ")
            longest = max(longest, len(line))
            file.write(line + b"\n")
        file.flush()
        _read(connection, Path(file.name), "newline_delimited", longest)


def _read(connection: Any, path: Path, form: str, longest: int) -> None:
    # It sets aside a multiple of the largest object there may be.
    connection.execute(_READ_JSON, [str(path), form, max(SHORTEST_BUFFER, longest + 1024)])
