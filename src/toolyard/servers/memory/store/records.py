"""The structs that go into the store and come out of it."""

from typing import Literal, NamedTuple

from msgspec import Struct

from ....kit import Caller
from ..document import FrontMatter

ChangeKind = Literal["created", "updated", "restored"]


class MemoryOwner(NamedTuple):
    """Whose memories: part of every statement."""

    tenant: str
    agent: str


def owner_of(caller: Caller) -> MemoryOwner:
    return MemoryOwner(caller.tenant, caller.agent)


class MemoryDraft(Struct, frozen=True):
    """A memory about to be kept."""

    content: str
    digest: bytes
    """Of the text without what white space it has: equal where two texts say the same."""
    vector: bytes
    words: list[str]
    about: FrontMatter


class MemoryLimits(Struct, frozen=True, kw_only=True):
    """The limits of one user."""

    max_memories: int
    max_versions: int
    max_deleted: int


class PutOutcome(Struct, frozen=True):
    """What became of a draft."""

    happened: Literal["created", "updated", "unchanged"]
    version: int


class Memory(Struct, frozen=True):
    id: int
    path: str
    content: str
    version: int
    updated: float
    about: FrontMatter


class MemorySummary(Struct, frozen=True):
    """A memory without its text."""

    path: str
    about: FrontMatter


class MemoryListing(Struct, frozen=True):
    total: int
    kinds: dict[str, int]
    domains: dict[str, int]
    heads: list[MemorySummary]


class MemoryVersion(Struct, frozen=True):
    version: int
    happened: ChangeKind
    by: str
    at: float
    content: str


class Removed(Struct, frozen=True):
    kind: Literal["file", "directory"]
    paths: list[str]


class MemoryChanges(Struct, frozen=True):
    """What an index in memory has missed."""

    owner: int
    revision: int
    from_scratch: bool
    """Forget everything first."""
    there: list[tuple[int, bytes]]
    gone: list[int]
