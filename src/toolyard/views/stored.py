"""Whole results as resources: `toolyard://results/<id>`, all of it or a range.

`?start=&length=` is a range of bytes, `?offset=&limit=` one of items or lines as `read_result` has them. Of
what is too long for one answer the beginning is given, and `_meta` says where it goes on.
"""

from typing import Any
from urllib.parse import parse_qsl, urlsplit

from ..artifacts.store import Store, StoreError
from ..results.reading import Reader
from ..results.reading.asked import Wrong
from ..results.storing import RESOURCE
from ..wire.call import Call
from ..wire.errors import InvalidParams, Unavailable
from ..wire.messages import decode_params, encode
from ..wire.types import UriParams
from .calling import not_found

MOST_BYTES = 256 * 1024
RANGE_KEY = "toolyard/range"
MORE = f"resources/read of {RESOURCE}{{id}}?offset=10&limit=10 shows more of it; without a range, all of it"
_KNOWN = ("start", "length", "offset", "limit")

TEMPLATE: dict[str, Any] = {
    "uriTemplate": f"{RESOURCE}{{id}}{{?start,length,offset,limit}}",
    "name": "stored_result",
    "title": "A whole result",
    "description": "A result that was too big to be sent, or a range of it: of bytes, or of items or lines.",
}


class Shelved:
    """The stored results of a gateway, for whoever reads resources."""

    def __init__(self, store: Store, reader: Reader) -> None:
        self._store = store
        self.reader = reader

    @staticmethod
    def is_one(uri: str) -> bool:
        return uri.startswith(RESOURCE)

    async def read(self, call: Call) -> dict[str, Any]:
        uri = decode_params(call.params, UriParams).uri
        id, wanted = _parsed(uri)
        try:
            if "offset" in wanted or "limit" in wanted:
                body = encode(await self.reader.read(call.caller.tenant, {"id": id, **wanted}))
                return self._answer(call, uri, body.decode(), "application/json", None)
            return await self._bytes(call, uri, id, wanted)
        except Wrong as error:
            raise InvalidParams(str(error), {"uri": uri}) from None
        except StoreError as error:
            raise Unavailable(f"the stored result cannot be read now: {error.reason}") from None

    async def _bytes(self, call: Call, uri: str, id: str, wanted: dict[str, int]) -> dict[str, Any]:
        reading = await self._store.open(call.caller.tenant, id)
        if reading is None:
            raise not_found(call, uri)
        try:
            artifact = reading.artifact
            start = min(wanted.get("start", 0), artifact.size)
            length = min(wanted.get("length", MOST_BYTES), MOST_BYTES, artifact.size - start)
            body = _whole_letters(await reading.read(start, length), start + length < artifact.size)
        finally:
            await reading.close()
        end = start + len(body)
        told: dict[str, Any] = {"start": start, "end": end, "size": artifact.size}
        if end < artifact.size:
            told["next"] = f"{RESOURCE}{id}?start={end}"
        text = body.decode("utf-8", "replace")
        return self._answer(call, uri, text, artifact.content_type, told)

    def _answer(
        self, call: Call, uri: str, text: str, kind: str, told: dict[str, Any] | None
    ) -> dict[str, Any]:
        contents: dict[str, Any] = {"uri": uri, "mimeType": kind, "text": text}
        if told is not None:
            contents["_meta"] = {RANGE_KEY: told}
        answer: dict[str, Any] = {"contents": [contents]}
        if call.caller.era == "modern":
            answer |= {"resultType": "complete", "ttlMs": 60_000, "cacheScope": "private"}
        return answer


def _parsed(uri: str) -> tuple[str, dict[str, int]]:
    try:
        parts = urlsplit(uri)
    except ValueError:
        raise InvalidParams(f"Not an address: {uri[:200]!r}") from None
    id = uri.removeprefix(RESOURCE).partition("?")[0]
    wanted: dict[str, int] = {}
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in _KNOWN or not (value.isascii() and value.isdigit() and len(value) < 16):
            raise InvalidParams(
                f"{name[:40]!r} of {RESOURCE}<id> must be one of {', '.join(_KNOWN)}, and a whole number"
            )
        wanted[name] = int(value)
    return id, wanted


def _whole_letters(body: bytes, goes_on: bool) -> bytes:
    """Without the beginning of a letter that the range cut in two."""
    if not goes_on:
        return body
    for back in range(1, min(4, len(body)) + 1):
        byte = body[-back]
        if byte & 0xC0 != 0x80:
            width = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
            return body[:-back] if width > back else body
    return body
