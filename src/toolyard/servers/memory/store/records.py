"""The structs that go into the store and come out of it."""

from typing import Literal, NamedTuple

from msgspec import Struct

from ....kit import Caller
from ..document import FrontMatter

ChangeKind = Literal["created", "updated", "restored"]


class MemoryOwner(NamedTuple):
    """The tenant and agent whose memories a statement touches."""

    tenant: str
    agent: str


def owner_of(caller: Caller) -> MemoryOwner:
    return MemoryOwner(caller.tenant, caller.principal.user)


class MemoryDraft(Struct, frozen=True):
    """A memory to store."""

    content: str
    digest: bytes
    """A hash of the text with normalized white space; equal for equal texts."""
    vector: bytes
    words: list[str]
    about: FrontMatter


class MemoryLimits(Struct, frozen=True, kw_only=True):
    """The limits of one user."""

    max_memories: int
    max_versions: int
    max_deleted: int


class PutOutcome(Struct, frozen=True):
    """The result of storing a draft."""

    change: Literal["created", "updated", "unchanged"]
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
    change: ChangeKind
    changed_by: str
    at: float
    content: str


class Removed(Struct, frozen=True):
    kind: Literal["file", "directory"]
    paths: list[str]


class MemoryChanges(Struct, frozen=True):
    """The changes that an index in memory has missed."""

    owner: int
    revision: int
    from_scratch: bool
    """Drop all vectors of the owner first."""
    there: list[tuple[int, bytes]]
    gone: list[int]
