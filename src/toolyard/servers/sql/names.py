"""Which names of a statement the database does not know, and what they may have been meant to be."""

import re
from collections.abc import Iterable
from difflib import get_close_matches

from msgspec import Struct
from msgspec.structs import replace

from ...databases.guard import Guarded
from .catalogue import Catalogue

MOST_NEAR = 3
LEAST_LIKENESS = 0.6


class Missing(Struct, frozen=True):
    tables: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    known_tables: tuple[str, ...] = ()
    known_columns: tuple[str, ...] = ()


async def unknown_names(catalogue: Catalogue, statement: Guarded) -> Missing:
    tables = [table.name for table in await catalogue.tables()]
    used = await catalogue.among(statement.tables)
    columns = [column.name for table in used for column in table.columns]
    there = {name.casefold() for table in used for name in (table.name, table.name.rpartition(".")[2])}
    return Missing(
        tables=tuple(name for name in statement.tables if _bare(name) not in {_bare(one) for one in there}),
        columns=_absent((name.rpartition(".")[2] for name in statement.columns), columns),
        known_tables=tuple(tables),
        known_columns=tuple(dict.fromkeys(columns)),
    )


def named_in(reason: str, missing: Missing) -> Missing:
    """Only those that the database complains of: others may be names that the statement itself gave."""
    words = set(re.findall(r"\w+", reason.casefold()))
    tables = tuple(name for name in missing.tables if _bare(name) in words)
    columns = tuple(name for name in missing.columns if name.casefold() in words)
    return replace(missing, tables=tables, columns=columns)


def near(name: str, known: Iterable[str]) -> list[str]:
    """Those of similar letters, whatever their case, and those that it is a part of."""
    by_letters = {one.casefold(): one for one in known}
    wanted = _bare(name)
    found = get_close_matches(wanted, by_letters, MOST_NEAR, LEAST_LIKENESS)
    found += [one for one in by_letters if wanted in one and one not in found]
    return [by_letters[one] for one in found[:MOST_NEAR]]


def _bare(name: str) -> str:
    return name.casefold().rpartition(".")[2]


def _absent(names: Iterable[str], known: Iterable[str]) -> tuple[str, ...]:
    there = {name.casefold() for name in known}
    return tuple(dict.fromkeys(name for name in names if name.casefold() not in there and name != "*"))
