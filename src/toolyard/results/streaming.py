"""A long text read out of a result that lies on disk, piece by piece, in constant memory.

Only results whose first block is a text that is no JSON are read so; NotText for all others, which are
decoded as a whole.
"""

import re
from collections.abc import AsyncIterator

import msgspec
from msgspec import Raw

from ..wire.call import Streamed
from .limits import Limits
from .payload import NOTHING, payload_of
from .survey import Survey
from .texts import Reading

HEAD = 64 * 1024
LONGEST_REST = 64 * 1024
LONGEST_LETTER = 13
"""A pair of escapes has twelve bytes; one of them may still be missing."""

# Members that may stand before `content`, and a first block that begins with its type or with its text.
_FLAG = rb'\s*+"(?:resultType|isError)"\s*+:\s*+[\w"]++\s*+,'
_META = rb'\s*+"_meta"\s*+:\s*+\{[^{}]*+(?:\{[^{}]*+\}[^{}]*+)*+\}\s*+,'
_BEFORE = rb"\s*+\{(?:" + _FLAG + rb"|" + _META + rb")*+"
_START = re.compile(
    _BEFORE + rb'\s*+"content"\s*+:\s*+\[\s*+\{\s*+(?:"type"\s*+:\s*+"text"\s*+,\s*+)?+"text"\s*+:\s*+"'
)
_STRING_END = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_JSON = re.compile(rb"(?:\\[nrt]|\s)*+[\[{]")


class NotText(Exception):
    """This result has to be read as a whole."""


class Streaming:
    def __init__(self, result: Streamed, limits: Limits) -> None:
        self._result = result
        self._limits = limits
        self._reading = Reading()
        self._size = 0
        self.others: tuple[Raw, ...] = ()
        self.meta = NOTHING

    async def pieces(self) -> AsyncIterator[bytes]:
        """The text, as bytes of UTF-8."""
        chunks = self._result.chunks()
        head = b""
        async for chunk in chunks:
            head += chunk
            if len(head) >= HEAD:
                break
        start = _START.match(head)
        if start is None or _JSON.match(head, start.end()):
            raise NotText
        carry = head[start.end() :]
        rest = b""
        ended = False
        while True:
            end = _STRING_END.match(carry)
            if end is not None:
                ended = True
                rest = carry[end.end() :]
                carry = carry[: end.end() - 1]
            text, carry = _unescaped(carry, ended)
            self._reading.feed(text)
            piece = text.encode("utf-8", "surrogatepass")
            self._size += len(piece)
            if piece:
                yield piece
            if ended:
                break
            chunk = await anext(chunks, b"")
            if not chunk:
                raise NotText
            carry += chunk
        async for chunk in chunks:
            rest += chunk
            if len(rest) > LONGEST_REST:
                raise NotText  # there is as much again behind it, such as the same as structured content
        self._check(head[: start.end()], rest)

    def _check(self, before: bytes, rest: bytes) -> None:
        """What is around the text must be such that the text is all there is to shape."""
        payload = payload_of(before + b'x"' + rest)
        if payload is None or payload.is_json or bytes(payload.body) != b"x":
            raise NotText
        self.others = payload.others
        self.meta = payload.meta

    def survey(self) -> Survey:
        summary = {"approx_size_bytes": self._size, **self._reading.summary()}
        return Survey(summary, True, text=self._reading.beginning)


def _unescaped(escaped: bytes, ended: bool) -> tuple[str, bytes]:
    """The text so far, and what has to wait for more: an escape or a letter that is cut in two."""
    for wait in range(1 if ended else LONGEST_LETTER):
        end = len(escaped) - wait
        try:
            return msgspec.json.decode(b'"' + escaped[:end] + b'"', type=str), escaped[end:]
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
    raise NotText
