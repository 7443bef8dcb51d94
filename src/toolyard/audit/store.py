"""The interface of the stores of audit lines, and their errors. No message contains a password.

AuditStoreError           for operators: names the store, and `hint` says what to do
AuditUnavailableError     for callers: the call is refused because it could not be recorded
"""

from collections.abc import AsyncIterator, Iterable
from typing import Protocol

from msgspec import Struct

from ..wire.errors import Unavailable
from .chain import ChainHead

MAX_LINKS = 16
"""How many of the chains written last a new chain links to."""
MAX_LINE = 1 << 20


class AuditStoreError(Exception):
    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message if hint is None else f"{message}; hint: {hint}")
        self.message = message
        self.hint = hint


class AuditUnavailableError(Unavailable):
    def __init__(self) -> None:
        super().__init__(
            "Refused: every call is recorded here, and the audit cannot be written just now. Try again later."
        )


class StoredLine(Struct, frozen=True):
    place: str
    """For people: a file and a line, or a row of a table."""
    data: bytes
    is_torn: bool = False
    """It has no end. At the end of a chain that is what a killed process leaves."""


class LineBlock(Struct, frozen=True):
    """Lines in the order of their chain. No later block has a line written after `written_before`."""

    lines: Iterable[bytes]
    written_before: float


class PrunedChain(Struct, frozen=True):
    last: ChainHead
    lines: int


class AuditStore(Protocol):
    """Every method may raise AuditStoreError."""

    place: str

    async def begin(self) -> None:
        """Begin a chain of this process, unless there is one. `append` does so too."""
        ...

    async def append(self, body: bytes) -> None:
        """Add one encoded object to this process's chain. After it, `kill -9` cannot lose the line."""
        ...

    async def check(self) -> None:
        """Try whether something can be written. No chain has a line of it."""
        ...

    async def own_chain(self) -> str:
        """The id of this process's chain; empty before the first `append`."""
        ...

    async def chains(self) -> list[str]:
        """All chains, the oldest first, and the journals of retention."""
        ...

    def scan(self, chain: str) -> AsyncIterator[StoredLine]:
        """Every line of a chain, in the order in which the store holds them."""
        ...

    async def heads(self) -> list[ChainHead]:
        """The last whole line of each chain, the one written last first; without journals."""
        ...

    async def read(self, chain: str, after: int, limit: int) -> list[bytes]:
        """Whole lines with a number above `after`, in order."""
        ...

    def newest(self, since: float | None) -> AsyncIterator[LineBlock]:
        """The lines written since then and perhaps some before, the newest blocks first."""
        ...

    async def prune(self, before: float) -> list[PrunedChain]:
        """Remove lines from before that time, and note in the journal what was removed."""
        ...

    async def cursor(self, sink: str, chain: str) -> tuple[int, float]:
        """The number of the last line that was delivered, -1 for none; when it was last saved, else 0."""
        ...

    async def save_cursor(self, sink: str, chain: str, seq: int) -> None: ...

    async def close(self) -> None:
        """End this process's chain."""
        ...
