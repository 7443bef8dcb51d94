"""From a URL to a database. A driver is imported when its kind is asked for, or only in a worker."""

from pathlib import Path

from .addresses import dialect_of, file_of
from .cached import CACHE_SECONDS
from .embedded import MEMORY, EmbeddedDatabase
from .model import Database


def open_database(url: str, *, memory: int = MEMORY, cache_seconds: float = CACHE_SECONDS) -> Database:
    """Nothing is connected yet. "" is the sample of the package; DatabaseError for what is no URL.

    `memory` is how many bytes a statement on SQLite or DuckDB may take; other databases have limits
    of their own.
    """
    if not url:
        return EmbeddedDatabase("sqlite", "the sample shop", None, memory=memory, cache_seconds=cache_seconds)
    match dialect_of(url):
        case "sqlite" | "duckdb" as dialect:
            path: Path = file_of(url)
            return EmbeddedDatabase(dialect, path.name, path, memory=memory, cache_seconds=cache_seconds)
        case "postgres":
            from .postgres import PostgresDatabase

            return PostgresDatabase(url, cache_seconds=cache_seconds)
        case _:
            from .mysql import MysqlDatabase

            return MysqlDatabase(url, cache_seconds=cache_seconds)
