"""The text of a statement, as any driver takes it."""

from .model import DatabaseError


def sendable(sql: str) -> str:
    """Without the semicolon at its end, which a wrapping cannot hold."""
    if "\0" in sql or any("\ud800" <= character <= "\udfff" for character in sql):
        raise DatabaseError("the statement holds a character that no database takes", "syntax")
    return sql.rstrip().rstrip(";")
