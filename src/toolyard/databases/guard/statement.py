"""Checks that a text is one statement that only reads, made of parts known to be harmless.

The text is parsed, every part of the tree is checked, and what runs is written anew from the tree, without
comments or anything else the parser did not see. Owns the order of the checks.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from ..model import StatementPosition, StatementRefusedError

if TYPE_CHECKING:
    from sqlglot import exp

    from .grammar import StatementText
    from .names import Blocked

__all__ = ["GuardedStatement", "StatementPosition", "StatementRefusedError", "guarded"]


class GuardedStatement(Struct, frozen=True):
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
) -> GuardedStatement:
    """The statement as it may be run, or Refused.

    Patterns are those of `fnmatch`: `users` or `hr.*` for tables, `password` or `users.*hash` for columns.
    `known` are the columns of the tables as introspection saw them: with it `SELECT *` is allowed where no
    column is blocked; a table that is not in it may hold any column.
    """
    # 60 ms to import: only who asks pays.
    from .grammar import parsed, with_limit, written
    from .names import Blocked, used_columns, used_tables

    blocked = Blocked(blocked_tables, blocked_columns, known or {})
    try:
        statement = _checked(*parsed(sql, dialect), dialect, blocked)
        tables, columns = used_tables(statement, dialect), used_columns(statement)
        final = written(with_limit(statement, limit), dialect)
        # What is given to the database is read and checked once more: nothing is left to how it was written.
        again = _checked(*parsed(final, dialect), dialect, blocked)
        if written(again, dialect) != final:
            raise StatementRefusedError("the statement cannot be written safely: it reads in two ways")
    except RecursionError:
        raise StatementRefusedError("the statement is nested too deeply") from None
    return GuardedStatement(final, tables, columns)


def _checked(statement: "exp.Query", text: "StatementText", dialect: str, blocked: "Blocked") -> "exp.Query":
    from .grammar import check_grammar
    from .names import check_functions, check_names

    check_grammar(statement, text)
    check_functions(statement, dialect, text)
    check_names(statement, dialect, text, blocked)
    return statement
