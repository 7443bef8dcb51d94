"""Opens a database by its URL. Imports a driver only when its dialect is used."""

from .model import CACHE_SECONDS, MEMORY, Database, dialect_of, file_of


def open_database(url: str, *, memory: int = MEMORY, cache_seconds: float = CACHE_SECONDS) -> Database:
    """Connects nothing yet. "" is the sample of the package. Raises DatabaseError for an invalid URL.

    `memory` is how many bytes a statement on SQLite or DuckDB may use; other databases have their own limits.
    """
    match dialect_of(url) if url else "sample":
        case "sample" | "sqlite" | "duckdb" as dialect:
            from .embedded.database import EmbeddedDatabase  # 50 ms with asyncio

            path = file_of(url) if url else None
            name = path.name if path else "the sample shop"
            dialect = "sqlite" if dialect == "sample" else dialect
            return EmbeddedDatabase(dialect, name, path, memory=memory, cache_seconds=cache_seconds)
        case "postgres":
            from .postgres import PostgresDatabase

            return PostgresDatabase(url, cache_seconds=cache_seconds)
        case _:
            from .mysql import MysqlDatabase

            return MysqlDatabase(url, cache_seconds=cache_seconds)
