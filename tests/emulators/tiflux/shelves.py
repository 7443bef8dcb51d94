"""Shelves: things of one kind, by id, each perhaps part of another thing."""

import itertools
from collections.abc import Iterator
from typing import Any

from .refusals import missing

Json = dict[str, Any]


class Shelf:
    """Ids of different kinds begin at different numbers, so that a desk is never taken for a stage."""

    def __init__(self, what: str, first: int, id: str = "id") -> None:
        self.what = what
        self._id = id
        self._ids = itertools.count(first)
        self._things: dict[int, Json] = {}
        self._owners: dict[int, int] = {}

    def __iter__(self) -> Iterator[Json]:
        return iter(list(self._things.values()))

    def __len__(self) -> int:
        return len(self._things)

    def put(self, owner: int = 0, /, **fields: Any) -> Json:
        number = next(self._ids)
        self._things[number] = {self._id: number, **fields}
        self._owners[number] = owner
        return self._things[number]

    def of(self, owner: int) -> list[Json]:
        return [thing for number, thing in self._things.items() if self._owners[number] == owner]

    def one(self, number: int, owner: int | None = None) -> Json:
        """That thing, if it is there and, where an owner is named, part of it."""
        if number not in self._things or owner not in (None, self._owners[number]):
            raise missing(self.what, number)
        return self._things[number]

    def owner(self, number: int) -> int:
        return self._owners[number]

    def drop(self, number: int, owner: int | None = None) -> None:
        self.one(number, owner)
        del self._things[number], self._owners[number]

    def first(self, owner: int | None = None) -> Json:
        things = list(self) if owner is None else self.of(owner)
        return things[0]


def brief(thing: Json, *names: str) -> Json:
    """What other things show of this one."""
    return {name: thing[name] for name in names or ("id", "name")}
