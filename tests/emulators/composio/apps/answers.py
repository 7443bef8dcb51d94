"""Ways to answer that many tools share: many records, one record, a record that is kept."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from ..catalogue import Answer, Deed

Row = Callable[[int, Mapping[str, Any]], dict[str, Any]]
"""The record with a number, made for these arguments."""


def digest(*parts: Any, size: int = 12) -> str:
    """An id that is the same for the same parts."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:size]


def many(member: str, total: int, row: Row, limit: str = "", page: str = "", default: int = 0) -> Answer:
    """Up to `total` records; as many as the argument named `limit` says, from the page that `page` says."""

    def answer(deed: Deed) -> dict[str, Any]:
        size = int(deed.arguments.get(limit) or default or total)
        first = (int(deed.arguments.get(page) or 1) - 1) * size
        numbers = range(first, min(first + size, total))
        return {member: [row(number, deed.arguments) for number in numbers]}

    return answer


def one(row: Callable[[Mapping[str, Any]], dict[str, Any]]) -> Answer:
    return lambda deed: row(deed.arguments)


def kept(kind: str, *shown: str, within: str = "response_data") -> Callable[[Deed], dict[str, Any]]:
    """Keeps the arguments as a record of this kind; answers with its id and those members that are named."""

    def answer(deed: Deed) -> dict[str, Any]:
        number = len(deed.world.records.get(kind, ()))
        record = {"id": digest(kind, deed.user, number), "user_id": deed.user, **deed.arguments}
        if "user_id" in deed.arguments:
            record["user_id"] = deed.user
        deed.world.keep(kind, record)
        return {within: {"id": record["id"], **{name: record.get(name) for name in shown}}}

    return answer


def done(**more: Any) -> Answer:
    """Nothing to tell but that it was done."""
    return lambda deed: {"success": True, **more}
