"""A page of a list that is too long to be decoded at once, cut into pieces that hold whole items.

Fed as it is read, a slice at a time, so that the event loop need not stand still for it. Every pass over the
bytes is in C, but for the rest of the item that a slice begins in.
"""

import re

from ..upstream.balance import Balance, Unbalanced

HEAD = 64 * 1024
"""How much may stand before the items, and after them."""
LONGEST_ITEM = 2**20

_TOKENS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
_REST_OF_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_LIST = re.compile(rb"\s*+:\s*+\[")

# Stands for what was cut off before the items, with two levels around it that nobody leaves.
_AROUND = b"[[{["
_DEPTH = len(_AROUND)


class CannotCut(ValueError):
    """Not a page of a list; the message says why."""


class Cutter:
    """`member` is the name of the list in the page."""

    def __init__(self, member: str) -> None:
        self._key = b'"%s"' % member.encode()
        self._head = b""
        self._tail: bytes | None = None
        self._carry = b""
        self._balance: Balance | None = None

    def feed(self, piece: bytes) -> bytes:
        """Whole items, separated by commas; empty when none is complete yet."""
        try:
            if self._tail is not None:
                self._end(piece)
                return b""
            if self._balance is None:
                piece = self._begin(piece)
            return self._cut(piece) if self._balance is not None else b""
        except Unbalanced as fault:
            raise CannotCut(str(fault)) from None

    def finish(self) -> bytes:
        """The page without its items."""
        if self._balance is None:
            return self._head
        if self._tail is None:
            raise CannotCut("it has no end")
        return self._head + self._tail

    def _begin(self, piece: bytes) -> bytes:
        """Look for the list; what belongs to it of this piece."""
        self._head += piece
        depth = 0
        for token in _TOKENS.finditer(self._head):
            text = token[0]
            if text in (b"{", b"["):
                depth += 1
            elif text in (b"}", b"]"):
                depth -= 1
            elif text == self._key and depth == 1 and (found := _LIST.match(self._head, token.end())):
                self._balance = Balance()
                self._balance.feed(_AROUND)
                rest = self._head[found.end() :]
                self._head = self._head[: found.end()]
                return rest
        if len(self._head) > HEAD:
            raise CannotCut(f"its items do not begin within {HEAD // 1024} KiB")
        return b""

    def _cut(self, piece: bytes) -> bytes:
        balance = self._balance
        assert balance is not None
        in_string, escaped, depth = balance.in_string, balance.escaped, balance.depth
        floor = balance.feed(piece)
        if floor > _DEPTH:
            self._keep(piece)
            return b""
        end = _first(piece, in_string, escaped, depth, _DEPTH - 1) if floor < _DEPTH else None
        at = end if end is not None else _first(piece, in_string, escaped, depth, _DEPTH)
        if at is None:
            self._keep(piece)
            return b""
        # The bracket that ends an item belongs to it; the one that ends the list does not.
        at -= end is not None
        batch = (self._carry + piece[:at]).strip().removeprefix(b",")
        self._carry = b""
        if end is None:
            self._keep(piece[at:])
        else:
            self._end(piece[at:])
        return batch.strip()

    def _keep(self, rest: bytes) -> None:
        self._carry += rest
        if len(self._carry) > LONGEST_ITEM:
            raise CannotCut(f"an item is over {LONGEST_ITEM // 1024} KiB")

    def _end(self, piece: bytes) -> None:
        self._tail = (self._tail or b"") + piece
        if len(self._tail) > HEAD:
            raise CannotCut(f"there are more than {HEAD // 1024} KiB after its items")


def _first(piece: bytes, in_string: bool, escaped: bool, depth: int, wanted: int) -> int | None:
    """Behind the first bracket that closes down to a depth, given where the piece begins."""
    start = int(escaped)
    if in_string and (rest := _REST_OF_STRING.match(piece, start)):
        start = rest.end()
    for token in _TOKENS.finditer(piece, start):
        bracket = token[0]
        if bracket in (b"{", b"["):
            depth += 1
        elif bracket in (b"}", b"]"):
            depth -= 1
            if depth == wanted:
                return token.end()
    return None
