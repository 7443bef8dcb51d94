"""Reads stored results, as resources `toolyard://results/<id>` and for the meta tool `read_result`.

`?start=&length=` is a range of bytes, `?offset=&limit=` one of items or lines, as in `read_result`. If a
range is too long for one answer, the answer has its beginning, and `_meta` says where it continues.
"""

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qsl

from msgspec import Raw

from ..artifacts.store import ArtifactReader, ArtifactStore, ArtifactStoreError, is_id
from ..kit.calls.content import ToolError
from ..languages import said
from ..results.query.reader import ReadResultError, ResultReader, answers_sql
from ..results.storage import RESULT_URI
from ..wire.call import Call, Caller
from ..wire.errors import InvalidParams, Unavailable
from ..wire.messages import decode_params, encode
from ..wire.types import CallToolResult, Text, UriParams
from .forwarding import not_found

MAX_BYTES = 256 * 1024
MIN_BYTES = 4
"""The longest character in UTF-8."""
RANGE_KEY = "toolyard/range"
READ_RESULT = "read_result"
_PARAMETERS = ("start", "length", "offset", "limit")


def read_resource_hint() -> str:
    """Say how the rest of a result is read where there is no `read_result`."""
    return said(
        f"resources/read of {RESULT_URI}{{id}}?offset=10&limit=10 shows more of it;"
        " without a range, all{url}",
        f"resources/read de {RESULT_URI}{{id}}?offset=10&limit=10 mostra mais; sem intervalo, tudo{{url}}",
    )


def read_result_hint(*, is_listed: bool = True) -> str:
    """Say how `read_result` shows more; one that is not listed is called through `call_tool`."""
    queries = said("JMESPath or SQL", "JMESPath ou SQL") if answers_sql() else "JMESPath"
    if is_listed:
        return said(
            f"{READ_RESULT}(id='{{id}}') shows more of it: pages, or {queries} over what the preview shows",
            f"{READ_RESULT}(id='{{id}}') mostra mais: páginas, ou {queries} sobre o que a prévia mostra",
        )
    sql = ", sql='SELECT … FROM result'" if answers_sql() else ""
    options = f"offset=0, limit=10, query='JMESPath'{sql}"
    call = f"call_tool(tool='{READ_RESULT}', arguments=dict(id='{{id}}'))"
    return said(f"{call} shows more of it; also: {options}", f"{call} mostra mais; também: {options}")


def result_template() -> dict[str, Any]:
    return {
        "uriTemplate": f"{RESULT_URI}{{id}}{{?start,length,offset,limit}}",
        "name": "stored_result",
        "title": said("A whole result", "Um resultado inteiro"),
        "description": said(
            "A result that was too big to be sent, or a range of it: of bytes, or of items or lines.",
            "Um resultado grande demais para ser enviado, ou uma parte dele: de bytes, itens ou linhas.",
        ),
    }


class StoredResults:
    """The stored results of a gateway, each readable for its tenant."""

    def __init__(
        self,
        store: ArtifactStore,
        reader: ResultReader,
        on_read: Callable[[Caller, int], None],
        permits: Callable[[Call, str], bool],
        record: Callable[[Call, str, int | None], Awaitable[None]] | None = None,
    ) -> None:
        """`on_read` is called with the reader and the number of bytes.

        `permits` says whether a caller may still have what a tool returned; else the result is not found.
        `record` is told before an answer goes out: the tool, and the bytes, or None if it was not found.
        """
        self._store = store
        self._reader = reader
        self._on_read = on_read
        self._permits = permits
        self._record = record

    @staticmethod
    def is_result_uri(uri: str) -> bool:
        """Returns whether a URI is a stored result; a server called `results` may have similar URIs."""
        return uri.startswith(RESULT_URI) and is_id(_id(uri))

    async def answer(self, call: Call, arguments: dict[str, Any]) -> CallToolResult:
        """Return the answer of `read_result` as a result; ToolError explains what was wrong."""
        try:
            body = await self.read_result(call, arguments)
        except ReadResultError as error:
            raise ToolError(str(error)) from None
        return CallToolResult(content=[Text(body.decode())], structured_content=Raw(body))

    async def read_result(self, call: Call, arguments: dict[str, Any]) -> bytes:
        """Return the answer of `read_result` as JSON; ReadResultError explains what was wrong."""
        tool, is_permitted = "", False

        def permits(of: str) -> bool:
            nonlocal tool, is_permitted
            tool, is_permitted = of, self._permits(call, of)
            return is_permitted

        try:
            body = encode(await self._reader.read(call.caller.owner, arguments, permits))
        except ReadResultError:
            await self._note(call, tool, 0 if is_permitted else None)
            raise
        await self._note(call, tool, len(body))
        self._on_read(call.caller, len(body))
        return body

    async def _note(self, call: Call, tool: str, size: int | None) -> None:
        if self._record is not None:
            await self._record(call, tool, size)

    async def read(self, call: Call) -> dict[str, Any]:
        uri = decode_params(call.params, UriParams).uri
        wanted = _range(uri)
        try:
            if "offset" in wanted or "limit" in wanted:
                body = await self.read_result(call, {"id": _id(uri), **wanted})
                return _contents(call, {"uri": uri, "mimeType": "application/json", "text": body.decode()})
            return await self._read_bytes(call, uri, wanted)
        except ReadResultError as error:
            raise InvalidParams(str(error), {"uri": uri}) from None
        except ArtifactStoreError as error:
            raise Unavailable(
                said(
                    f"the stored result cannot be read now: {error.reason}",
                    f"o resultado guardado não pode ser lido agora: {error.reason}",
                )
            ) from None

    async def _read_bytes(self, call: Call, uri: str, wanted: dict[str, int]) -> dict[str, Any]:
        reading = await self._store.open(call.caller.owner, _id(uri))
        if reading is None:
            await self._note(call, "", None)
            raise not_found(call, uri)
        tool = reading.artifact.tool
        try:
            if not self._permits(call, tool):
                await self._note(call, tool, None)
                raise not_found(call, uri)
            size = reading.artifact.size
            start = min(wanted.get("start", 0), size)
            length = min(max(wanted.get("length", MAX_BYTES), MIN_BYTES), MAX_BYTES, size - start)
            body = _without_cut_end(await reading.read(start, length), start + length < size)
            skipped = _cut_start(body) if start else 0
        finally:
            await reading.close()
        await self._note(call, tool, len(body))
        self._on_read(call.caller, len(body))
        return _contents(call, _content(uri, reading, start + skipped, body[skipped:]))


def _id(uri: str) -> str:
    return uri.removeprefix(RESULT_URI).partition("?")[0]


def _content(uri: str, reading: ArtifactReader, start: int, body: bytes) -> dict[str, Any]:
    artifact, end = reading.artifact, start + len(body)
    range: dict[str, Any] = {"start": start, "end": end, "size": artifact.size}
    if end < artifact.size:
        range["next"] = f"{RESULT_URI}{artifact.id}?start={end}"
    text = body.decode("utf-8", "replace")
    return {"uri": uri, "mimeType": artifact.content_type, "text": text, "_meta": {RANGE_KEY: range}}


def _contents(call: Call, contents: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = {"contents": [contents]}
    if call.caller.era == "modern":
        answer |= {"resultType": "complete", "ttlMs": 60_000, "cacheScope": "private"}
    return answer


def _range(uri: str) -> dict[str, int]:
    wanted: dict[str, int] = {}
    for name, value in parse_qsl(uri.partition("?")[2], keep_blank_values=True):
        if name not in _PARAMETERS or not (value.isascii() and value.isdigit() and len(value) < 16):
            shown, known = name[:40], ", ".join(_PARAMETERS)
            raise InvalidParams(
                said(
                    f"{shown!r} of {RESULT_URI}<id> must be one of {known}, and a whole number",
                    f"{shown!r} de {RESULT_URI}<id> deve ser um destes: {known}, com um número inteiro",
                )
            )
        wanted[name] = int(value)
    return wanted


def _cut_start(body: bytes) -> int:
    """Count the bytes of a character that began before the range."""
    start = body[: MIN_BYTES - 1]
    return next((at for at, byte in enumerate(start) if byte & 0xC0 != 0x80), len(start))


def _without_cut_end(body: bytes, continues: bool) -> bytes:
    """Remove the beginning of a character that the range cut in two."""
    if not continues:
        return body
    for back in range(1, min(4, len(body)) + 1):
        byte = body[-back]
        if byte & 0xC0 != 0x80:
            width = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
            return body[:-back] if width > back else body
    return body
