"""Which tables and relations a diagram shows, and the diagram as Mermaid's `erDiagram`."""

import re
from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from ....databases import Table, TableColumn
from ..catalogue import Relation, Snapshot

MAX_TABLES = 30


class DiagramTables(Struct, frozen=True):
    tables: list[Table]
    relations: list[Relation]
    left_out: int
    """How many of the wanted tables do not fit."""

    def foreign(self, table: Table) -> set[str]:
        """The table's columns that refer to other tables, drawn or not."""
        noted = {name for one in self.relations if one.table == table.name for name in one.columns}
        return noted | {name for key in table.foreign_keys for name in key.columns}


def select_tables(snapshot: Snapshot, names: Sequence[str]) -> DiagramTables:
    """Selects these tables; for one table also its neighbours; for none, all, the most related first."""
    wanted = set(names)
    if len(wanted) == 1:
        (one,) = wanted
        near = snapshot.outgoing(one) + snapshot.incoming(one)
        wanted |= {end for relation in near for end in (relation.table, relation.references)}
    candidates = [table for name, table in snapshot.tables.items() if not wanted or name in wanted]
    degrees = _degrees(snapshot.relations, {table.name for table in candidates})
    ranked = sorted(candidates, key=lambda table: (table.name not in names, -degrees[table.name], table.name))
    tables = sorted(ranked[:MAX_TABLES], key=lambda table: table.name)
    shown = {table.name for table in tables}
    relations = [one for one in snapshot.relations if one.table in shown and one.references in shown]
    return DiagramTables(tables, relations, len(candidates) - len(tables))


def _degrees(relations: Sequence[Relation], names: set[str]) -> Counter[str]:
    inside = [one for one in relations if one.table in names and one.references in names]
    return Counter(end for one in inside for end in (one.table, one.references))


_LONGEST_TYPE = 30
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Keywords of Mermaid, which a name must quote.
_RESERVED = frozenset(
    ["accdescr", "acctitle", "class", "classdef", "direction", "end", "erdiagram", "many", "one", "only"]
) | {"style", "subgraph", "title", "to", "zero"}


def mermaid_text(diagram: DiagramTables) -> str:
    lines = ["erDiagram"]
    tables = {table.name: table for table in diagram.tables}
    lines += [f"    {_line(relation, tables)}" for relation in diagram.relations]
    for table in diagram.tables:
        lines += _entity(table, diagram.foreign(table))
    return "\n".join(lines)


def _line(relation: Relation, tables: dict[str, Table]) -> str:
    """From the referenced table to the referring one, as the notation requires."""
    child = tables[relation.table]
    optional = any(column.nullable for column in child.columns if column.name in relation.columns)
    one = "|o" if optional else "||"
    many = "o|" if _is_unique(child, relation.columns) else "o{"
    dots = ".." if relation.noted else "--"
    label = _quoted(", ".join(relation.columns))
    return f"{_name(relation.references)} {one}{dots}{many} {_name(relation.table)} : {label}"


def _is_unique(table: Table, columns: tuple[str, ...]) -> bool:
    unique = [set(index.columns) for index in table.indices if index.unique] + [set(table.primary_key)]
    return set(columns) in unique


def _entity(table: Table, foreign: set[str]) -> list[str]:
    lines = [f"    {_name(table.name)} {{"]
    lines += [f"        {_attribute(column, table, foreign)}" for column in table.columns]
    return [*lines, "    }"]


def _attribute(column: TableColumn, table: Table, foreign: set[str]) -> str:
    marks = ["PK"] * (column.name in table.primary_key) + ["FK"] * (column.name in foreign)
    name = _word(column.name)
    # The comment has the original of a name that the notation cannot spell.
    comment = _quoted(column.name) if name != column.name else ""
    return " ".join(part for part in (_type(column.type), name, ", ".join(marks), comment) if part)


def _word(text: str) -> str:
    word = re.sub(r"[^A-Za-z0-9_()\[\]-]+", "_", text) or "_"
    # Mermaid reads these as key marks everywhere.
    return (
        f"_{word}"
        if word.upper() in ("PK", "FK", "UK") or not (word[0].isalpha() or word[0] == "_")
        else word
    )


def _type(text: str) -> str:
    """Drops a long part in parentheses: the values of an enumeration, the fields of a record."""
    return _word(text if len(text) <= _LONGEST_TYPE else text.partition("(")[0])


def _name(name: str) -> str:
    return name if _PLAIN.fullmatch(name) and name.lower() not in _RESERVED else _quoted(name)


def _quoted(text: str) -> str:
    # A quote would end the name, and a line break the statement.
    plain = " ".join(text.replace('"', "'").replace("%", "_").replace("\\", "/").split())
    return f'"{plain or "_"}"'
