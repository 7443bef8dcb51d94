"""Stored results as the table `result` of a DuckDB: a row for each record, value or line.

What DuckDB can read itself it reads from the file; the rest is rewritten, one JSON object a line.
"""

import sys
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import msgspec
from msgspec import Raw

from ..csv_texts import records_of
from ..envelopes import seen_through
from ..grids import as_record
from ..json_parts import LIST, OBJECT, all_items_of, first_byte, is_json
from ..ndjson import lines_of_json, value_in
from ..texts import separator_in
from .values import Failed

SHORTEST_BUFFER = 2**20
_READ_JSON = (
    "CREATE TABLE result AS SELECT * FROM read_json(?, format = ?, maximum_object_size = ?, "
    "sample_size = -1, map_inference_threshold = -1)"
)


def load(connection: Any, path: Path, json: bool) -> None:
    body = path.read_bytes()
    if json and is_json(body):
        _load_json(connection, path, body)
        return
    lines = lines_of_json(body)
    if lines is None:
        _load_text(connection, body)
    else:
        _load_lines(connection, path, lines)


def _load_lines(connection: Any, path: Path, lines: Sequence[Raw]) -> None:
    import duckdb

    try:
        _read(connection, path, "newline_delimited", _longest(lines))
    except duckdb.InvalidInputException:  # some are broken
        _rewrite(connection, map(_whole, lines))


def _whole(line: Raw) -> bytes:
    value = value_in(line)
    return bytes(line) if isinstance(value, dict) else msgspec.json.encode({"value": value})


def _load_json(connection: Any, path: Path, body: bytes) -> None:
    inside = seen_through(body)
    inner = inside.inner
    if first_byte(inner) != LIST:
        _rewrite(connection, iter([bytes(inner)]))
        return
    items = all_items_of(inner)
    if not items:
        raise Failed("It is an empty list: there is nothing to ask for")
    if inside.columns:
        _rewrite(connection, (_named(inside.columns, part) for part in items))
    elif not all(first_byte(memoryview(part)) == OBJECT for part in items):
        _rewrite(connection, map(_wrapped, items))
    elif len(inner) == len(body):
        _read(connection, path, "array", _longest(items))
    else:
        with _temporary() as (file, at):
            file.write(inner)
            file.flush()
            _read(connection, at, "array", _longest(items))


def _longest(items: Sequence[Raw]) -> int:
    return max(len(memoryview(part)) for part in items)


def _named(columns: Sequence[str], row: Raw) -> bytes:
    """A row of a table as a record."""
    value = as_record(columns, value_in(row))
    return msgspec.json.encode(value if isinstance(value, dict) else {"value": value})


def _wrapped(part: Raw) -> bytes:
    body = bytes(part)
    return body if body[:1] == b"{" else b'{"value":%s}' % body


def _load_text(connection: Any, body: bytes) -> None:
    """DuckDB has a reader of tables, which takes other things for numbers than expressions and pages do."""
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
    """A file, and where DuckDB finds it. On Linux it has no name, so that it ends with a killed worker."""
    if sys.platform == "linux":
        with tempfile.TemporaryFile("wb") as file:
            yield file, Path(f"/proc/self/fd/{file.fileno()}")
    else:
        with tempfile.NamedTemporaryFile("wb") as file:
            yield file, Path(file.name)


def _read(connection: Any, path: Path, form: str, longest: int) -> None:
    # It sets aside a multiple of the largest object there may be.
    connection.execute(_READ_JSON, [str(path), form, max(SHORTEST_BUFFER, longest + 1024)])
