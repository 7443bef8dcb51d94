"""What goes into a store and comes out of it."""

from typing import Literal, NamedTuple

from msgspec import Struct

from ....kit import Caller
from ..front import About

Happened = Literal["created", "updated", "restored"]


class Owner(NamedTuple):
    """Whose memories: part of every statement."""

    tenant: str
    agent: str


def owner_of(caller: Caller) -> Owner:
    return Owner(caller.tenant, caller.agent)


class Draft(Struct, frozen=True):
    """A memory about to be kept."""

    content: str
    digest: bytes
    """Of the text without what white space it has: equal where two texts say the same."""
    vector: bytes
    words: list[str]
    about: About


class Rules(Struct, frozen=True, kw_only=True):
    """The limits of one user."""

    max_memories: int
    max_versions: int
    max_deleted: int


class Put(Struct, frozen=True):
    """What became of a draft."""

    happened: Literal["created", "updated", "unchanged"]
    version: int


class Memory(Struct, frozen=True):
    id: int
    path: str
    content: str
    version: int
    updated: float
    about: About


class Head(Struct, frozen=True):
    """A memory without its text."""

    path: str
    about: About


class Listing(Struct, frozen=True):
    total: int
    kinds: dict[str, int]
    domains: dict[str, int]
    heads: list[Head]


class Version(Struct, frozen=True):
    version: int
    happened: Happened
    by: str
    at: float
    content: str


class Removed(Struct, frozen=True):
    kind: Literal["file", "directory"]
    paths: list[str]


class Changes(Struct, frozen=True):
    """What an index in memory has missed."""

    owner: int
    revision: int
    from_scratch: bool
    """Forget everything first."""
    there: list[tuple[int, bytes]]
    gone: list[int]
