"""Long JSON texts in slices: one slice in each turn of the event loop, checked for nesting as it comes in.

Owns the queue for turns and the check that brackets match, nest no deeper than the limit, and that the text
is UTF-8. It does not check the order of tokens.
"""

import asyncio
import codecs
import re
from collections import deque
from collections.abc import Iterator
from itertools import accumulate
from weakref import WeakKeyDictionary

from ...wire.messages import MAX_NESTING

SLICE = 32 * 1024
"""Bytes that are checked in one turn: a quarter of a millisecond for most texts."""


class _TurnQueue:
    """The tasks that wait for a turn on one event loop."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def wait(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._waiting:
            loop.call_soon(self._next, loop)
        turn = loop.create_future()
        self._waiting.append(turn)
        await turn

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._waiting:
            first = self._waiting.popleft()
            if not first.done():  # else the waiting task was cancelled
                first.set_result(None)
                break
        if self._waiting:
            loop.call_soon(self._next, loop)


_queues: WeakKeyDictionary[asyncio.AbstractEventLoop, _TurnQueue] = WeakKeyDictionary()


async def next_turn() -> None:
    """Wait until all callbacks that are ready now have run. Only one waiting task continues in each turn."""
    loop = asyncio.get_running_loop()
    queue = _queues.get(loop)
    if queue is None:
        queue = _queues[loop] = _TurnQueue()
    await queue.wait(loop)


def slices(data: bytes, size: int = SLICE) -> Iterator[bytes]:
    """Cut a text into slices; a short text is its own only slice."""
    if len(data) <= size:
        yield data
        return
    for start in range(0, len(data), size):
        yield data[start : start + size]


MAX_VALUES = 64
"""Objects and lists directly inside the outermost object; a JSON-RPC message has one or two."""

MAX_TOKENIZED = 1024
"""Bytes of a piece that is read token by token."""

_KNOWN = b" \t\r\n+-.0123456789eEtrufalsn:,[]{}"
_NO_BRACKET = bytes(set(range(256)) - set(b"[]{}"))
_PARTNERS = bytes.maketrans(b"[{", b"]}")
_STEPS = bytes.maketrans(b"[{]}", b"\1\1\0\0")
_ESCAPED = b"\1\1"  # stands for an escape while strings are cut out: as long, and unknown outside them
_RUNS = re.compile(rb"[\[{]+|[\]}]+")
REST_OF_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
"""The rest of a JSON string. One that does not end counts too, or each quote in it would start a new one."""
TOKENS = re.compile(rb'"' + REST_OF_STRING.pattern + rb"|[\[\]{}]", re.DOTALL)
"""JSON strings and brackets."""


class NestingError(ValueError):
    """The text cannot be JSON, or is nested too deeply."""


class NestingCheck:
    """Checks a text piece by piece. It runs on the event loop, so all passes over the bytes are in C."""

    __slots__ = ("_at", "_begun", "_limit", "_stack", "_text", "_torn", "escaped", "in_string", "values")

    def __init__(self, limit: int = MAX_NESTING) -> None:
        self.values: list[tuple[int, int]] = []
        """The begin and end of each object and list directly inside the outermost one."""
        self._limit = limit
        self._stack = b""
        self._at = 0
        self._begun = 0
        self.in_string: bool = False
        """Whether the text so far ends inside a string; `escaped`: and behind a backslash."""
        self.escaped: bool = False
        self._text = codecs.getincrementaldecoder("utf-8")()
        self._torn = False

    @property
    def depth(self) -> int:
        """The number of open brackets."""
        return len(self._stack)

    def feed(self, piece: bytes) -> int:
        """Check a piece; returns the smallest depth in it."""
        self._check_text(piece)
        return self._feed(piece)

    def _feed(self, piece: bytes) -> int:
        before = self.in_string, self.escaped, self._stack
        brackets = self._brackets(piece)
        floor = self._nest(brackets) if brackets else len(self._stack)
        if brackets and floor < 2:
            if len(piece) > MAX_TOKENIZED:
                # Reading token by token is slow, so narrow it down to the parts that need it.
                self.in_string, self.escaped, self._stack = before
                return min([self._feed(part) for part in slices(piece, len(piece) // 8)])
            in_string, escaped, stack = before
            self._note_values(piece, in_string, escaped, len(stack))
        self._at += len(piece)
        return floor

    def finish(self) -> None:
        if self.in_string or self._stack or self._torn:
            raise NestingError("it ends in the middle")

    def _check_text(self, piece: bytes) -> None:
        if self._torn or not piece.isascii():
            try:
                self._text.decode(piece)
            except UnicodeDecodeError:
                raise NestingError("it is not UTF-8") from None
            self._torn = bool(self._text.getstate()[0])

    def _brackets(self, piece: bytes) -> bytes:
        """The brackets outside strings, in order."""
        text = piece[1:] if self.escaped else piece
        self.escaped = False
        if b"\\" in text:
            text = text.replace(b"\\\\", _ESCAPED).replace(b'\\"', _ESCAPED)
            if text.endswith(b"\\"):
                self.escaped = True
                text = text[:-1] + b"\1"
        parts = text.split(b'"')
        outside = b"".join(parts[self.in_string :: 2])
        if not len(parts) & 1:
            self.in_string = not self.in_string
        if outside.translate(None, _KNOWN):
            raise NestingError("it has characters outside strings that are not JSON")
        return outside.translate(None, _NO_BRACKET)

    def _nest(self, brackets: bytes) -> int:
        """Add the brackets to the stack; returns the smallest depth among them."""
        depth = len(self._stack)
        rest, levels = _without_pairs(brackets, self._limit)
        opened = rest.lstrip(b"]}")
        closed = rest[: len(rest) - len(opened)]
        floor = depth - len(closed)
        if floor < 0 or opened.translate(None, b"[{"):
            raise NestingError("its brackets do not match")
        if closed != self._stack[floor:][::-1].translate(_PARTNERS):
            raise NestingError("its brackets do not match")
        self._stack = self._stack[:floor] + opened
        # Counting them one by one is slow, so it is done only where the upper bound exceeds the limit.
        if max(depth, len(self._stack)) + levels > self._limit:
            steps = map((-1, 1).__getitem__, brackets.translate(_STEPS))
            if depth + max(accumulate(steps)) > self._limit:
                raise NestingError(f"it is nested deeper than {self._limit} levels")
        return floor

    def _note_values(self, piece: bytes, in_string: bool, escaped: bool, depth: int) -> None:
        # Slow, but each piece is short here, and few pieces begin or end a value.
        start = int(escaped)
        if in_string and (rest := REST_OF_STRING.match(piece, start)):
            start = rest.end()
        for token in TOKENS.finditer(piece, start):
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
            raise NestingError(f"it has more than {MAX_VALUES} members")


def _without_pairs(brackets: bytes, limit: int) -> tuple[bytes, int]:
    """Remove matching pairs; returns the rest, and at most how many levels the pairs rose above it."""
    levels = 0
    while True:
        fewer = brackets.replace(b"{}", b"").replace(b"[]", b"")
        removed = len(brackets) - len(fewer)
        if not removed:
            return brackets, levels
        levels += 2
        if removed < len(brackets) // 8:  # few pairs, each inside many brackets
            rest, height = _by_runs(fewer, limit)
            return rest, height + levels
        brackets = fewer


def _by_runs(brackets: bytes, limit: int) -> tuple[bytes, int]:
    closed, stack, height = b"", b"", 0
    for run in _RUNS.findall(brackets):
        if run[0] in b"[{":
            stack += run
            height = max(height, len(stack) - len(closed))
        else:
            floor = max(0, len(stack) - len(run))
            inner = stack[floor:]
            if not run.startswith(inner[::-1].translate(_PARTNERS)):
                raise NestingError("its brackets do not match")
            stack = stack[:floor]
            closed += run[len(inner) :]
        if len(stack) > limit:
            raise NestingError(f"it is nested deeper than {limit} levels")
        if len(closed) > limit:
            raise NestingError("its brackets do not match")
    return closed + stack, height
