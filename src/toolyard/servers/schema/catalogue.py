"""The tables as this server knows them: what the database says, less what is hidden, plus people's notes."""

import logging
from collections.abc import Callable, Sequence

from msgspec import Struct

from ...databases import Database, Table
from .hiding import Hidden
from .names import find
from .notes import Knowledge, Link, TableNotes
from .resolving import resolved

logger = logging.getLogger("toolyard.servers.schema")


class Relation(Struct, frozen=True):
    """`table` refers to `references`."""

    table: str
    columns: tuple[str, ...]
    references: str
    referenced: tuple[str, ...]
    noted: bool = False
    """By people; the database does not know of it."""


class Snapshot:
    """The tables at one moment."""

    def __init__(self, tables: Sequence[Table], knowledge: Knowledge) -> None:
        self.tables = {table.name: table for table in sorted(tables, key=lambda table: table.name)}
        self.relations = self._relations(knowledge.links)
        self.general = knowledge.general
        self._notes = {
            name: notes
            for given, notes in knowledge.tables.items()
            if (name := find(given, self.tables)) is not None
        }
        self.unknown_notes = [name for name in knowledge.tables if find(name, self.tables) is None]

    def find(self, name: str) -> Table | None:
        """By its name, with the schema before it if one likes; None for what is not there, or hidden."""
        known = find(name, self.tables)
        if known is not None:
            return self.tables[known]
        full = {f"{table.schema}.{table.name}": table for table in self.tables.values()}
        known = find(name, full)
        return full[known] if known is not None else None

    def notes(self, table: str) -> TableNotes:
        return self._notes.get(table, TableNotes())

    def about(self, table: Table) -> str:
        """People's word goes before the database's comment."""
        return self.notes(table.name).description or table.description

    def outgoing(self, table: str) -> list[Relation]:
        return [relation for relation in self.relations if relation.table == table]

    def incoming(self, table: str) -> list[Relation]:
        return [relation for relation in self.relations if relation.references == table]

    def _relations(self, links: Sequence[Link]) -> list[Relation]:
        declared = [
            Relation(table.name, key.columns, key.table, key.referenced)
            for table in self.tables.values()
            for key in table.foreign_keys
        ]
        known = {(one.table, one.columns, one.references) for one in declared}
        noted = [relation for link in links if (relation := self._noted(link)) is not None]
        return declared + [one for one in noted if (one.table, one.columns, one.references) not in known]

    def _noted(self, link: Link) -> Relation | None:
        """None where an end of it is not there: notes outlive tables, and must not show hidden ones."""
        table, other = self.find(link.table), self.find(link.references)
        if table is None or other is None:
            return None
        columns = _columns(table, link.columns)
        referenced = _columns(other, link.referenced)
        if columns is None or referenced is None:
            return None
        return Relation(table.name, columns, other.name, referenced, noted=True)


def _columns(table: Table, names: Sequence[str]) -> tuple[str, ...] | None:
    known = [find(name, [column.name for column in table.columns]) for name in names]
    return tuple(name for name in known if name is not None) if None not in known else None


class Catalogue:
    """Looks at the database when asked; the same tables are put together once."""

    def __init__(self, database: Database, knowledge: Knowledge, hidden: Hidden) -> None:
        self.database = database
        self._knowledge = knowledge
        self._hidden = hidden
        self._seen: list[Table] | None = None
        self._snapshot = Snapshot([], knowledge)
        self._told: list[Callable[[Snapshot], None]] = []

    def on_change(self, function: Callable[[Snapshot], None]) -> None:
        """Call this with the tables when they are seen for the first time, and when they are others."""
        self._told.append(function)

    async def snapshot(self) -> Snapshot:
        """Raises DatabaseError where the database cannot be asked."""
        tables = await self.database.tables()
        if tables != self._seen:
            self._snapshot = Snapshot(self._hidden.shown(resolved(tables)), self._knowledge)
            if self._seen is None:
                self._warn(tables)
            self._seen = tables
            for function in self._told:
                function(self._snapshot)
        return self._snapshot

    def _warn(self, tables: Sequence[Table]) -> None:
        """A slip in the notes would otherwise only show as something that is missing."""
        names = [table.name for table in tables]
        for name in self._snapshot.unknown_notes:
            if find(name, names) is None:
                logger.warning("the notes describe %r, which %s does not have", name, self.database.name)
