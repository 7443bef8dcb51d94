"""The server, put together from its settings."""

from urllib.parse import urlsplit

from ... import __version__
from ...databases import Database, DatabaseError, open_database
from ...databases.addresses import dialect_of
from ...kit import Server
from ...kit.extras import need
from ...kit.making import WrongSettings
from .faces import INSTRUCTIONS, TITLE
from .settings import Settings, patterns

_DRIVERS = {
    "duckdb": ("sql", "duckdb"),
    "postgres": ("postgres", "psycopg"),
    "mysql": ("mysql", "pymysql"),
}
"""By dialect: the extra, and the package that is in it."""


def build(settings: Settings) -> Server:
    need("sql", "sql", "sqlglot")
    # These import it, which takes 60 ms of CPU that a list of servers does without.
    from .asking import Asking
    from .catalogue import Catalogue
    from .models import configured
    from .offers import offer
    from .statements import Statements

    _check_models(settings)
    database = _opened(settings)
    server = Server(
        "sql",
        version=__version__,
        title=TITLE[settings.locale],
        instructions=INSTRUCTIONS[settings.locale],
    )
    server.on_close(database.close)
    models = configured(settings)
    if models is not None:
        server.on_close(models.close)
    blocked = patterns(settings.blocked_tables), patterns(settings.blocked_columns)
    catalogue = Catalogue(database, *blocked)
    statements = Statements(database, settings, *blocked)
    offer(server, settings.locale, Asking(settings, catalogue, statements, models), catalogue)
    return server


def _opened(settings: Settings) -> Database:
    url = settings.database
    try:
        driver = _DRIVERS.get(dialect_of(url)) if url else None
        if driver is not None:
            need("sql", *driver)
        return open_database(url, memory=settings.max_memory_mb * 2**20)
    except DatabaseError as error:
        raise WrongSettings(f"field 'database': {error.reason}") from None


def _check_models(settings: Settings) -> None:
    """What would fail with every question is said at once. Neither is quoted: both may hold a secret."""
    if settings.model_url and not _is_address(settings.model_url):
        raise WrongSettings(
            "field 'model_url': this is no address; hint: such as http://127.0.0.1:11434/v1, "
            "without a user or password (the key is 'model_key')"
        )
    if not settings.model_key.isprintable():
        raise WrongSettings("field 'model_key': it holds a line break or another control character")


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
