"""Settings that several servers have: lists written as text, and the database to open.

Apart from the loader, because a function of AWS Lambda is packed with all that a module imports, and most
servers have no database.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .loader import SettingsError, require_extra

if TYPE_CHECKING:
    from ..databases import Database

_DRIVERS = {"duckdb": ("sql", "duckdb"), "postgres": ("postgres", "psycopg"), "mysql": ("mysql", "pymysql")}
"""By dialect: the extra, and the package in it."""


def text_list(given: str | Sequence[str], separator: str = ",") -> tuple[str, ...]:
    """Splits a text; the environment and the command line have no lists."""
    listed = given.split(separator) if isinstance(given, str) else given
    return tuple(text for one in listed if (text := one.strip()))


def open_database_setting(server: str, url: str, open_database: Callable[[str], "Database"]) -> "Database":
    """Opens the database of the setting `database`, after a check that its driver is installed."""
    from ..databases import DatabaseError  # 1.4 ms of CPU that servers without a database save
    from ..databases.factory import url_of
    from ..databases.model import dialect_of

    try:
        driver = _DRIVERS.get(dialect_of(url_of(url))) if url else None
        if driver is not None:
            require_extra(server, *driver)
        return open_database(url)
    except DatabaseError as error:
        raise SettingsError(f"field 'database': {error.reason}") from None
