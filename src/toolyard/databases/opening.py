"""From a URL to a database. A driver is imported when its kind is asked for: DuckDB's alone costs 100 ms."""

from .addresses import dialect_of, file_of
from .cached import CACHE_SECONDS
from .model import Database


def open_database(url: str, *, cache_seconds: float = CACHE_SECONDS) -> Database:
    """Nothing is connected yet. "" is the sample of the package; DatabaseError for what is no URL."""
    if not url:
        from .sample import sample_image
        from .sqlite import SqliteDatabase

        return SqliteDatabase("the sample shop", sample_image, cache_seconds=cache_seconds)
    match dialect_of(url):
        case "sqlite":
            from .sqlite import SqliteDatabase

            return SqliteDatabase(file_of(url).name, file_of(url), cache_seconds=cache_seconds)
        case "duckdb":
            from .duckdb import DuckDatabase

            return DuckDatabase(file_of(url), cache_seconds=cache_seconds)
        case "postgres":
            from .postgres import PostgresDatabase

            return PostgresDatabase(url, cache_seconds=cache_seconds)
        case _:
            from .mysql import MysqlDatabase

            return MysqlDatabase(url, cache_seconds=cache_seconds)
