"""Databases that are only read: one small interface over SQLite, DuckDB, PostgreSQL and MySQL, and the guard.

Owns connecting, looking at what tables there are, running one statement that cannot change anything within
limits of time, rows and bytes, and stopping it in the database. Owns no tools and no texts for callers in
other languages: a `DatabaseError` has a kind for those.
"""

from .model import (
    Column,
    Database,
    DatabaseError,
    ErrorKind,
    ForeignKey,
    Index,
    Rows,
    Table,
)
from .opening import open_database

__all__ = [
    "Column",
    "Database",
    "DatabaseError",
    "ErrorKind",
    "ForeignKey",
    "Index",
    "Rows",
    "Table",
    "open_database",
]
