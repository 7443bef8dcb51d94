"""Read-only databases: one small interface to SQLite, DuckDB, PostgreSQL and MySQL, and the guard.

Owns connections, the list of tables, and running one statement that only reads, within limits of time, rows
and bytes. Owns no tools and no translated texts: a `DatabaseError` has a kind for those.
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
