"""The tables as this server shows them: the database's, without hidden ones, with people's notes.

Hidden tables and columns are removed before anything else sees them, so no answer, suggestion, relation or
picture can mention them. A name that a caller sends is only compared; what is used is the known name it
matches.
"""

import logging
import unicodedata
from collections.abc import Callable, Collection, Iterable, Sequence
from difflib import SequenceMatcher
from fnmatch import fnmatchcase

import msgspec
from msgspec import Struct

from ...databases import Database, ForeignKey, Table
from .notes import Knowledge, NotedRelation, TableNotes

MAX_SUGGESTIONS = 5
_COMPARED = 120
"""Characters of a name that are compared; no database has longer names."""
_SIMILAR = 0.55

# Letters of other alphabets that look like Latin ones.
_LOOK_ALIKES = str.maketrans(
    "аеіјорсухѕкмтвнԁгαβεικνορτυχωɑı",
    "aeijopcyxskmtbhdrabeikvoptuxwai",
)


def find(name: str, known: Collection[str]) -> str | None:
    """Returns the known name; another case matches only if it is ASCII and unambiguous."""
    if name in known:
        return name
    # Databases differ in how they fold case beyond ASCII.
    if not name.isascii():
        return None
    same = [other for other in known if other.isascii() and other.lower() == name.lower()]
    return same[0] if len(same) == 1 else None


def similar(name: str, known: Iterable[str], most: int = MAX_SUGGESTIONS) -> list[str]:
    """Suggests known names, the most similar first; ignores accents, case and look-alikes."""
    wanted = _folded(name)
    if not wanted:
        return []
    scored = [(_likeness(wanted, _folded(other)), other) for other in known]
    best = sorted((-score, other) for score, other in scored if score >= _SIMILAR)
    return [other for _, other in best[:most]]


def contains(part: str, name: str) -> bool:
    """Whether a name contains a part, ignoring accents and case."""
    return _folded(part) in _folded(name)


def _folded(name: str) -> str:
    plain = unicodedata.normalize("NFKD", name[:_COMPARED]).casefold().translate(_LOOK_ALIKES)
    letters = ("_" if not char.isalnum() else char for char in plain if not unicodedata.combining(char))
    return "_".join(part for part in "".join(letters).split("_") if part)


def _likeness(wanted: str, name: str) -> float:
    if not name:
        return 0.0
    if wanted == name:
        return 3.0
    short, long = sorted((wanted, name), key=len)
    if short in long and len(short) > 1:
        return 1.0 + len(short) / len(long)
    matcher = SequenceMatcher(None, wanted, name, autojunk=False)
    return matcher.ratio() if matcher.real_quick_ratio() >= _SIMILAR else 0.0


class HiddenPatterns:
    def __init__(self, tables: Iterable[str], columns: Iterable[str]) -> None:
        self._tables = [_folded_pattern(pattern) for pattern in tables]
        self._columns = [_folded_pattern(pattern) for pattern in columns]

    def visible(self, tables: Sequence[Table]) -> list[Table]:
        """Returns the visible tables without their hidden columns."""
        left = {table.name: table for table in tables if not _matches(_qualified_names(table), self._tables)}
        columns = {name: self._columns_of(table) for name, table in left.items()}
        return [_stripped(table, columns) for table in left.values()]

    def _columns_of(self, table: Table) -> set[str]:
        return {
            column.name
            for column in table.columns
            if not _matches(
                [column.name, *(f"{name}.{column.name}" for name in _qualified_names(table))], self._columns
            )
        }


def _stripped(table: Table, columns: dict[str, set[str]]) -> Table:
    left = columns[table.name]
    if len(left) == len(table.columns):
        keys = tuple(key for key in table.foreign_keys if _is_visible(key, columns))
        return msgspec.structs.replace(table, foreign_keys=keys)
    return msgspec.structs.replace(
        table,
        columns=tuple(column for column in table.columns if column.name in left),
        primary_key=tuple(name for name in table.primary_key if name in left),
        foreign_keys=tuple(
            key for key in table.foreign_keys if left.issuperset(key.columns) and _is_visible(key, columns)
        ),
        # An indexed expression may name a hidden column; we do not parse it.
        indices=tuple(index for index in table.indices if left.issuperset(index.columns)),
    )


def _is_visible(key: ForeignKey, columns: dict[str, set[str]]) -> bool:
    return key.table in columns and columns[key.table].issuperset(key.referenced)


def _qualified_names(table: Table) -> list[str]:
    """The names that a pattern may match: the table's own, and with its schema."""
    alone = table.name.removeprefix(f"{table.schema}.")
    return [alone, f"{table.schema}.{alone}"]


def _matches(names: Iterable[str], patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(_folded_pattern(name), pattern) for name in names for pattern in patterns)


def _folded_pattern(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()


def resolve_foreign_keys(tables: Sequence[Table]) -> list[Table]:
    """Replaces the names in foreign keys by the known ones; leaves keys to unknown tables unchanged."""
    known = {table.name: table for table in tables}
    return [
        msgspec.structs.replace(
            table, foreign_keys=tuple(_resolve_key(key, table, known) for key in table.foreign_keys)
        )
        if table.foreign_keys
        else table
        for table in tables
    ]


def _resolve_key(key: ForeignKey, table: Table, known: dict[str, Table]) -> ForeignKey:
    name = find(key.table, known)
    if name is None:
        return key
    # Without columns the key refers to the primary key.
    referenced = key.referenced or known[name].primary_key
    return ForeignKey(_as_known(key.columns, table), name, _as_known(referenced, known[name]))


def _as_known(columns: Sequence[str], table: Table) -> tuple[str, ...]:
    names = [column.name for column in table.columns]
    return tuple(find(column, names) or column for column in columns)


logger = logging.getLogger("toolyard.servers.schema")


class Relation(Struct, frozen=True):
    """`table` refers to `references`."""

    table: str
    columns: tuple[str, ...]
    references: str
    referenced: tuple[str, ...]
    noted: bool = False
    """From the notes; the database does not declare it."""


class Snapshot:
    """The tables at one moment."""

    def __init__(self, tables: Sequence[Table], knowledge: Knowledge) -> None:
        self.tables = {table.name: table for table in sorted(tables, key=lambda table: table.name)}
        self.relations = self._relations(knowledge.links)
        self.general_notes = knowledge.general_notes
        self._notes = {
            name: notes
            for given, notes in knowledge.tables.items()
            if (name := find(given, self.tables)) is not None
        }
        self.unknown_notes = [name for name in knowledge.tables if find(name, self.tables) is None]

    def find(self, name: str) -> Table | None:
        """Finds a table by its name, with or without its schema; None if it does not exist or is hidden."""
        known = find(name, self.tables)
        if known is not None:
            return self.tables[known]
        full = {f"{table.schema}.{table.name}": table for table in self.tables.values()}
        known = find(name, full)
        return full[known] if known is not None else None

    def notes(self, table: str) -> TableNotes:
        return self._notes.get(table, TableNotes())

    def about(self, table: Table) -> str:
        """The notes' description, or else the database's comment."""
        return self.notes(table.name).description or table.description

    def outgoing(self, table: str) -> list[Relation]:
        return [relation for relation in self.relations if relation.table == table]

    def incoming(self, table: str) -> list[Relation]:
        return [relation for relation in self.relations if relation.references == table]

    def _relations(self, links: Sequence[NotedRelation]) -> list[Relation]:
        declared = [
            Relation(table.name, key.columns, key.table, key.referenced)
            for table in self.tables.values()
            for key in table.foreign_keys
        ]
        known = {(one.table, one.columns, one.references) for one in declared}
        noted = [relation for link in links if (relation := self._noted(link)) is not None]
        return declared + [one for one in noted if (one.table, one.columns, one.references) not in known]

    def _noted(self, link: NotedRelation) -> Relation | None:
        """None if one of the tables is missing or hidden."""
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


class SchemaCatalogue:
    """Reads the tables on demand; builds a new snapshot only if they changed."""

    def __init__(self, database: Database, knowledge: Knowledge, hidden: HiddenPatterns) -> None:
        self.database = database
        self._knowledge = knowledge
        self._hidden = hidden
        self._seen: list[Table] | None = None
        self._snapshot = Snapshot([], knowledge)
        self._listeners: list[Callable[[Snapshot], None]] = []

    def on_change(self, function: Callable[[Snapshot], None]) -> None:
        """Calls the function with the first snapshot and with every changed one."""
        self._listeners.append(function)

    async def snapshot(self) -> Snapshot:
        """Raises DatabaseError if the database cannot be read."""
        tables = await self.database.tables()
        if tables != self._seen:
            self._snapshot = Snapshot(self._hidden.visible(resolve_foreign_keys(tables)), self._knowledge)
            if self._seen is None:
                self._warn(tables)
            self._seen = tables
            for function in self._listeners:
                function(self._snapshot)
        return self._snapshot

    def _warn(self, tables: Sequence[Table]) -> None:
        """Reports notes on unknown tables, which are probably misspelled."""
        names = [table.name for table in tables]
        for name in self._snapshot.unknown_notes:
            if find(name, names) is None:
                logger.warning("the notes describe %r, which %s does not have", name, self.database.name)
