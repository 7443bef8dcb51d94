"""Scripts: what is done with the tables, step by step, whichever database they are in.

A script yields statements and is sent the rows of each. It knows no connection: an engine runs it, and when
it writes in a transaction, so that it is done as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct

from ..model import Owner
from .dialect import Dialect
from .errors import StoreError
from .keys import MOST_OWNERS

T = TypeVar("T")
Row = tuple[Any, ...]


class Do(Struct, frozen=True):
    """One statement, for one set of values, or for each of many and then without rows."""

    sql: str
    values: Mapping[str, Any] = {}
    each: Sequence[Mapping[str, Any]] | None = None


Script = Generator[Do, list[Row], T]


class Full(StoreError):
    """There are as many as there can be."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, "use another database")


def locked(dialect: Dialect) -> Script[None]:
    """Writers come one after the other from here."""
    for statement in dialect.lock:
        yield Do(statement)


def find_owner(owner: Owner) -> Script[int | None]:
    rows = yield Do(
        "SELECT number FROM toolyard_session_owners WHERE tenant = :tenant AND agent = :user",
        owner._asdict(),
    )
    return rows[0][0] if rows else None


def own(owner: Owner) -> Script[int]:
    """The owner's number; one is given at the first time."""
    number = yield from find_owner(owner)
    if number is not None:
        return number
    rows = yield Do("SELECT COALESCE(MAX(number), 0) + 1 FROM toolyard_session_owners")
    number = rows[0][0]
    if number >= MOST_OWNERS:
        raise Full(f"there are {MOST_OWNERS} owners of sessions already")
    yield Do(
        "INSERT INTO toolyard_session_owners VALUES (:number, :tenant, :user)",
        {"number": number, **owner._asdict()},
    )
    return number
