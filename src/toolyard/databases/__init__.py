"""Databases that are only read: one small interface over SQLite, DuckDB, PostgreSQL and MySQL, and the guard.

Owns connecting, looking at what tables there are, running one statement that cannot change anything within
limits of time, rows and bytes, and stopping it in the database. Owns no tools and no texts for callers in
other languages: a `DatabaseError` has a kind for those.
"""

from .factory import open_database
from .model import Database, DatabaseError, ErrorKind, ForeignKey, Rows, Table, TableColumn, TableIndex

__all__ = [
    "Database",
    "DatabaseError",
    "ErrorKind",
    "ForeignKey",
    "Rows",
    "Table",
    "TableColumn",
    "TableIndex",
    "open_database",
]
