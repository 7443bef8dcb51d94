"""The tables, and the protocol of a database: statements, transactions and full-text search.

Statements have `:name` placeholders. Work is a function that runs in a thread of the database.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
Row = tuple[Any, ...]


class MemoryConnection(Protocol):
    """A connection inside a unit of work."""

    def rows(self, statement: str, /, **values: Any) -> list[Row]: ...

    def count(self, statement: str, /, **values: Any) -> int:
        """Returns how many rows the statement changed."""
        ...

    # Full-text search: words are ASCII and prefixed with the owner.

    def index(self, id: int, words: Sequence[str]) -> None:
        """Replaces the indexed words of a memory."""
        ...

    def unindex(self, ids: Sequence[int]) -> None: ...

    def match(self, words: Sequence[str], limit: int) -> list[int]:
        """Returns memories that contain one of the words, the best first."""
        ...


class MemoryDatabase(Protocol):
    """Raises MemoryStoreError if the database cannot be used."""

    async def read(self, work: Callable[[MemoryConnection], T]) -> T: ...

    async def write(self, work: Callable[[MemoryConnection], T]) -> T:
        """Runs the work in one transaction."""
        ...

    async def close(self) -> None: ...


OWNERS, MEMORIES, VERSIONS = "toolyard_memory_owners", "toolyard_memories", "toolyard_memory_versions"

ABOUT = "title, kind, domain, level, scope, category, importance"
# The + keeps SQLite from choosing an index by `deleted`, which selects almost nothing.
LIVE = f"FROM {MEMORIES} WHERE owner = :owner AND +deleted = 0"

_TABLES = (
    # Every change of a memory increments `revision`. Erased memories had a revision up to `floor`: a
    # reader who saw an older one has to read everything again.
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
    # A covering index for the counts: counting 100,000 memories reads none of them.
    f"CREATE INDEX IF NOT EXISTS {MEMORIES}_kinds ON {MEMORIES} (owner, deleted, kind, domain)",
    f"CREATE INDEX IF NOT EXISTS {MEMORIES}_digest ON {MEMORIES} (owner, digest)",
    f"""CREATE TABLE IF NOT EXISTS {VERSIONS} (
        memory bigint NOT NULL, version bigint NOT NULL, content text NOT NULL, happened text NOT NULL,
        changed_by text NOT NULL, at {{float}} NOT NULL, PRIMARY KEY (memory, version))""",
)


def tables(**types: str) -> list[str]:
    return [statement.format(**types) for statement in _TABLES]
