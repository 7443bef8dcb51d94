"""SQL over a stored result: one SELECT, on one table, with no way out. Runs in the worker."""

from pathlib import Path
from typing import Any, cast

import msgspec

from .expressions import Failed
from .parts import Part, of_items
from .tables import load

AT_A_TIME = 1_000
MOST_COUNTED = 100_000
LONGEST_TOLD = 1_000
ZONED = "WITH TIME ZONE"


class Database:
    """The result that was asked for last stays loaded: who asks once asks again."""

    def __init__(self) -> None:
        self._loaded: tuple[Path, int] | None = None
        self._connection: Any = None

    def select(self, path: Path, json: bool, text: str, memory: int) -> "Selection":
        import duckdb

        try:
            check(text)
            if self._loaded != (path, memory):
                self._load(path, json, memory)
            return Selection(self._connection, text)
        except duckdb.Error as error:
            raise self.failure(error, memory) from None

    def _load(self, path: Path, json: bool, memory: int) -> None:
        import duckdb

        self.close()
        self._connection = duckdb.connect(":memory:", config=_settings(memory))
        self._connection.execute("SET TimeZone = 'UTC'")
        try:
            load(self._connection, path, json)
        except duckdb.OutOfMemoryException:
            raise
        except duckdb.Error:
            # What it says names the file that we read, which is nobody's business.
            raise Failed("It cannot be read as a table; read it by pages or with a JMESPath query") from None
        # From here on it sees nothing but the table.
        self._connection.execute("SET enable_external_access = false")
        self._connection.execute("SET lock_configuration = true")
        self._loaded = (path, memory)

    def failure(self, error: Exception, memory: int) -> Failed:
        import duckdb

        if isinstance(error, duckdb.OutOfMemoryException):
            self.close()
            return Failed(f"The SQL needs more than the {memory // 2**20} MiB that a query may take")
        if isinstance(error, duckdb.FatalException | duckdb.InternalException):
            self.close()
        told = str(error)[:LONGEST_TOLD]
        if "disabled by configuration" in told:
            told = "files and addresses cannot be read, only the table `result`"
        return Failed(f"The SQL cannot be run: {told}")

    def close(self) -> None:
        self._loaded = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _settings(memory: int) -> dict[str, Any]:
    return {
        "threads": 1,
        "memory_limit": f"{max(1, memory // 2**20)}MiB",
        # No folder at all: a size of nothing means no limit, and what a killed query spilt stays for ever.
        "temp_directory": "",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "allow_community_extensions": "false",
        "python_enable_replacements": "false",
    }


def check(text: str) -> None:
    import duckdb

    statements = duckdb.extract_statements(text)
    if len(statements) != 1:
        raise Failed(f"One statement at a time: this has {len(statements)}")
    if statements[0].type != duckdb.StatementType.SELECT:
        kind = str(statements[0].type).rpartition(".")[2]
        raise Failed(f"Only SELECT can be run, not {kind}: a stored result is for reading")


class Selection:
    """What a SELECT gives, row by row."""

    def __init__(self, connection: Any, text: str) -> None:
        self._connection = connection
        self._whole = text.strip().rstrip(";")
        self._cursor = connection.cursor().execute(text)
        columns = self._cursor.description
        self._names = _distinct([column[0] for column in columns])
        self._zoned = [ZONED in str(column[1]) for column in columns]
        if any(self._zoned):
            self._cursor = self._without_zones()

    def _without_zones(self) -> Any:
        """Times with a zone as JSON: as values DuckDB makes them with a package that few have."""
        import duckdb

        names = [f"c{at}" for at in range(len(self._names))]
        shown = [
            f"to_json({name})" if zoned else name for name, zoned in zip(names, self._zoned, strict=True)
        ]
        text = f"SELECT {', '.join(shown)} FROM (\n{self._whole}\n) AS found({', '.join(names)})"
        try:
            return self._connection.cursor().execute(text)
        except (duckdb.ParserException, duckdb.BinderException):
            raise Failed(
                "The SQL gives times with a zone; ask for them as text: CAST(… AS VARCHAR)"
            ) from None

    def _record(self, row: tuple[Any, ...]) -> dict[str, Any]:
        values = (
            msgspec.json.decode(value) if zoned and value is not None else _plain(value)
            for value, zoned in zip(row, self._zoned, strict=True)
        )
        return dict(zip(self._names, values, strict=True))

    def part(self, offset: int, limit: int, room: int) -> Part:
        passed = self._passed(offset)
        rows = self._cursor.fetchmany(limit)
        found = [self._record(row) for row in rows]
        total, exact = passed + len(rows), True
        if len(rows) == limit:
            total, exact = self._counted(total)
        part = of_items(found, total, passed, room, "rows")
        return Part(part.kind, part.shown, passed, part.count, total, part.cut, at_least=not exact)

    def _passed(self, most: int) -> int:
        passed = 0
        while passed < most and (rows := self._cursor.fetchmany(min(AT_A_TIME, most - passed))):
            passed += len(rows)
        return passed

    def _counted(self, so_far: int) -> tuple[int, bool]:
        """How many rows there are in all, and whether that is certain. Counting leaves the values alone."""
        import duckdb

        try:
            count = f"SELECT count(*) FROM (\n{self._whole}\n)"
            found = self._connection.cursor().execute(count).fetchone()
            return int(found[0]), True
        except (duckdb.ParserException, duckdb.BinderException):  # it cannot stand inside another one
            more = self._passed(MOST_COUNTED)
            return so_far + more, more < MOST_COUNTED


def _distinct(names: list[str]) -> list[str]:
    """Of two columns of one name the second gets a number, or one of them would be lost."""
    found: list[str] = []
    for name in names:
        number = 1
        shown = name
        while shown in found:
            number += 1
            shown = f"{name}_{number}"
        found.append(shown)
    return found


def _plain(value: Any) -> Any:
    """What JSON has no form for is told as text."""
    if isinstance(value, float) and value - value != 0:
        return str(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in cast(list[Any], value)]
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in cast(dict[Any, Any], value).items()}
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
