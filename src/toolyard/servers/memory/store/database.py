"""The tables, and the protocol of a database: statements, transactions and full-text search.

Statements have `:name` where a value goes. Work is ordinary code that runs in a thread of the database.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
Row = tuple[Any, ...]


class MemoryConnection(Protocol):
    """A connection while work is done on it."""

    def rows(self, statement: str, /, **values: Any) -> list[Row]: ...

    def count(self, statement: str, /, **values: Any) -> int:
        """How many rows it changed."""
        ...

    # Full-text search: words are plain ASCII, and belong to one owner.

    def index(self, id: int, words: Sequence[str]) -> None:
        """In place of the words it had."""
        ...

    def unindex(self, ids: Sequence[int]) -> None: ...

    def match(self, words: Sequence[str], limit: int) -> list[int]:
        """Those that have one of the words, the best first."""
        ...


class MemoryDatabase(Protocol):
    """Raises StoreFailed where it cannot be used."""

    async def read(self, work: Callable[[MemoryConnection], T]) -> T: ...

    async def write(self, work: Callable[[MemoryConnection], T]) -> T:
        """All of it or nothing."""
        ...

    async def close(self) -> None: ...


OWNERS, MEMORIES, VERSIONS = "toolyard_memory_owners", "toolyard_memories", "toolyard_memory_versions"

ABOUT = "title, kind, domain, level, scope, category, importance"
# The sign keeps SQLite from taking `deleted`, which tells nearly nothing, for a reason to choose an index.
LIVE = f"FROM {MEMORIES} WHERE owner = :owner AND +deleted = 0"

_TABLES = (
    # `revision` grows with every change of one of the owner's memories. What was purged for good has a
    # revision up to `floor`: whoever looked last before that has to look at everything.
    f"""CREATE TABLE IF NOT EXISTS {OWNERS} (
        id {{id}}, tenant {{text}} NOT NULL, agent {{text}} NOT NULL,
        revision bigint NOT NULL DEFAULT 0, floor bigint NOT NULL DEFAULT 0,
        memories bigint NOT NULL DEFAULT 0, UNIQUE (tenant, agent))""",
    # A deleted memory stays as a row without text, so that its versions can be found.
    f"""CREATE TABLE IF NOT EXISTS {MEMORIES} (
        id {{id}}, owner bigint NOT NULL, path {{text}} NOT NULL, version bigint NOT NULL,
        revision bigint NOT NULL, deleted smallint NOT NULL DEFAULT 0, content text NOT NULL,
        digest {{bytes}} NOT NULL, vector {{bytes}}, updated {{float}} NOT NULL,
        title text NOT NULL, kind text NOT NULL, domain text NOT NULL, level text NOT NULL,
        scope text NOT NULL, category text NOT NULL, importance {{float}} NOT NULL{{more}},
        UNIQUE (owner, path))""",
    f"CREATE INDEX IF NOT EXISTS {MEMORIES}_revision ON {MEMORIES} (owner, revision)",
    f"CREATE INDEX IF NOT EXISTS {MEMORIES}_deleted ON {MEMORIES} (owner, revision) WHERE deleted = 1",
    # Holds all that counting needs: to count 100,000 memories, not one of them is read.
    f"CREATE INDEX IF NOT EXISTS {MEMORIES}_kinds ON {MEMORIES} (owner, deleted, kind, domain)",
    f"CREATE INDEX IF NOT EXISTS {MEMORIES}_digest ON {MEMORIES} (owner, digest)",
    f"""CREATE TABLE IF NOT EXISTS {VERSIONS} (
        memory bigint NOT NULL, version bigint NOT NULL, content text NOT NULL, happened text NOT NULL,
        changed_by text NOT NULL, at {{float}} NOT NULL, PRIMARY KEY (memory, version))""",
)


def tables(**types: str) -> list[str]:
    return [statement.format(**types) for statement in _TABLES]
