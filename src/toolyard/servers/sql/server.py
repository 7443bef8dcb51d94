"""Builds the server from its settings.

The modules that need sqlglot are imported in `build`, after the extra has been checked.
"""

from urllib.parse import urlsplit

from ... import __version__
from ...databases import Database, DatabaseError, open_database
from ...databases.model import dialect_of
from ...kit import Server
from ...kit.loader import SettingsError, require_extra
from .settings import Settings, patterns
from .texts import INSTRUCTIONS, TITLE

_DRIVERS = {
    "duckdb": ("sql", "duckdb"),
    "postgres": ("postgres", "psycopg"),
    "mysql": ("mysql", "pymysql"),
}
"""By dialect: the extra, and the package that is in it."""


def build(settings: Settings) -> Server:
    require_extra("sql", "sql", "sqlglot")
    # These import it, which takes 60 ms of CPU that a list of servers does without.
    from .catalogue import SqlCatalogue
    from .models import model_client
    from .pipeline import GuardedStatements
    from .tools import SqlTool, add_query_tool

    _check_models(settings)
    database = _opened(settings)
    server = Server(
        "sql",
        version=__version__,
        title=TITLE[settings.locale],
        instructions=INSTRUCTIONS[settings.locale],
    )
    server.on_close(database.close)
    models = model_client(settings)
    if models is not None:
        server.on_close(models.close)
    blocked = patterns(settings.blocked_tables), patterns(settings.blocked_columns)
    catalogue = SqlCatalogue(database, *blocked)
    statements = GuardedStatements(database, settings, *blocked)
    add_query_tool(server, settings.locale, SqlTool(settings, catalogue, statements, models), catalogue)
    return server


def _opened(settings: Settings) -> Database:
    url = settings.database
    try:
        driver = _DRIVERS.get(dialect_of(url)) if url else None
        if driver is not None:
            require_extra("sql", *driver)
        return open_database(url, memory=settings.max_memory_mb * 2**20)
    except DatabaseError as error:
        raise SettingsError(f"field 'database': {error.reason}") from None


def _check_models(settings: Settings) -> None:
    """What would fail with every question is said at once. Neither is quoted: both may hold a secret."""
    if settings.model_url and not _is_address(settings.model_url):
        raise SettingsError(
            "field 'model_url': this is no address; hint: such as http://127.0.0.1:11434/v1, "
            "without a user or password (the key is 'model_key')"
        )
    if not settings.model_key.isprintable():
        raise SettingsError("field 'model_key': it holds a line break or another control character")


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and "@" not in parts.netloc
            and (parts.port is None or parts.port > 0)
        )
    except ValueError:  # a port that is no number, brackets that do not close
        return False
