"""`python -m toolyard.results.reading.worker`: queries over stored results, in a process of their own.

A query is a stranger's: it may take all the time and memory there is. So this process has limits on both,
sees one file at a time, and is ended from outside when it takes too long. One request a line on standard
input, one answer a line on standard output.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from typing import Any, cast

import msgspec
from msgspec import Struct

from ..csv_texts import separator_of as dialect_of
from ..envelopes import seen_through
from ..json_parts import is_json, items_of, members_of
from ..ndjson import json_lines

SPARE = 2**30 + 2**29
"""Address space beyond the memory that a query may have: libraries and threads take much and use little."""
MOST_COUNTED = 5_000_000
SHORTEST_BUFFER = 2**20


class Request(Struct):
    way: str
    path: str
    json: bool
    text: str
    offset: int
    limit: int
    room: int
    memory: int


class Failed(Exception):
    """The query cannot be answered; the message is for its author."""


def answer(request: Request) -> dict[str, Any]:
    with open(request.path, "rb") as file:
        body = file.read()
    if request.way == "sql":
        return _by_sql(request, body)
    value = _value(body, request.json)
    if request.way == "query":
        value = _by_query(request.text, value)
    return _part(value, request)


def _value(body: bytes, json: bool) -> Any:
    if json and is_json(body):
        return msgspec.json.decode(body)
    lines = json_lines(body)
    if lines is not None:
        return [msgspec.json.decode(part) for part in lines.parts]
    return body.decode("utf-8", "replace").splitlines()


def _by_query(text: str, value: Any) -> Any:
    import jmespath
    from jmespath.exceptions import JMESPathError, LexerError, ParseError

    try:
        compiled = jmespath.compile(text)
    except (LexerError, ParseError) as error:
        place = getattr(error, "lex_position", 0) or 0
        told = str(getattr(error, "message", "") or error).splitlines()[0]
        where = f"at character {place + 1}: {told}\n{_pointed(text, place)}"
        raise Failed(f"The JMESPath expression is wrong {where}") from None
    except JMESPathError as error:
        raise Failed(f"The JMESPath expression is wrong: {error}") from None
    try:
        return compiled.search(value)
    except (JMESPathError, TypeError, ValueError, ZeroDivisionError) as error:
        raise Failed(f"The JMESPath expression does not fit the data: {error}") from None


def _pointed(text: str, place: int) -> str:
    start = max(0, place - 40)
    shown = text[start : place + 40].replace("\n", " ")
    return f"{shown}\n{' ' * (place - start)}^"


def _part(value: Any, request: Request) -> dict[str, Any]:
    """As much of a value as there is room for."""
    if not isinstance(value, list):
        size = len(msgspec.json.encode(value))
        return {"value": value} if size <= request.room else {"too_big": size, "value": value}
    values = cast(list[Any], value)
    items: list[Any] = []
    left = request.room
    for item in values[request.offset : request.offset + request.limit]:
        left -= len(msgspec.json.encode(item)) + 1
        if left < 0:
            break
        items.append(item)
    first = values[request.offset] if not items and request.offset < len(values) else None
    return {"items": items, "total": len(values), **({} if first is None else {"first": first})}


def _by_sql(request: Request, body: bytes) -> dict[str, Any]:
    import duckdb

    limits: dict[str, Any] = {
        "threads": 1,
        "memory_limit": f"{request.memory // 2**20}MiB",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "allow_community_extensions": "false",
        "max_temp_directory_size": "0KiB",
    }
    connection = duckdb.connect(":memory:", config=limits)
    try:
        _load(connection, body, request.json)
        # From here on it sees nothing but the table.
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        _check(request.text)
        cursor = connection.execute(request.text)
        return _rows(cursor, request)
    except duckdb.Error as error:
        raise Failed(f"The SQL cannot be run: {_told(error)}") from None
    finally:
        connection.close()


def _check(text: str) -> None:
    import duckdb

    statements = duckdb.extract_statements(text)
    if len(statements) != 1:
        raise Failed(f"One statement at a time: this has {len(statements)}")
    if statements[0].type != duckdb.StatementType.SELECT:
        kind = str(statements[0].type).rpartition(".")[2]
        raise Failed(f"Only SELECT can be run, not {kind}: a stored result is for reading")


def _told(error: Exception) -> str:
    text = str(error)
    if "disabled by configuration" in text:
        return "files and addresses cannot be read, only the table `result`"
    return text[:1_000]


def _load(connection: Any, body: bytes, json: bool) -> None:
    """The table `result`: a row for each record, value or line."""
    with tempfile.NamedTemporaryFile("wb", suffix=".ndjson") as file:
        longest = SHORTEST_BUFFER
        for line in _records(body, json):
            longest = max(longest, len(line) + 2)
            file.write(line + b"\n")
        file.flush()
        # It sets aside a multiple of the largest object there may be.
        connection.execute(
            "CREATE TABLE result AS SELECT * FROM read_json(?, format = 'newline_delimited', "
            "maximum_object_size = ?, sample_size = -1)",
            [file.name, longest],
        )


def _records(body: bytes, json: bool) -> Iterator[bytes]:
    if not json or not is_json(body):
        yield from _records_of_text(body)
        return
    inner = seen_through(body).inner
    items = items_of(inner)
    parts = [memoryview(inner)] if items is None else [memoryview(part) for part in items.parts]
    if items is None and members_of(inner) is None:
        raise Failed("It has no records that SQL could ask for; read it by pages or with a JMESPath query")
    for part in parts:
        line = _one_line(bytes(part))
        yield line if line[:1] == b"{" else b'{"value":%s}' % line


def _one_line(part: bytes) -> bytes:
    part = part.strip()
    return part if b"\n" not in part else part.replace(b"\n", b" ").replace(b"\r", b" ")


def _records_of_text(body: bytes) -> Iterator[bytes]:
    lines = json_lines(body)
    if lines is not None:
        for part in lines.parts:
            yield _one_line(bytes(part))
        return
    text = body.decode("utf-8", "replace")
    separator = dialect_of([line for line in text[:100_000].splitlines()[:50] if line.strip()])
    if separator is None:
        for number, line in enumerate(text.splitlines(), 1):
            yield msgspec.json.encode({"line": number, "text": line})
        return
    import csv
    import io

    for record in csv.DictReader(io.StringIO(text), delimiter=separator):
        yield msgspec.json.encode({str(name): _typed(cell) for name, cell in record.items() if name})


def _typed(cell: Any) -> Any:
    for kind in (int, float):
        try:
            return kind(cell)
        except (TypeError, ValueError):
            continue
    return cell or None


def _rows(cursor: Any, request: Request) -> dict[str, Any]:
    names = [column[0] for column in cursor.description]
    skipped = 0
    while skipped < request.offset:
        passed = cursor.fetchmany(min(10_000, request.offset - skipped))
        if not passed:
            break
        skipped += len(passed)
    rows: list[Any] = []
    left = request.room
    total = skipped
    first: Any = None
    full = False
    while total < MOST_COUNTED and (found := cursor.fetchmany(1_000)):
        for row in found:
            if full or len(rows) >= request.limit:
                continue
            record = dict(zip(names, map(_plain, row), strict=True))
            left -= len(msgspec.json.encode(record)) + 1
            if left < 0:
                full, first = True, record if not rows else None
            else:
                rows.append(record)
        total += len(found)
    return {"items": rows, "total": total, "columns": names, **({} if first is None else {"first": first})}


def _plain(value: Any) -> Any:
    """What JSON has no form for is told as text."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def _limit(memory: int) -> None:
    try:
        import resource
    except ImportError:  # Windows has no such limits; DuckDB's own holds there too
        return
    most = memory + SPARE
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (most if hard < 0 else min(most, hard), hard))


def main() -> None:
    """Until its standard input ends. What a library prints goes to stderr, never among the answers."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    for line in sys.stdin.buffer:
        request = msgspec.json.decode(line, type=Request)
        _limit(request.memory)
        try:
            told: dict[str, Any] = {"ok": answer(request)}
        except Failed as error:
            told = {"failed": str(error)}
        except MemoryError:
            told = {"failed": f"It needs more than the {request.memory // 2**20} MiB that a query may take"}
        except RecursionError:
            told = {"failed": "It is nested too deeply to be asked"}
        answers.write(msgspec.json.encode(told) + b"\n")
        answers.flush()


if __name__ == "__main__":
    main()
