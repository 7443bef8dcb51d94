"""Writes whole results to the artifact store, from memory or, in constant memory, from a spooled file.

A store that fails costs the link to the whole and nothing else, whatever the failure is.
"""

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from msgspec import Raw, Struct

from ..artifacts.store import ArtifactStore, ArtifactStoreError, ArtifactWriter, StoredArtifact
from ..languages import said
from ..telemetry.requests import current
from ..wire.call import StreamedResult
from .formats.json_parts import Buffer
from .formats.texts import TextScanner
from .limits import Limits
from .payload import NOTHING, PIECE, BrokenTextError, parse_payload, unescape
from .summary import ResultSummary, summarize_scan

logger = logging.getLogger("toolyard.results")

RESULT_URI = "toolyard://results/"
JSON_TYPE, TEXT_TYPE = "application/json", "text/plain; charset=utf-8"
STORE_PIECE = 256 * 1024
LONGEST_REASON = 300


class StoredResult(Struct, frozen=True):
    """Where the whole of a big result is, or why it was not stored."""

    type: str
    location: StoredArtifact | None = None
    error: str = ""

    def as_json(self) -> dict[str, Any]:
        """`storage` as a model reads it."""
        location = self.location
        if location is None:
            reason = self.error[:LONGEST_REASON]
            error = said(
                f"The full result was not stored: {reason}", f"O resultado inteiro não foi guardado: {reason}"
            )
            return {"type": self.type, "error": error}
        members = {
            "type": location.type,
            "bucket": location.bucket,
            "key": location.key,
            "url": location.url,
            "expires_at": location.expires_at,
            "resource": f"{RESULT_URI}{location.artifact.id}",
        }
        return {name: value for name, value in members.items() if value is not None}

    def link(self, tool: str) -> dict[str, Any] | None:
        if self.location is None:
            return None
        artifact = self.location.artifact
        return {
            "type": "resource_link",
            "uri": f"{RESULT_URI}{artifact.id}",
            "name": said(f"result of {tool}", f"resultado de {tool}"),
            "mimeType": artifact.content_type,
            "size": artifact.size,
        }


async def pieces_of(body: Buffer) -> AsyncIterator[bytes]:
    for start in range(0, len(body), STORE_PIECE):
        yield bytes(body[start : start + STORE_PIECE])


async def store_result(
    store: ArtifactStore, tenant: str, tool: str, kind: str, pieces: AsyncIterator[bytes]
) -> StoredResult:
    """Takes all pieces even if the store has failed: a summary may be made of them while they pass."""
    writer = _StoreWriter(store, tenant, tool, kind)
    try:
        async for piece in pieces:
            await writer.write(piece)
        stored = await writer.finish()
        request = current.get()
        if request is not None and stored.location is not None:
            request.stored_as = stored.location.artifact.id
        return stored
    except BaseException:
        await writer.discard()
        raise


class _StoreWriter:
    def __init__(self, store: ArtifactStore, tenant: str, tool: str, kind: str) -> None:
        self._store = store
        self._about = (tenant, tool, kind)
        self._writer: ArtifactWriter | None = None
        self._error: ArtifactStoreError | None = None

    async def write(self, piece: bytes) -> None:
        if self._error is not None:
            return
        try:
            await (await self._open()).write(piece)
        except Exception as error:
            self._error = _as_store_error(error)

    async def _open(self) -> ArtifactWriter:
        if self._writer is None:
            self._writer = await self._store.begin(*self._about)
        return self._writer

    async def finish(self) -> StoredResult:
        try:
            if self._error is None:
                return StoredResult(self._store.type, await (await self._open()).finish())
        except Exception as error:
            self._error = _as_store_error(error)
        await self.discard()
        return StoredResult(self._store.type, error=self._error.reason)

    async def discard(self) -> None:
        if self._writer is not None:
            try:
                await self._writer.discard()
            except Exception as error:
                _as_store_error(error)


def _as_store_error(error: Exception) -> ArtifactStoreError:
    """An error whose text a model may read; details of an unexpected one go to the log alone."""
    if isinstance(error, ArtifactStoreError):
        return error
    logger.error("unexpected error in the artifact store", exc_info=error)
    return ArtifactStoreError(said("the store failed", "o armazenamento falhou"))


HEAD = 64 * 1024
LONGEST_REST = 64 * 1024
LONGEST_ESCAPE = 6
"""Bytes of JSON that may stand for one byte of text."""

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
"""One thread for all: Python runs one at a time anyway, and each keeps 1 to 2 MiB of memory."""


class NotTextError(Exception):
    """The result is not one long text; it has to be read as a whole."""


def is_surely_big(result: StreamedResult, limits: Limits) -> bool:
    """Whether it is over the limit in bytes even if all of it were escapes."""
    return result.size > limits.max_bytes * LONGEST_ESCAPE + HEAD + LONGEST_REST


class TextStream:
    """A result that is one long text, read in pieces: the text itself, its summary, and what is around it."""

    def __init__(self, result: StreamedResult) -> None:
        self._result = result
        self._scanner = TextScanner()
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
            raise NotTextError
        rest = b""
        carry = head[start.end() :]
        while True:
            end = _STRING_END.match(carry)
            if end is not None:
                carry, rest = carry[: end.end() - 1], carry[end.end() :]
            # In a thread: a piece may take some milliseconds.
            loop = asyncio.get_running_loop()
            text, carry = await loop.run_in_executor(_READER, self._read, carry, end is not None)
            yield text
            if end is not None:
                break
            carry += await _next_piece(chunks)
        async for chunk in chunks:
            rest += chunk
            if len(rest) > LONGEST_REST:
                raise NotTextError  # much follows the text, such as the same as structured content
        self._read_rest(head[: start.end()] + b'x"' + rest)

    def _read(self, escaped: bytes, ended: bool) -> tuple[bytes, bytes]:
        try:
            text, waiting = unescape(escaped, ended)
        except BrokenTextError:
            raise NotTextError from None
        self._scanner.feed(text)
        body = text.encode()
        self._size += len(body)
        return body, waiting

    def _read_rest(self, rest: bytes) -> None:
        """Read the members around the text. NotTextError if more than the text would have to be shaped."""
        payload = parse_payload(rest)
        texts = [bytes(text.body) for text in payload.texts]
        if payload.kind != "complete" or payload.structured is not None or texts != [b"x"]:
            raise NotTextError
        self.blocks = (*payload.links, *payload.media)
        self.meta = payload.meta
        self.is_error = payload.is_error

    def summary(self) -> ResultSummary:
        return summarize_scan(self._scanner, self._size)


async def _next_piece(chunks: AsyncIterator[bytes]) -> bytes:
    """Joins short chunks: every piece costs a round trip to the store."""
    found: list[bytes] = []
    size = 0
    async for chunk in chunks:
        found.append(chunk)
        size += len(chunk)
        if size >= PIECE:
            break
    if not found:
        raise NotTextError
    return b"".join(found)
