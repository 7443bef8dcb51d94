"""Whether a JSON text too long to decode is well nested, told as it comes in.

It holds that outside strings every bracket has its partner, none lies deeper than the limit, nothing
stands that JSON does not know, and that all is UTF-8. So what lies between a bracket and its partner
cannot break out of a text it is put into. Whether the tokens stand in a sensible order is not checked.
"""

import codecs
import re
from itertools import accumulate

from ..wire.messages import MAX_NESTING

MAX_VALUES = 64
"""Objects and lists directly inside the outermost object; a JSON-RPC message has one or two."""

_PASSES = 8
_KNOWN = b" \t\r\n+-.0123456789eEtrufalsn:,[]{}"
_NO_BRACKET = bytes(set(range(256)) - set(b"[]{}"))
_PARTNERS = bytes.maketrans(b"[{", b"]}")
_STEPS = bytes.maketrans(b"[{]}", b"\1\1\0\0")
_ESCAPED = b"\1\1"  # stands for an escape while strings are cut out: as long, and unknown outside them
_TOKENS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
_REST_OF_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)


class Unbalanced(ValueError):
    """The text cannot be JSON, or is nested too deeply."""


class Balance:
    """Fed with a text piece by piece. All passes over the bytes are in C: it runs on the event loop."""

    __slots__ = ("_at", "_begun", "_escaped", "_in_string", "_limit", "_stack", "_text", "_torn", "values")

    def __init__(self, limit: int = MAX_NESTING) -> None:
        self.values: list[tuple[int, int]] = []
        """Where the objects and lists directly inside the outermost one begin and end."""
        self._limit = limit
        self._stack = b""
        self._at = 0
        self._begun = 0
        self._in_string = False
        self._escaped = False
        self._text = codecs.getincrementaldecoder("utf-8")()
        self._torn = False

    def feed(self, piece: bytes) -> None:
        self._check_text(piece)
        in_string, escaped, depth = self._in_string, self._escaped, len(self._stack)
        brackets = self._brackets(piece)
        if brackets:
            floor = self._nest(brackets)
            if floor < 2:
                self._note_values(piece, in_string, escaped, depth)
        self._at += len(piece)

    def finish(self) -> None:
        if self._in_string or self._stack or self._torn:
            raise Unbalanced("it ends in the middle")

    def _check_text(self, piece: bytes) -> None:
        if self._torn or not piece.isascii():
            try:
                self._text.decode(piece)
            except UnicodeDecodeError:
                raise Unbalanced("it is not UTF-8") from None
            self._torn = bool(self._text.getstate()[0])

    def _brackets(self, piece: bytes) -> bytes:
        """The brackets outside strings, in order."""
        text = piece[1:] if self._escaped else piece
        self._escaped = False
        if b"\\" in text:
            text = text.replace(b"\\\\", _ESCAPED).replace(b'\\"', _ESCAPED)
            if text.endswith(b"\\"):
                self._escaped = True
                text = text[:-1] + b"\1"
        parts = text.split(b'"')
        outside = b"".join(parts[self._in_string :: 2])
        if not len(parts) & 1:
            self._in_string = not self._in_string
        if outside.translate(None, _KNOWN):
            raise Unbalanced("it has characters outside strings that JSON does not know")
        return outside.translate(None, _NO_BRACKET)

    def _nest(self, brackets: bytes) -> int:
        """Take the brackets in; the depth of the shallowest place among them."""
        depth = len(self._stack)
        rest, passes = _without_pairs(brackets)
        opened = rest.lstrip(b"]}")
        closed = rest[: len(rest) - len(opened)]
        floor = depth - len(closed)
        if floor < 0 or opened.translate(None, b"[{"):
            raise Unbalanced("its brackets do not match")
        if closed != self._stack[floor:][::-1].translate(_PARTNERS):
            raise Unbalanced("its brackets do not match")
        self._stack = self._stack[:floor] + opened
        # Each pass takes away two levels at most, so that this settles nearly every piece.
        if max(depth, len(self._stack)) + 2 * passes > self._limit:
            steps = map((-1, 1).__getitem__, brackets.translate(_STEPS))
            if depth + max(accumulate(steps)) > self._limit:
                raise Unbalanced(f"it is nested deeper than {self._limit} levels")
        return floor

    def _note_values(self, piece: bytes, in_string: bool, escaped: bool, depth: int) -> None:
        # Slow, but each piece that comes here begins or ends a value, and those are few.
        start = int(escaped)
        if in_string and (rest := _REST_OF_STRING.match(piece, start)):
            start = rest.end()
        for token in _TOKENS.finditer(piece, start):
            bracket = token[0]
            if bracket in (b"{", b"["):
                depth += 1
                if depth == 2:
                    self._begun = self._at + token.start()
            elif bracket in (b"}", b"]"):
                if depth == 2:
                    self.values.append((self._begun, self._at + token.end()))
                depth -= 1
        if len(self.values) > MAX_VALUES:
            raise Unbalanced(f"it has more than {MAX_VALUES} members")


def _without_pairs(brackets: bytes) -> tuple[bytes, int]:
    """What is left when partners that meet are taken away, and at most how many pairs of levels went."""
    for passes in range(1, _PASSES + 1):
        fewer = brackets.replace(b"{}", b"").replace(b"[]", b"")
        if len(fewer) == len(brackets):
            return brackets, passes
        brackets = fewer
    left = bytearray()
    for bracket in brackets:
        if left and bracket - left[-1] == 2:  # so far are `[` and `]`, and `{` and `}`, apart
            left.pop()
        else:
            left.append(bracket)
    return bytes(left), MAX_NESTING
