"""Builds the server from its settings, and lists the tables as resources.

There is a resource for the list, a template for any table, and one resource for each table unless there
are too many.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from urllib.parse import quote

import msgspec

from ..._version import __version__
from ...databases import Database, DatabaseError, open_database
from ...kit import InvalidParams, Server, TextContents
from ...kit.features.base import ToolOptions
from ...kit.loader import SettingsError, require_extra
from ...kit.localization import add_localized_tool
from ...kit.schema.validation import schema_of
from ...kit.settings import open_database_setting, text_list
from .answers import (
    ColumnValues,
    Diagram,
    TableDescription,
    description_text,
    table_description,
    unknown_text,
)
from .catalogue import HiddenPatterns, SchemaCatalogue, Snapshot, contains, similar
from .notes import Knowledge, NotesError, read_folder
from .settings import Settings
from .texts import (
    DESCRIBE_EN,
    DESCRIBE_PT,
    DRAW_EN,
    DRAW_PT,
    VALUES_EN,
    VALUES_PT,
    SchemaTexts,
    texts_of,
)
from .tools import SchemaTools

TABLES_URI = "schema://tables"
TABLE_URI = "schema://tables/{name}"
_LIST_SECONDS = 5.0
"""Seconds that a list of resources waits for the database before it goes without the tables."""

logger = logging.getLogger("toolyard.servers.schema")


def add_resources(
    server: Server, catalogue: SchemaCatalogue, tools: SchemaTools, texts: SchemaTexts, most: int
) -> None:
    async def read(name: str) -> list[TextContents]:
        return _contents(await tools.snapshot(), name, texts)

    async def read_all() -> list[TextContents]:
        return await read("")

    async def complete(value: str, context: dict[str, str]) -> list[str]:
        try:
            names = list((await catalogue.snapshot()).tables)
        except DatabaseError:
            return []
        return [name for name in names if contains(value, name)] or similar(value, names)

    server.add_resource(
        read_all,
        TABLES_URI,
        name="tables",
        title=texts.resource_title,
        description=texts.resource_about,
        mime_type="application/json",
    )
    server.add_resource(
        read,
        TABLE_URI,
        name="table",
        title=texts.template_title,
        description=texts.template_about,
        mime_type="application/json",
    )
    server.completion(resource=TABLE_URI, argument="name")(complete)
    listing = ResourceListing(server, read, most)
    catalogue.on_change(listing.show)

    async def refresh() -> None:
        """Lists no tables if the database is unreachable or slow."""
        try:
            async with asyncio.timeout(_LIST_SECONDS):
                await catalogue.snapshot()
        except (DatabaseError, TimeoutError) as error:
            logger.warning("tables are not listed: %s", getattr(error, "reason", "the database is slow"))

    server.on_list_resources(refresh)


def _contents(snapshot: Snapshot, name: str, texts: SchemaTexts) -> list[TextContents]:
    """The description as JSON for programs, and as Markdown."""
    answer = table_description(snapshot, name)
    if not answer.found:
        what = texts.unknown_table.format(name=name)
        raise InvalidParams(unknown_text(what, answer.suggestions, texts.all_tables, texts))
    uri = uri_of(answer.table) if answer.table else TABLES_URI
    return [
        TextContents(uri, msgspec.json.encode(answer).decode(), "application/json"),
        TextContents(uri, description_text(answer, texts), "text/markdown"),
    ]


def uri_of(table: str) -> str:
    return f"{TABLES_URI}/{quote(table, safe='')}"


class ResourceListing:
    """Keeps the listed resources in step with the tables."""

    def __init__(
        self, server: Server, read: Callable[[str], Awaitable[list[TextContents]]], most: int
    ) -> None:
        self._server = server
        self._read = read
        self._most = most
        self._listed: dict[str, str] | None = None

    def show(self, snapshot: Snapshot) -> None:
        wanted: dict[str, str] = {}
        if len(snapshot.tables) <= self._most:
            wanted = {name: snapshot.about(table) for name, table in snapshot.tables.items()}
        listed = self._listed or {}
        for name in [name for name in listed if listed[name] != wanted.get(name)]:
            self._server.remove_resource(uri_of(name))
            del listed[name]
        for name, about in wanted.items():
            if name not in listed:
                self._add(name, about)
        # The first list is the answer to a request, so it needs no notification.
        if self._listed is not None:
            self._server.notify_resources_changed()
        self._listed = wanted

    def _add(self, name: str, about: str) -> None:
        async def read() -> list[TextContents]:
            return await self._read(name)

        self._server.add_resource(
            read,
            uri_of(name),
            name=name,
            description=about or None,
            mime_type="application/json",
        )


_SAMPLE = Path(__file__).with_name("sample")


def build(settings: Settings) -> Server:
    database = _database(settings)
    texts = texts_of(settings.locale)
    knowledge = _knowledge(settings)
    hidden = HiddenPatterns(
        [*text_list(settings.blocked_tables), *knowledge.blocked_tables],
        [*text_list(settings.blocked_columns), *knowledge.blocked_columns],
    )
    catalogue = SchemaCatalogue(database, knowledge, hidden)
    tools = SchemaTools(catalogue, texts, settings.seconds)
    server = Server(
        "schema",
        version=__version__,
        locale=settings.locale,
        title=texts.title,
        instructions=texts.instructions,
    )
    _add_tools(server, settings, tools)
    add_resources(server, catalogue, tools, texts, settings.listed)
    server.on_close(database.close)
    return server


def _add_tools(server: Server, settings: Settings, tools: SchemaTools) -> None:
    def options(answer: type) -> ToolOptions:
        return {
            "read_only": True,
            "destructive": False,
            "idempotent": True,
            "open_world": False,
            "output_schema": schema_of(answer),
        }

    add_localized_tool(server, tools.describe, en=DESCRIBE_EN, pt=DESCRIBE_PT, **options(TableDescription))
    add_localized_tool(server, tools.list_values, en=VALUES_EN, pt=VALUES_PT, **options(ColumnValues))
    add_localized_tool(server, tools.draw, en=DRAW_EN, pt=DRAW_PT, **options(Diagram))


def _database(settings: Settings) -> Database:
    require_extra("schema", "sql", "sqlglot", "yaml", "PIL")
    return open_database_setting(
        "schema",
        settings.database,
        partial(open_database, cache_seconds=settings.cache_seconds, locale=settings.locale),
    )


def _knowledge(settings: Settings) -> Knowledge:
    if not settings.folder and settings.database:
        return Knowledge()
    folder = Path(settings.folder).expanduser() if settings.folder else _SAMPLE / settings.locale
    try:
        return read_folder(folder)
    except NotesError as error:
        raise SettingsError(f"folder: {error}") from None
