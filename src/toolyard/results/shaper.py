"""Lets results pass that fit, and puts what fits in the place of those that do not.

The whole is written to the store first. A store that fails costs the link, and nothing else.
"""

import asyncio
import logging
from typing import Any, Protocol

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from ..artifacts.store import Store, Stored, StoreError
from ..wire.call import Call, Streamed
from ..wire.types import CallToolResult
from ..wire.types import Text as TextBlock
from .json_parts import Buffer
from .limits import Limits
from .options import Options, projected
from .payload import Payload, payload_of
from .shaping import RESOURCE, Beside, as_result, link_to, shaped
from .streaming import NotText, Streaming
from .survey import Survey, survey

logger = logging.getLogger("toolyard.results")

JSON, TEXT = "application/json", "text/plain; charset=utf-8"
IN_A_THREAD = 256 * 1024
PIECE = 256 * 1024


class Tool(Struct, frozen=True):
    """Whose result it is."""

    name: str
    """Its full name."""
    server: str
    tenant: str
    limits: Limits


class Noted(Protocol):
    """Told of every result: how much came and how much went on."""

    def __call__(self, call: Call, tool: Tool, came: int, went: int) -> None: ...


class Shaper:
    def __init__(self, store: Store, noted: Noted, hint: str) -> None:
        self._store = store
        self._noted = noted
        self._hint = hint
        """How the rest is read, with {id} for the artifact's."""

    async def fit(self, call: Call, result: Any, tool: Tool, options: Options) -> Any:
        """The result itself, or what takes its place."""
        if options.max_bytes is not None:
            wide = replace(tool.limits, max_bytes=options.max_bytes, max_items=2**62, max_lines=2**62)
            tool = replace(tool, limits=wide)
        came = _size(result)
        if not options.fields and _surely_fits(result, tool.limits):
            self._noted(call, tool, came, came)
            return result
        fitting = await self._fitted(call, result, tool, options)
        self._noted(call, tool, came, _size(fitting))
        return fitting

    async def _fitted(self, call: Call, result: Any, tool: Tool, options: Options) -> Any:
        if isinstance(result, Streamed):
            if not options.fields:
                streaming = Streaming(result, tool.limits)
                try:
                    return await self._streamed(call, streaming, tool, result)
                except NotText:
                    pass
            body: Buffer = await _collected(result)
        elif isinstance(result, Raw):
            body = bytes(result)
        elif isinstance(result, CallToolResult):
            body = msgspec.json.encode(result)
        else:
            return result
        work = asyncio.to_thread if len(body) > IN_A_THREAD else _at_once
        payload = await work(payload_of, body)
        if payload is None:
            return result
        if options.fields and payload.is_json:
            return await self._projected(call, payload, tool, options)
        found = await work(survey, payload, tool.limits)
        if not found.big:
            return result
        if isinstance(result, Streamed):
            result.close()
        storage, stored = await self._kept(payload.body, _content_type(payload), tool)
        return self._answer(call, found, storage, stored, tool, payload)

    async def _projected(self, call: Call, payload: Payload, tool: Tool, options: Options) -> Any:
        value = await asyncio.to_thread(lambda: projected(msgspec.json.decode(payload.body), options.fields))
        body = msgspec.json.encode(value)
        part = Payload(body, True, payload.others)
        found = survey(part, tool.limits)
        if found.big:
            storage, stored = await self._kept(body, JSON, tool)
            return self._answer(call, found, storage, stored, tool, payload)
        answer = {"tool_name": tool.name, "truncated": False, "fields": options.fields, "result": value}
        return as_result(answer, payload, None, call.caller.era)

    async def _streamed(self, call: Call, streaming: Streaming, tool: Tool, result: Streamed) -> Any:
        """A long text, in constant memory: written to the store as it is read."""
        writing = None
        fault: StoreError | None = None
        try:
            async for piece in streaming.pieces():
                if fault is None:
                    try:
                        if writing is None:
                            writing = await self._store.begin(
                                tool.tenant, tool.name, "text/plain; charset=utf-8"
                            )
                        await writing.write(piece)
                    except StoreError as error:
                        fault = error
        except BaseException:
            if writing is not None:
                await writing.discard()
            raise
        stored: Stored | None = None
        try:
            if fault is not None:
                raise fault
            if writing is not None:
                stored = await writing.finish()
        except StoreError as error:
            fault = error
            if writing is not None:
                await writing.discard()
        result.close()
        storage = self._told(stored, fault, tool)
        return self._answer(call, streaming.survey(), storage, stored, tool, streaming)

    async def _kept(
        self, body: Buffer, content_type: str, tool: Tool
    ) -> tuple[dict[str, Any], Stored | None]:
        try:
            writing = await self._store.begin(tool.tenant, tool.name, content_type)
            try:
                for start in range(0, len(body), PIECE):
                    await writing.write(bytes(body[start : start + PIECE]))
                stored = await writing.finish()
            except BaseException:
                await writing.discard()
                raise
        except StoreError as error:
            return self._told(None, error, tool), None
        return self._told(stored, None, tool), stored

    def _told(self, stored: Stored | None, fault: StoreError | None, tool: Tool) -> dict[str, Any]:
        """`storage` as the model reads it."""
        if stored is None:
            reason = fault.reason if fault is not None else "there is nothing to store"
            logger.warning("the whole result of %s could not be kept: %s", tool.name, reason)
            return {"type": self._store.type, "error": f"The whole result was not kept: {reason}"}
        told = {
            "type": stored.type,
            "bucket": stored.bucket,
            "key": stored.key,
            "url": stored.url,
            "expires_at": stored.expires_at,
            "resource": f"{RESOURCE}{stored.artifact.id}",
        }
        return {name: value for name, value in told.items() if value is not None}

    def _answer(
        self,
        call: Call,
        found: Survey,
        storage: dict[str, Any],
        stored: Stored | None,
        tool: Tool,
        beside: Beside,
    ) -> Raw:
        link = None
        hint = ""
        if stored is not None:
            kept = stored.artifact
            link = link_to(kept.id, tool.name, kept.size, kept.content_type)
            hint = self._hint.format(id=kept.id)
        answer = shaped(tool.name, found, storage, tool.limits, hint)
        return as_result(answer, beside, link, call.caller.era)


async def _at_once(function: Any, *arguments: Any) -> Any:
    return function(*arguments)


async def _collected(result: Streamed) -> memoryview:
    pieces = bytearray()
    async for chunk in result.chunks():
        pieces += chunk
    return memoryview(pieces)


def _content_type(payload: Payload) -> str:
    return JSON if payload.is_json else TEXT


def _size(result: Any) -> int:
    if isinstance(result, Raw):
        return len(memoryview(result))
    if isinstance(result, Streamed):
        return result.size
    if isinstance(result, CallToolResult):
        return _struct_size(result)
    return 0


def _struct_size(result: CallToolResult) -> int:
    texts = sum(len(block.text) for block in result.content if isinstance(block, TextBlock))
    structured = result.structured_content
    return texts + (len(memoryview(structured)) if isinstance(structured, Raw) else 0)


def _surely_fits(result: Any, limits: Limits) -> bool:
    """By a glance: so few bytes, commas and line breaks that it cannot be over any limit."""
    if isinstance(result, Raw):
        body = bytes(result)
        if len(body) > limits.max_bytes:
            return False
        return (
            body.count(b",") < limits.max_items
            and body.count(b"\\n") < limits.max_lines
            and b"\\u000" not in body
        )
    if isinstance(result, Streamed):
        return False
    if isinstance(result, CallToolResult):
        return _struct_size(result) <= limits.max_bytes and all(
            block.text.count(",") < limits.max_items and block.text.count("\n") < limits.max_lines
            for block in result.content
            if isinstance(block, TextBlock)
        )
    return True
