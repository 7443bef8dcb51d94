"""Finding sessions by words: as they are, by how they begin, or spread over a session. The latest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from ..model import Kept, Owner, Said
from .dialect import Dialect
from .finding import KEPT, LATEST, SAID, kept_of, said_of
from .keys import MOST_MESSAGES, SESSION_OF, messages_in, messages_of
from .script import Do, Row, Script, find_owner

# The first message of a session that has a word; its title, which the caller sees anyway, only if none has.
_FIRST = f"COALESCE(MIN(CASE WHEN (id & {MOST_MESSAGES - 1}) <> 0 THEN id END), MIN(id))"


class Hit(Struct, frozen=True):
    session: Kept
    message: Said


def found(dialect: Dialect, owner: Owner, words: Sequence[str], limit: int) -> Script[list[Hit]]:
    """Sessions with a message that has all the words, as they are."""
    number = yield from find_owner(owner)
    if number is None:
        return []
    asked = dialect.spelt(words, False)
    mine = messages_of(number)
    rows = yield Do(
        f"SELECT {KEPT} FROM toolyard_sessions WHERE id IN"
        f" (SELECT DISTINCT {SESSION_OF} FROM ({dialect.matching}) AS matching) {LATEST}",
        {"words": asked, "first": mine.start, "last": mine.stop, "limit": limit},
    )
    hits: list[Hit] = []
    for row in rows:
        # One by one: with whole words each is a jump in the index, and all at once would be all matches.
        hits += yield from _first_hit(dialect, kept_of(row), asked)
    return hits


def begun(dialect: Dialect, owner: Owner, words: Sequence[str], limit: int) -> Script[list[Hit]]:
    """Sessions with a message that has, for each word, one that begins like it."""
    number = yield from find_owner(owner)
    if number is None:
        return []
    return (yield from _with_first(dialect, number, [dialect.spelt(words, True)], limit))


def spread(dialect: Dialect, owner: Owner, words: Sequence[str], limit: int) -> Script[list[Hit]]:
    """Sessions that have, for each word, one that begins like it, in whichever messages."""
    number = yield from find_owner(owner)
    if number is None:
        return []
    return (yield from _with_first(dialect, number, [dialect.spelt([word], True) for word in words], limit))


def _with_first(dialect: Dialect, owner: int, asked: Sequence[str], limit: int) -> Script[list[Hit]]:
    """Sessions that have all that is asked, with the first message that has the first.

    In one statement: beginnings of words are gathered from the whole index each time they are looked for.
    """
    mine = messages_of(owner)
    values: dict[str, Any] = {"first": mine.start, "last": mine.stop, "limit": limit}
    values |= {f"words{at}": spelt for at, spelt in enumerate(asked)}
    matching = [dialect.matching.replace(":words", f":words{at}") for at in range(len(asked))]
    also = "".join(
        f" AND id IN (SELECT DISTINCT {SESSION_OF} FROM ({one}) AS matching)" for one in matching[1:]
    )
    rows = yield Do(
        f"SELECT {KEPT}, place FROM toolyard_sessions JOIN (SELECT {SESSION_OF} AS session, {_FIRST} AS place"
        f" FROM ({matching[0]}) AS matching GROUP BY 1) AS firsts ON firsts.session = id"
        f" WHERE TRUE{also} {LATEST}",
        values,
    )
    hits: list[Hit] = []
    for row in rows:
        hits += yield from _hit(kept_of(row), row[-1])
    return hits


def _first_hit(dialect: Dialect, session: Kept, asked: str) -> Script[list[Hit]]:
    within = messages_in(session.number)
    rows: list[Row] = yield Do(
        f"{dialect.matching} ORDER BY id LIMIT 2",
        {"words": asked, "first": within.start, "last": within.stop},
    )
    if not rows:  # it was told anew since it was found
        return []
    return (yield from _hit(session, rows[0][0] if rows[0][0] != within.start else rows[-1][0]))


def _hit(session: Kept, place: int) -> Script[list[Hit]]:
    rows = yield Do(SAID + " WHERE id = :id", {"id": place})
    return [Hit(session, said_of(row)) for row in rows]
