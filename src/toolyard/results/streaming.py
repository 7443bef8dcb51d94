"""A long text read out of a result that lies on disk, piece by piece, in constant memory.

Only results whose first block is a text that is no JSON are read so; NotText for all others, which are
decoded as a whole.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

from msgspec import Raw

from ..wire.call import Streamed
from .limits import Limits
from .literals import PIECE, BrokenText, unescaped
from .payload import NOTHING, payload_of
from .survey import Survey, of_reading
from .texts import Reading

HEAD = 64 * 1024
LONGEST_REST = 64 * 1024
LONGEST_ESCAPE = 6
"""So many bytes of a result may stand for one of its text."""

# Members that may stand before `content`, and a first block that begins with its type or with its text.
_FLAG = rb'\s*+"(?:resultType|isError)"\s*+:\s*+[\w"]++\s*+,'
_META = rb'\s*+"_meta"\s*+:\s*+\{[^{}]*+(?:\{[^{}]*+\}[^{}]*+)*+\}\s*+,'
_BEFORE = rb"\s*+\{(?:" + _FLAG + rb"|" + _META + rb")*"
_START = re.compile(
    _BEFORE + rb'\s*+"content"\s*+:\s*+\[\s*+\{\s*+(?:"type"\s*+:\s*+"text"\s*+,\s*+)?+"text"\s*+:\s*+"'
)
_STRING_END = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_JSON = re.compile(rb"(?:\\[nrt]|\s)*[\[{]")

_READER = ThreadPoolExecutor(1, "toolyard-texts")
"""One thread for all: Python runs one at a time anyway, and each keeps 1 to 2 MiB of memory for itself."""


class NotText(Exception):
    """This result has to be read as a whole."""


def is_surely_big(result: Streamed, limits: Limits) -> bool:
    """Even if all of it were escapes."""
    return result.size > limits.max_bytes * LONGEST_ESCAPE + HEAD + LONGEST_REST


class Streaming:
    def __init__(self, result: Streamed) -> None:
        self._result = result
        self._reading = Reading()
        self._size = 0
        self.blocks: tuple[Raw, ...] = ()
        self.meta = NOTHING
        self.is_error = False

    async def pieces(self) -> AsyncIterator[bytes]:
        """The text, as UTF-8."""
        chunks = self._result.chunks()
        head = b""
        async for chunk in chunks:
            head += chunk
            if len(head) >= HEAD:
                break
        start = _START.match(head)
        if start is None or _JSON.match(head, start.end()):
            raise NotText
        rest = b""
        carry = head[start.end() :]
        while True:
            end = _STRING_END.match(carry)
            if end is not None:
                carry, rest = carry[: end.end() - 1], carry[end.end() :]
            # Others go on meanwhile: a piece may take some milliseconds.
            loop = asyncio.get_running_loop()
            text, carry = await loop.run_in_executor(_READER, self._read, carry, end is not None)
            yield text
            if end is not None:
                break
            carry += await _some(chunks)
        async for chunk in chunks:
            rest += chunk
            if len(rest) > LONGEST_REST:
                raise NotText  # there is as much again behind it, such as the same as structured content
        self._look_around(head[: start.end()] + b'x"' + rest)

    def _read(self, escaped: bytes, ended: bool) -> tuple[bytes, bytes]:
        try:
            text, waiting = unescaped(escaped, ended)
        except BrokenText:
            raise NotText from None
        self._reading.feed(text)
        body = text.encode()
        self._size += len(body)
        return body, waiting

    def _look_around(self, rest: bytes) -> None:
        """What is around the text must be such that the text is all there is to shape."""
        payload = payload_of(rest)
        texts = [bytes(text.body) for text in payload.texts]
        if payload.kind != "complete" or payload.structured is not None or texts != [b"x"]:
            raise NotText
        self.blocks = (*payload.links, *payload.media)
        self.meta = payload.meta
        self.is_error = payload.is_error

    def survey(self) -> Survey:
        return of_reading(self._reading, self._size)


async def _some(chunks: AsyncIterator[bytes]) -> bytes:
    """Short ones together: every piece costs a way to the store and back."""
    found: list[bytes] = []
    size = 0
    async for chunk in chunks:
        found.append(chunk)
        size += len(chunk)
        if size >= PIECE:
            break
    if not found:
        raise NotText
    return b"".join(found)
