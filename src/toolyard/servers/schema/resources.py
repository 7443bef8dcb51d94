"""Tables as resources: the list, a template for any of them, and each by itself if they are not too many."""

import asyncio
import logging
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
    server.on_list_resources(Listing(server, catalogue, tools, texts, most).renew)


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

    def __init__(self, server: Server, catalogue: Catalogue, tools: Tools, texts: Texts, most: int) -> None:
        self._server = server
        self._catalogue = catalogue
        self._tools = tools
        self._texts = texts
        self._most = most
        self._listed: dict[str, str] = {}

    async def renew(self) -> None:
        """Before a list is given; an unreachable database leaves what was there."""
        try:
            async with asyncio.timeout(_PATIENCE):
                snapshot = await self._catalogue.snapshot()
        except (DatabaseError, TimeoutError) as error:
            logger.warning("tables are not listed: %s", getattr(error, "reason", "the database is slow"))
            return
        wanted = self._wanted(snapshot)
        for name in [name for name in self._listed if self._listed[name] != wanted.get(name)]:
            self._server.remove_resource(address_of(name))
            del self._listed[name]
        for name, about in wanted.items():
            if name not in self._listed:
                self._add(name, about)

    def _wanted(self, snapshot: Snapshot) -> dict[str, str]:
        if len(snapshot.tables) > self._most:
            return {}
        return {name: snapshot.about(table) for name, table in snapshot.tables.items()}

    def _add(self, name: str, about: str) -> None:
        async def read() -> list[TextContents]:
            return _contents(await self._tools.look(), name, self._texts)

        self._server.add_resource(
            read,
            address_of(name),
            name=name,
            description=about or None,
            mime_type="application/json",
        )
        self._listed[name] = about
