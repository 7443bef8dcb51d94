"""One table as an answer, and the list of all of them."""

from typing import Literal

from ...databases import Column, Table
from .answers import Described, Field, IndexOf, QueryHint, Relationship, TableLine
from .catalogue import Relation, Snapshot
from .names import find, similar

MOST_TABLES = 1000
"""In one list; a database with more is looked through by name."""


def described(snapshot: Snapshot, name: str) -> Described:
    """What is known of a table; for an unknown one what might have been meant."""
    if not name.strip():
        return listed(snapshot)
    table = snapshot.find(name)
    if table is None:
        return Described(found=False, table=name, suggestions=similar(name, snapshot.tables))
    notes = snapshot.notes(table.name)
    return Described(
        found=True,
        table=table.name,
        kind=table.kind,
        description=snapshot.about(table),
        field_count=len(table.columns),
        fields=_fields(snapshot, table),
        primary_key=list(table.primary_key),
        relationships=_relationships(snapshot, table.name),
        indices=[IndexOf(index.name, list(index.columns), index.unique) for index in table.indices],
        rules=notes.rules,
        hints=[QueryHint(hint.description, hint.sql) for hint in notes.hints],
        row_estimate=table.row_estimate,
    )


def listed(snapshot: Snapshot) -> Described:
    lines = [
        TableLine(table.name, table.kind, len(table.columns), table.row_estimate, snapshot.about(table))
        for table in snapshot.tables.values()
    ]
    return Described(
        found=True,
        table="",
        table_count=len(lines),
        tables=lines[:MOST_TABLES],
        notes=snapshot.general,
    )


def _fields(snapshot: Snapshot, table: Table) -> list[Field]:
    names = [column.name for column in table.columns]
    noted = {
        known: text
        for name, text in snapshot.notes(table.name).columns.items()
        if (known := find(name, names)) is not None
    }
    targets = {
        column: f"{relation.references}.{referenced}"
        for relation in snapshot.outgoing(table.name)
        for column, referenced in zip(relation.columns, relation.referenced, strict=False)
    }
    return [_field(table, column, noted.get(column.name, ""), targets) for column in table.columns]


def _field(table: Table, column: Column, noted: str, targets: dict[str, str]) -> Field:
    return Field(
        name=column.name,
        type=column.type,
        nullable=column.nullable,
        default=column.default,
        description=noted or column.description,
        primary_key=column.name in table.primary_key,
        references=targets.get(column.name, ""),
    )


def _relationships(snapshot: Snapshot, name: str) -> list[Relationship]:
    out = [_relationship("out", one, one.references) for one in snapshot.outgoing(name)]
    return out + [_relationship("in", one, one.table) for one in snapshot.incoming(name)]


def _relationship(direction: Literal["out", "in"], relation: Relation, other: str) -> Relationship:
    return Relationship(
        direction=direction,
        table=other,
        columns=list(relation.columns),
        referenced=list(relation.referenced),
        source="notes" if relation.noted else "database",
    )
