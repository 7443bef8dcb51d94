"""Putting the server together."""

from pathlib import Path

from ... import __version__
from ...databases import Database, DatabaseError, open_database
from ...databases.addresses import dialect_of
from ...kit import Server
from ...kit.extras import need
from ...kit.languages import add_tool
from ...kit.making import WrongSettings
from ...kit.options import ToolOptions
from ...kit.schema import schema_of
from . import faces
from .answers import Described, Diagram, Values
from .catalogue import Catalogue
from .hiding import Hidden
from .notes import Knowledge, NotesError, read_folder
from .resources import add_resources
from .settings import Settings, patterns
from .texts import texts
from .tools import Tools

_SAMPLE = Path(__file__).with_name("sample")
_DRIVERS = {"duckdb": ("sql", "duckdb"), "postgres": ("postgres", "psycopg"), "mysql": ("mysql", "pymysql")}
"""The extra that a database needs, and the package in it."""


def build(settings: Settings) -> Server:
    database = _database(settings)
    words = texts(settings.locale)
    knowledge = _knowledge(settings)
    hidden = Hidden(
        [*patterns(settings.blocked_tables), *knowledge.blocked_tables],
        [*patterns(settings.blocked_columns), *knowledge.blocked_columns],
    )
    catalogue = Catalogue(database, knowledge, hidden)
    tools = Tools(catalogue, words, settings.seconds)
    server = Server("schema", version=__version__, title=words.title, instructions=words.instructions)
    _add_tools(server, settings, tools)
    add_resources(server, catalogue, tools, words, settings.listed)
    server.on_close(database.close)
    return server


def _add_tools(server: Server, settings: Settings, tools: Tools) -> None:
    def options(answer: type) -> ToolOptions:
        return {
            "read_only": True,
            "destructive": False,
            "idempotent": True,
            "open_world": False,
            "output_schema": schema_of(answer),
        }

    locale = settings.locale
    add_tool(server, locale, tools.describe, en=faces.DESCRIBE_EN, pt=faces.DESCRIBE_PT, **options(Described))
    add_tool(server, locale, tools.list_values, en=faces.VALUES_EN, pt=faces.VALUES_PT, **options(Values))
    add_tool(server, locale, tools.draw, en=faces.DRAW_EN, pt=faces.DRAW_PT, **options(Diagram))


def _database(settings: Settings) -> Database:
    need("schema", "sql", "sqlglot", "yaml", "PIL")
    try:
        dialect = dialect_of(settings.database) if settings.database else "sqlite"
        if dialect in _DRIVERS:
            need("schema", *_DRIVERS[dialect])
        return open_database(settings.database, cache_seconds=settings.cache_seconds)
    except DatabaseError as error:
        raise WrongSettings(f"database: {error.reason}") from None


def _knowledge(settings: Settings) -> Knowledge:
    if not settings.folder and settings.database:
        return Knowledge()
    folder = Path(settings.folder).expanduser() if settings.folder else _SAMPLE / settings.locale
    try:
        return read_folder(folder)
    except NotesError as error:
        raise WrongSettings(f"folder: {error}") from None
