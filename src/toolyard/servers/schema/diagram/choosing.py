"""Which tables a diagram has, and the relations between them."""

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from ....databases import Table
from ..catalogue import Relation, Snapshot

MOST = 30


class Chosen(Struct, frozen=True):
    tables: list[Table]
    relations: list[Relation]
    left_out: int
    """Tables that were asked for and have no room."""

    def foreign(self, table: Table) -> set[str]:
        """Its columns that refer to others, drawn or not."""
        noted = {name for one in self.relations if one.table == table.name for name in one.columns}
        return noted | {name for key in table.foreign_keys for name in key.columns}


def chosen(snapshot: Snapshot, names: Sequence[str]) -> Chosen:
    """These tables; of one, also those that it is related to; of none, all. The most related go first."""
    wanted = set(names)
    if len(wanted) == 1:
        (one,) = wanted
        near = snapshot.outgoing(one) + snapshot.incoming(one)
        wanted |= {end for relation in near for end in (relation.table, relation.references)}
    candidates = [table for name, table in snapshot.tables.items() if not wanted or name in wanted]
    degrees = _degrees(snapshot.relations, {table.name for table in candidates})
    ranked = sorted(candidates, key=lambda table: (table.name not in names, -degrees[table.name], table.name))
    tables = sorted(ranked[:MOST], key=lambda table: table.name)
    shown = {table.name for table in tables}
    relations = [one for one in snapshot.relations if one.table in shown and one.references in shown]
    return Chosen(tables, relations, len(candidates) - len(tables))


def _degrees(relations: Sequence[Relation], names: set[str]) -> Counter[str]:
    inside = [one for one in relations if one.table in names and one.references in names]
    return Counter(end for one in inside for end in (one.table, one.references))
