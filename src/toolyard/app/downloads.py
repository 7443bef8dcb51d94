"""GET /results/<token>: a whole result for whoever holds its link, sent in pieces."""

import zlib
from collections.abc import AsyncIterator
from urllib.parse import unquote

from ..artifacts.links import PATH, Links
from ..artifacts.store import Reading, Store, StoreError
from ..edge.asgi import Receive, Scope, Send, send_json
from ..wire.errors import InvalidRequest
from ..wire.messages import encode_error

PIECE = 256 * 1024
WORTH_COMPRESSING = 1024
# It is somebody else's text: nothing that opens it may take it for a page of ours.
_SAFE = [
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; sandbox"),
    (b"cache-control", b"private, no-store"),
    (b"referrer-policy", b"no-referrer"),
]


class Downloads:
    def __init__(self, store: Store, links: Links) -> None:
        self._store = store
        self._links = links

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            await _refuse(send, 405, "a result can only be read")
            return
        found = self._links.open(unquote(scope["path"].removeprefix(PATH)))
        try:
            reading = None if found is None else await self._store.open(*found)
        except StoreError as error:
            await _refuse(send, 503, f"the result cannot be read now: {error.reason}")
            return
        if reading is None:
            await _refuse(send, 404, "no such result; links expire, and so do results")
            return
        try:
            await _send(reading, scope, send)
        finally:
            await reading.close()


async def _send(reading: Reading, scope: Scope, send: Send) -> None:
    artifact = reading.artifact
    accepts = dict(scope["headers"]).get(b"accept-encoding", b"")
    gzip = artifact.size > WORTH_COMPRESSING and b"gzip" in accepts.lower()
    headers = [(b"content-type", artifact.content_type.encode()), (b"vary", b"accept-encoding"), *_SAFE]
    headers.append((b"content-encoding", b"gzip") if gzip else (b"content-length", b"%d" % artifact.size))
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    if scope["method"] == "GET":
        async for piece in _compressed(_pieces(reading)) if gzip else _pieces(reading):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _pieces(reading: Reading) -> AsyncIterator[bytes]:
    at = 0
    while at < reading.artifact.size:
        piece = await reading.read(at, PIECE)
        if not piece:
            raise StoreError(
                "the result ended early"
            )  # the connection breaks, so that nobody takes it for whole
        yield piece
        at += len(piece)


async def _compressed(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    packer = zlib.compressobj(6, wbits=31)
    async for piece in pieces:
        packed = packer.compress(piece)
        if packed:
            yield packed
    yield packer.flush()


async def _refuse(send: Send, status: int, message: str) -> None:
    await send_json(send, status, encode_error(None, InvalidRequest(message)), [])
