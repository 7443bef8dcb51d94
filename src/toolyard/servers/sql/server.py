"""Builds the server from its settings.

The modules that need sqlglot are imported in `build`, after the extra has been checked.
"""

from functools import partial
from urllib.parse import urlsplit

from ..._version import __version__
from ...databases import open_database
from ...kit import Server
from ...kit.loader import SettingsError, require_extra
from ...kit.settings import open_database_setting, text_list
from .settings import Settings
from .texts import INSTRUCTIONS, TITLE


def build(settings: Settings) -> Server:
    require_extra("sql", "sql", "sqlglot")
    # These modules import sqlglot: 60 ms of CPU that a listing of the servers saves.
    from .catalogue import SqlCatalogue
    from .models import model_client
    from .pipeline import GuardedStatements
    from .tools import SqlTool, add_query_tool

    _check_models(settings)
    database = open_database_setting(
        "sql",
        settings.database,
        partial(open_database, memory=settings.max_memory_mb * 2**20, locale=settings.locale),
    )
    server = Server(
        "sql",
        version=__version__,
        locale=settings.locale,
        title=TITLE[settings.locale],
        instructions=INSTRUCTIONS[settings.locale],
    )
    server.on_close(database.close)
    models = model_client(settings)
    if models is not None:
        server.on_close(models.close, reopens=True)
    blocked = text_list(settings.blocked_tables), text_list(settings.blocked_columns)
    catalogue = SqlCatalogue(database, *blocked)
    statements = GuardedStatements(database, settings, *blocked)
    add_query_tool(server, settings.locale, SqlTool(settings, catalogue, statements, models), catalogue)
    return server


def _check_models(settings: Settings) -> None:
    """Finds errors that would fail every question. Quotes neither value: both may hold a secret."""
    if settings.model_url and not _is_url(settings.model_url):
        raise SettingsError(
            "field 'model_url': not a valid URL; hint: use one such as http://127.0.0.1:11434/v1, "
            "without a user or password (the key is 'model_key')"
        )
    if not settings.model_key.isprintable():
        raise SettingsError("field 'model_key': contains a line break or another control character")


def _is_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and "@" not in parts.netloc
            and (parts.port is None or parts.port > 0)
        )
    except ValueError:  # a port that is not a number, an unclosed bracket
        return False
