"""What `Store` needs of a database: statements in one spelling, transactions, and full-text search.

Statements have `:name` where a value goes. Work is ordinary code that runs in a thread of the database's, so
that the rules are written once, and no disk and no network stops the event loop.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
Row = tuple[Any, ...]


class Session(Protocol):
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


class Database(Protocol):
    """Raises StoreFailed where it cannot be used."""

    async def read(self, work: Callable[[Session], T]) -> T: ...

    async def write(self, work: Callable[[Session], T]) -> T:
        """All of it or nothing."""
        ...

    async def close(self) -> None: ...
