"""Opens a database by its URL. Imports a driver only when its dialect is used."""

from pathlib import Path

from ..languages import Locale
from .embedded.duckdb_files import is_data
from .model import CACHE_SECONDS, DIALECTS, MEMORY, Database, dialect_of, file_of

_SUFFIXES = {
    ".duckdb": "duckdb",
    ".ddb": "duckdb",
    ".sqlite": "sqlite",
    ".sqlite3": "sqlite",
    ".db": "sqlite",
}


def url_of(given: str) -> str:
    """The URL that a setting means, which may be the bare path of a file that SQLite or DuckDB reads."""
    if "://" in given or given.partition(":")[0].lower() in DIALECTS:
        return given
    path = Path(given).expanduser()
    scheme = "duckdb" if given and is_data(path) else _SUFFIXES.get(path.suffix.lower())
    return f"{scheme}:{given}" if scheme else given


def open_database(
    url: str, *, memory: int = MEMORY, cache_seconds: float = CACHE_SECONDS, locale: Locale = "en"
) -> Database:
    """Connects nothing yet. "" is the sample of the package, described in the language of `locale`.

    A path of a file in place of the URL will do, where its name says what it is.
    `memory` is how many bytes a statement on SQLite or DuckDB may use; other databases have their own limits.
    Raises DatabaseError for an invalid URL.
    """
    url = url_of(url)
    match dialect_of(url) if url else "sample":
        case "sample" | "sqlite" | "duckdb" as dialect:
            from .embedded.database import EmbeddedDatabase  # 50 ms with asyncio

            path = file_of(url) if url else None
            name = path.name if path else "the sample shop"
            dialect = "sqlite" if dialect == "sample" else dialect
            return EmbeddedDatabase(
                dialect, name, path, memory=memory, cache_seconds=cache_seconds, locale=locale
            )
        case "postgres":
            from .postgres import PostgresDatabase

            return PostgresDatabase(url, cache_seconds=cache_seconds)
        case _:
            from .mysql import MysqlDatabase

            return MysqlDatabase(url, cache_seconds=cache_seconds)
