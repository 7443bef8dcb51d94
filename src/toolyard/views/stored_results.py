"""Stored results as resources, `toolyard://results/<id>`, and the meta tool `read_result`.

`?start=&length=` is a range of bytes, `?offset=&limit=` one of items or lines as `read_result` has them. If
a range is too long for one answer its beginning is given, and `_meta` says where it continues.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from msgspec import Raw

from ..artifacts.store import ArtifactReader, ArtifactStore, ArtifactStoreError, is_id
from ..kit.calls.content import ToolError
from ..results.query.reader import MOST_ITEMS, ReadResultError, ResultReader
from ..results.storage import RESULT_URI
from ..wire.call import Call, Caller
from ..wire.errors import InvalidParams, Unavailable
from ..wire.messages import decode_params, encode
from ..wire.types import CallToolResult, Text, UriParams
from .forwarding import not_found
from .meta.tools import MetaTool

if TYPE_CHECKING:
    from .meta.service import MetaToolService


MOST_BYTES = 256 * 1024
LEAST_BYTES = 4
"""A letter has to fit."""
RANGE_KEY = "toolyard/range"
READ_RESOURCE_HINT = (
    f"resources/read of {RESULT_URI}{{id}}?offset=10&limit=10 shows more of it; without a range, all of it"
)
_PARAMETERS = ("start", "length", "offset", "limit")

RESULT_TEMPLATE: dict[str, Any] = {
    "uriTemplate": f"{RESULT_URI}{{id}}{{?start,length,offset,limit}}",
    "name": "stored_result",
    "title": "A whole result",
    "description": "A result that was too big to be sent, or a range of it: of bytes, or of items or lines.",
}


class StoredResults:
    """The stored results of a gateway, for whoever asks for them."""

    def __init__(
        self, store: ArtifactStore, reader: ResultReader, noted: Callable[[Caller, int], None]
    ) -> None:
        self._store = store
        self._reader = reader
        self._noted = noted
        """Told how many bytes of a stored result went to whom."""

    @staticmethod
    def is_one(uri: str) -> bool:
        """A server that is called `results` may have addresses that begin like ours."""
        return uri.startswith(RESULT_URI) and is_id(_id(uri))

    async def ask(self, call: Call, arguments: dict[str, Any]) -> bytes:
        """`read_result`: its answer as JSON; Wrong with what the asker should know."""
        body = encode(await self._reader.read(call.caller.tenant, arguments))
        self._noted(call.caller, len(body))
        return body

    async def read(self, call: Call) -> dict[str, Any]:
        uri = decode_params(call.params, UriParams).uri
        wanted = _range(uri)
        try:
            if "offset" in wanted or "limit" in wanted:
                body = await self.ask(call, {"id": _id(uri), **wanted})
                return _contents(call, {"uri": uri, "mimeType": "application/json", "text": body.decode()})
            return await self._bytes(call, uri, wanted)
        except ReadResultError as error:
            raise InvalidParams(str(error), {"uri": uri}) from None
        except ArtifactStoreError as error:
            raise Unavailable(f"the stored result cannot be read now: {error.reason}") from None

    async def _bytes(self, call: Call, uri: str, wanted: dict[str, int]) -> dict[str, Any]:
        reading = await self._store.open(call.caller.tenant, _id(uri))
        if reading is None:
            raise not_found(call, uri)
        try:
            size = reading.artifact.size
            start = min(wanted.get("start", 0), size)
            length = min(max(wanted.get("length", MOST_BYTES), LEAST_BYTES), MOST_BYTES, size - start)
            body = _whole_letters(await reading.read(start, length), start + length < size)
            skipped = _cut_off(body) if start else 0
        finally:
            await reading.close()
        self._noted(call.caller, len(body))
        return _contents(call, _shown(uri, reading, start + skipped, body[skipped:]))


def _id(uri: str) -> str:
    return uri.removeprefix(RESULT_URI).partition("?")[0]


def _shown(uri: str, reading: ArtifactReader, start: int, body: bytes) -> dict[str, Any]:
    artifact, end = reading.artifact, start + len(body)
    told: dict[str, Any] = {"start": start, "end": end, "size": artifact.size}
    if end < artifact.size:
        told["next"] = f"{RESULT_URI}{artifact.id}?start={end}"
    text = body.decode("utf-8", "replace")
    return {"uri": uri, "mimeType": artifact.content_type, "text": text, "_meta": {RANGE_KEY: told}}


def _contents(call: Call, contents: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = {"contents": [contents]}
    if call.caller.era == "modern":
        answer |= {"resultType": "complete", "ttlMs": 60_000, "cacheScope": "private"}
    return answer


def _range(uri: str) -> dict[str, int]:
    wanted: dict[str, int] = {}
    for name, value in parse_qsl(uri.partition("?")[2], keep_blank_values=True):
        if name not in _PARAMETERS or not (value.isascii() and value.isdigit() and len(value) < 16):
            raise InvalidParams(
                f"{name[:40]!r} of {RESULT_URI}<id> must be one of {', '.join(_PARAMETERS)}, "
                "and a whole number"
            )
        wanted[name] = int(value)
    return wanted


def _cut_off(body: bytes) -> int:
    """How many bytes belong to a letter that began before the range."""
    begun = body[: LEAST_BYTES - 1]
    return next((at for at, byte in enumerate(begun) if byte & 0xC0 != 0x80), len(begun))


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


READ_RESULT = "read_result"
READ_RESULT_HINT = (
    f"{READ_RESULT}(id='{{id}}') shows more of it: pages, or JMESPath or SQL over what the preview shows"
)
_DESCRIPTION = (
    "Read more of a truncated result: a page of items or lines, a JMESPath query, or one SQL SELECT over the "
    "table `result`, a row per item. All of them see what the preview shows: a list of records is a list of "
    "records, however it was sent. Prefer a query that answers the question to paging."
)
_INPUT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "description": "Of the result: at the end of storage.resource."},
        "offset": {"type": "integer", "minimum": 0},
        "limit": {"type": "integer", "minimum": 1, "maximum": MOST_ITEMS},
        "query": {
            "type": "string",
            "description": "JMESPath from what the preview shows: [?state=='open'].title, length(@)",
        },
        "sql": {"type": "string", "description": "SELECT state, count(*) FROM result GROUP BY state"},
    },
    "required": ["id"],
}


def read_result(stored: StoredResults) -> MetaTool:
    async def answer(desk: "MetaToolService", call: Call, arguments: dict[str, Any]) -> CallToolResult:
        try:
            body = await stored.ask(call, arguments)
        except ReadResultError as error:
            raise ToolError(str(error)) from None
        return CallToolResult(content=[Text(body.decode())], structured_content=Raw(body))

    return MetaTool(
        name=READ_RESULT,
        title="Read a stored result",
        description=_DESCRIPTION,
        input_schema=_INPUT,
        answer=answer,
        annotations={"readOnlyHint": True, "openWorldHint": False},
    )
