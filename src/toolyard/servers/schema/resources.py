"""Tables as resources: the list, a template for any of them, and each by itself if they are not too many."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from urllib.parse import quote

import msgspec

from ...databases import DatabaseError
from ...kit import InvalidParams, Server, TextContents
from .catalogue import Catalogue, Snapshot
from .describing import described
from .names import contains, similar
from .texts import Texts
from .tools import Tools
from .writing import unknown, written

ALL = "schema://tables"
TEMPLATE = "schema://tables/{name}"
_PATIENCE = 5.0
"""Seconds that a list of resources waits for the database; it may be empty, but not late."""

logger = logging.getLogger("toolyard.servers.schema")


def add_resources(server: Server, catalogue: Catalogue, tools: Tools, texts: Texts, most: int) -> None:
    async def read(name: str) -> list[TextContents]:
        return _contents(await tools.look(), name, texts)

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
        ALL,
        name="tables",
        title=texts.resource_title,
        description=texts.resource_about,
        mime_type="application/json",
    )
    server.add_resource(
        read,
        TEMPLATE,
        name="table",
        title=texts.template_title,
        description=texts.template_about,
        mime_type="application/json",
    )
    server.completion(resource=TEMPLATE, argument="name")(complete)
    listing = Listing(server, read, most)
    catalogue.on_change(listing.show)

    async def look() -> None:
        """An unreachable database costs the tables, and a slow one no more than this."""
        try:
            async with asyncio.timeout(_PATIENCE):
                await catalogue.snapshot()
        except (DatabaseError, TimeoutError) as error:
            logger.warning("tables are not listed: %s", getattr(error, "reason", "the database is slow"))

    server.on_list_resources(look)


def _contents(snapshot: Snapshot, name: str, texts: Texts) -> list[TextContents]:
    """Twice: for programs, and for whoever reads."""
    answer = described(snapshot, name)
    if not answer.found:
        what = texts.unknown_table.format(name=name)
        raise InvalidParams(unknown(what, answer.suggestions, texts.all_tables, texts))
    address = address_of(answer.table) if answer.table else ALL
    return [
        TextContents(address, msgspec.json.encode(answer).decode(), "application/json"),
        TextContents(address, written(answer, texts), "text/markdown"),
    ]


def address_of(table: str) -> str:
    return f"{ALL}/{quote(table, safe='')}"


class Listing:
    """Keeps the tables that are listed those that are there."""

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
            self._server.remove_resource(address_of(name))
            del listed[name]
        for name, about in wanted.items():
            if name not in listed:
                self._add(name, about)
        # Whoever asked for the first list has it already.
        if self._listed is not None:
            self._server.notify_resources_changed()
        self._listed = wanted

    def _add(self, name: str, about: str) -> None:
        async def read() -> list[TextContents]:
            return await self._read(name)

        self._server.add_resource(
            read,
            address_of(name),
            name=name,
            description=about or None,
            mime_type="application/json",
        )
