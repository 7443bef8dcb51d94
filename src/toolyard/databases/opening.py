"""From a URL to a database. A driver is imported when its kind is asked for: DuckDB's alone costs 100 ms."""

from toolyard.databases.addresses import dialect_of, file_of
from toolyard.databases.cached import CACHE_SECONDS
from toolyard.databases.model import Database


def open_database(url: str, *, cache_seconds: float = CACHE_SECONDS) -> Database:
    """Nothing is connected yet. "" is the sample of the package; DatabaseError for what is no URL."""
    if not url:
        from toolyard.databases.sample import sample_image
        from toolyard.databases.sqlite import SqliteDatabase

        return SqliteDatabase("the sample shop", sample_image, cache_seconds=cache_seconds)
    match dialect_of(url):
        case "sqlite":
            from toolyard.databases.sqlite import SqliteDatabase

            return SqliteDatabase(file_of(url).name, file_of(url), cache_seconds=cache_seconds)
        case "duckdb":
            from toolyard.databases.duckdb import DuckDatabase

            return DuckDatabase(file_of(url), cache_seconds=cache_seconds)
        case "postgres":
            from toolyard.databases.postgres import PostgresDatabase

            return PostgresDatabase(url, cache_seconds=cache_seconds)
        case _:
            from toolyard.databases.mysql import MysqlDatabase

            return MysqlDatabase(url, cache_seconds=cache_seconds)
