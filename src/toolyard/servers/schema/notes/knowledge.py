"""The notes themselves, whatever files they came from."""

from msgspec import Struct, field


class NotesError(Exception):
    """A file that cannot be used; `str()` names it, the line or place, and what is wrong."""


class Hint(Struct, frozen=True):
    """A query that answers a question which is often asked."""

    description: str
    sql: str


class Link(Struct, frozen=True):
    """A relation that the database does not declare."""

    table: str
    columns: tuple[str, ...]
    references: str
    referenced: tuple[str, ...]


class TableNotes(Struct):
    description: str = ""
    columns: dict[str, str] = field(default_factory=dict[str, str])
    rules: list[str] = field(default_factory=list[str])
    hints: list[Hint] = field(default_factory=list[Hint])

    def add(self, other: "TableNotes") -> None:
        """What another file says of the same table: its texts win, its rules and hints are added."""
        self.description = other.description or self.description
        self.columns |= other.columns
        self.rules += [rule for rule in other.rules if rule not in self.rules]
        self.hints += [hint for hint in other.hints if hint not in self.hints]


class Knowledge(Struct):
    """All that a folder says."""

    tables: dict[str, TableNotes] = field(default_factory=dict[str, TableNotes])
    links: list[Link] = field(default_factory=list[Link])
    general: list[str] = field(default_factory=list[str])
    """What holds for all tables."""
    blocked_tables: list[str] = field(default_factory=list[str])
    blocked_columns: list[str] = field(default_factory=list[str])

    def add(self, other: "Knowledge") -> None:
        for name, notes in other.tables.items():
            self.tables.setdefault(name, TableNotes()).add(notes)
        self.links += [link for link in other.links if link not in self.links]
        self.general += [text for text in other.general if text not in self.general]
        self.blocked_tables += other.blocked_tables
        self.blocked_columns += other.blocked_columns
