"""Whether a statement may be run: exactly one, that only reads, of parts that are all known to be harmless.

The text is parsed, every part of the tree is looked at, and what is run is written anew from the tree: what
was checked is what the database is given, without comments or anything else that the parser did not see. Owns
the order of the checks; `shape` is about texts, `grammar` about kinds of parts, `functions` about functions,
`naming` about tables and columns.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from .refusing import Place, Refused

if TYPE_CHECKING:
    from sqlglot import exp

    from .naming import Blocked
    from .shape import Text

__all__ = ["Guarded", "Place", "Refused", "guarded"]


class Guarded(Struct, frozen=True):
    sql: str
    """As it is to be run, with its limit."""
    tables: tuple[str, ...]
    """Of the database, in the order of their first use, without the statement's own names (`WITH`)."""
    columns: tuple[str, ...]


def guarded(
    sql: str,
    dialect: str,
    *,
    blocked_tables: Sequence[str] = (),
    blocked_columns: Sequence[str] = (),
    limit: int,
    known: Mapping[str, Sequence[str]] | None = None,
) -> Guarded:
    """The statement as it may be run, or Refused.

    Patterns are those of `fnmatch`: `users` or `hr.*` for tables, `password` or `users.*hash` for columns.
    `known` are the columns of the tables as introspection saw them: with it `SELECT *` is allowed where no
    column is blocked; a table that is not in it may hold any column.
    """
    # 60 ms to import: only who asks pays.
    from .naming import Blocked, used_columns, used_tables
    from .shape import parsed, with_limit, written

    blocked = Blocked(blocked_tables, blocked_columns, known or {})
    try:
        statement = _checked(*parsed(sql, dialect), dialect, blocked)
        tables, columns = used_tables(statement, dialect), used_columns(statement)
        final = written(with_limit(statement, limit), dialect)
        # What is given to the database is read and checked once more: nothing is left to how it was written.
        again = _checked(*parsed(final, dialect), dialect, blocked)
        if written(again, dialect) != final:
            raise Refused("the statement cannot be written safely: it reads in two ways")
    except RecursionError:
        raise Refused("the statement is nested too deeply") from None
    return Guarded(final, tables, columns)


def _checked(statement: "exp.Query", text: "Text", dialect: str, blocked: "Blocked") -> "exp.Query":
    from .functions import check_functions
    from .grammar import check_grammar
    from .naming import check_names

    check_grammar(statement, text)
    check_functions(statement, dialect, text)
    check_names(statement, dialect, text, blocked)
    return statement
