"""Tools that an upstream has and does not list: lent to whoever found them, and to nobody else.

An upstream with thousands of tools lists the few with which the others are found. What a caller finds is
kept here for that caller's conversation, within bounds: what was not used for longest is forgotten first,
and has to be found again. Which tools may be lent, and under which names, is the catalogue's business.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..wire.call import Call
from ..wire.threads import thread_of

if TYPE_CHECKING:
    from .catalogue import Entry

MAX_EACH = 512
MAX_BYTES = 32 * 1024 * 1024
_OVERHEAD = 500


def borrower(call: Call) -> str:
    """Whose loan a call may use: its principal's, in its conversation."""
    return f"{call.caller.identity.principal}\0{thread_of(call)}"


class _Loan:
    """By full names, the longest unused first."""

    def __init__(self) -> None:
        self.entries: OrderedDict[str, Entry] = OrderedDict()
        self.size = 0


class Lending:
    def __init__(self, max_bytes: int = MAX_BYTES, max_each: int = MAX_EACH) -> None:
        self._max_bytes = max_bytes
        self._max_each = max_each
        self._loans: OrderedDict[str, _Loan] = OrderedDict()
        self._size = 0

    def __len__(self) -> int:
        """How many have something on loan."""
        return len(self._loans)

    def lend(self, entries: "Iterable[Entry]", whose: str) -> None:
        entries = list(entries)
        if not entries:  # whoever finds nothing is not remembered for it
            return
        loan = self._loans.setdefault(whose, _Loan())
        self._loans.move_to_end(whose)
        for entry in entries:
            self._drop(loan, entry.name)
            loan.entries[entry.name] = entry
            self._count(loan, _size(entry))
        while len(loan.entries) > self._max_each:
            self._drop(loan, next(iter(loan.entries)))
        while self._size > self._max_bytes and len(self._loans) > 1:
            self._size -= self._loans.popitem(last=False)[1].size
        while self._size > self._max_bytes and len(loan.entries) > 1:
            self._drop(loan, next(iter(loan.entries)))

    def find(self, name: str, whose: str) -> "Entry | None":
        loan = self._loans.get(whose)
        entry = None if loan is None else loan.entries.get(name)
        if loan is not None and entry is not None:
            self._loans.move_to_end(whose)
            loan.entries.move_to_end(name)
        return entry

    def all(self, whose: str) -> "list[Entry]":
        loan = self._loans.get(whose)
        return [] if loan is None else list(loan.entries.values())

    def forget(self, server: str) -> None:
        """The upstream is not what it was: nothing of it is on loan any more."""
        for whose, loan in list(self._loans.items()):
            for name in [name for name, entry in loan.entries.items() if entry.server == server]:
                self._drop(loan, name)
            if not loan.entries:
                del self._loans[whose]

    def _drop(self, loan: _Loan, name: str) -> None:
        entry = loan.entries.pop(name, None)
        if entry is not None:
            self._count(loan, -_size(entry))

    def _count(self, loan: _Loan, size: int) -> None:
        loan.size += size
        self._size += size


def _size(entry: "Entry") -> int:
    return len(entry.item.rest) + len(entry.name) + _OVERHEAD
