"""Checks that a text is one statement that only reads, made of parts known to be harmless.

Parses the text, checks every node of the tree, and writes the statement to run from the tree, without
comments or anything else that the parser did not see. Owns the order of the checks.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from ..model import StatementPosition, StatementRefusedError

if TYPE_CHECKING:
    from sqlglot import exp

    from .grammar import StatementText
    from .names import Blocked

__all__ = ["GuardedStatement", "StatementPosition", "StatementRefusedError", "guard_statement"]


class GuardedStatement(Struct, frozen=True):
    sql: str
    """The statement to run, with its limit."""
    tables: tuple[str, ...]
    """In the order of their first use, without names that the statement defines (`WITH`)."""
    columns: tuple[str, ...]


def guard_statement(
    sql: str,
    dialect: str,
    *,
    blocked_tables: Sequence[str] = (),
    blocked_columns: Sequence[str] = (),
    limit: int,
    known: Mapping[str, Sequence[str]] | None = None,
) -> GuardedStatement:
    """Return the statement to run, or raise StatementRefusedError.

    Patterns are those of `fnmatch`: `users` or `hr.*` for tables, `password` or `users.*hash` for columns.
    `known` has the columns of the tables in the database: with it `SELECT *` is allowed if no column is
    blocked. A table that is not in it may have any column.
    """
    # 60 ms to import.
    from .grammar import parse, with_limit, write
    from .names import Blocked, used_columns, used_tables

    blocked = Blocked(blocked_tables, blocked_columns, known or {})
    try:
        statement = _check(*parse(sql, dialect), dialect, blocked)
        tables, columns = used_tables(statement, dialect), used_columns(statement)
        final = write(with_limit(statement, limit), dialect)
        # Parse and check the text for the database again, so that writing it cannot have added anything.
        again = _check(*parse(final, dialect), dialect, blocked)
        if write(again, dialect) != final:
            raise StatementRefusedError("the statement cannot be written safely: it has two readings")
    except RecursionError:
        raise StatementRefusedError("the statement is nested too deeply") from None
    return GuardedStatement(final, tables, columns)


def _check(statement: "exp.Query", text: "StatementText", dialect: str, blocked: "Blocked") -> "exp.Query":
    from .grammar import check_grammar
    from .names import check_functions, check_names

    check_grammar(statement, text)
    check_functions(statement, dialect, text)
    check_names(statement, dialect, text, blocked)
    return statement
