"""GET /results/<token>: a whole result for whoever holds its link, sent in pieces."""

import asyncio
import logging
import zlib
from collections.abc import AsyncIterator
from urllib.parse import unquote

from ..artifacts.links import PATH, Links
from ..artifacts.store import Artifact, Reading, Store, StoreError
from ..edge.asgi import Receive, Scope, Send, send_json
from ..wire.errors import InvalidRequest
from ..wire.messages import encode_error

logger = logging.getLogger("toolyard.app")

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
            await _refuse(send, 405, "a result can only be read", [(b"allow", b"GET, HEAD")])
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
            await _send(reading, scope, receive, send)
        except StoreError as error:
            # The answer stays without its end, so that nobody takes it for whole.
            logger.warning("a download of a result broke off: %s", error.reason)
        finally:
            await reading.close()


async def _send(reading: Reading, scope: Scope, receive: Receive, send: Send) -> None:
    artifact = reading.artifact
    gzip = artifact.size > WORTH_COMPRESSING and _takes_gzip(scope)
    await send({"type": "http.response.start", "status": 200, "headers": _headers(artifact, gzip)})
    if scope["method"] == "GET":
        leaving = asyncio.ensure_future(_left(receive))
        try:
            async for piece in _compressed(_pieces(reading)) if gzip else _pieces(reading):
                if leaving.done():
                    return
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        finally:
            leaving.cancel()
    await send({"type": "http.response.body", "body": b""})


def _takes_gzip(scope: Scope) -> bool:
    accepted = b",".join(value for name, value in scope["headers"] if name == b"accept-encoding").lower()
    for one in accepted.split(b","):
        name, _, weight = one.partition(b";")
        if name.strip() in (b"gzip", b"*"):
            return weight.replace(b" ", b"") not in (b"q=0", b"q=0.0", b"q=0.00", b"q=0.000")
    return False


def _headers(artifact: Artifact, gzip: bool) -> list[tuple[bytes, bytes]]:
    """As long as it is not packed on the way, its length is known."""
    size = (b"content-encoding", b"gzip") if gzip else (b"content-length", b"%d" % artifact.size)
    kind = (b"content-type", artifact.content_type.encode())
    return [kind, size, (b"vary", b"accept-encoding"), *_SAFE]


async def _left(receive: Receive) -> None:
    """Until the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _pieces(reading: Reading) -> AsyncIterator[bytes]:
    at = 0
    while at < reading.artifact.size:
        piece = await reading.read(at, PIECE)
        if not piece:
            raise StoreError("the result ended early")
        yield piece
        at += len(piece)


async def _compressed(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    packer = zlib.compressobj(6, wbits=31)
    async for piece in pieces:
        packed = await asyncio.to_thread(packer.compress, piece)  # 256 KiB take it 5 ms
        if packed:
            yield packed
    yield packer.flush()


async def _refuse(
    send: Send, status: int, message: str, headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    await send_json(send, status, encode_error(None, InvalidRequest(message)), headers or [])
