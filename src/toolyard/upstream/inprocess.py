"""An upstream in this process: a kit server that takes calls as they are, with nothing serialised.

Results too long to encode in one turn of the event loop are written to a spool in slices.
"""

import asyncio
import secrets
import time
from binascii import b2a_base64
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Any, cast

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from ..config.models import InProcess
from ..config.references import plain
from ..config.secrets import secret_values
from ..kit import Refused
from ..kit.loader import LoadError, load
from ..kit.server import Server
from ..telemetry.events import LOG_ALONE, Events
from ..telemetry.redaction import call_secrets
from ..wire.call import NO_CHANNEL, Call, Channel, Secret, StreamedResult
from ..wire.errors import InvalidRequest, McpError
from ..wire.messages import encode
from ..wire.seal import Sealer
from ..wire.secrets import NO_SECRETS, KnownSecrets
from ..wire.types import CallToolResult, DiscoverResult, Text
from ..wire.versions import LATEST_MODERN
from .attribution import questions
from .base import Forward, Outcome, StatelessUpstream
from .connection import GATEWAY_CALLER, UpstreamInfo
from .errors import InvalidReplyError, NotReachedError
from .handshake import DISCOVER
from .messages.slices import SLICE, next_turn, slices
from .messages.spool import Spool, Spooled, SpoolError

LONG = 4 * SLICE
"""What is shorter is encoded with what is around it."""
MANY = 1000
BATCH = 50

# Nobody can know it beforehand, and JSON has no way to write it differently.
_HOLE = secrets.token_hex(16)
_QUOTED_HOLE = b'"%s"' % _HOLE.encode()


async def spool_if_long(result: Any, secrets: KnownSecrets = NO_SECRETS) -> Any:
    """The result itself, when it is short; else its JSON, on disk if there is much of it, and no secrets."""
    taken: list[Any] = []
    outline = _without(result, taken)
    if not taken:
        return result
    spool = Spool(secrets=secrets)
    try:
        for piece in _gathered(_around(outline, taken)):
            spool.write(piece)
            await next_turn()
        whole = spool.finish()
        return whole if isinstance(whole, Spooled) else Raw(whole)
    except BaseException:
        spool.discard()
        raise


def _is_short(result: Any) -> bool:
    """By a glance at the most usual of them."""
    if type(result) is not CallToolResult or len(result.content) != 1:
        return False
    block = result.content[0]
    structured = result.structured_content
    return (
        type(block) is Text
        and len(block.text) < LONG
        and (not isinstance(structured, Raw) or len(memoryview(structured)) < LONG)
    )


def _without(value: Any, taken: list[Any]) -> Any:
    """The value with holes where something long was, which goes to `taken` in the order of encoding."""
    if isinstance(value, Struct):
        members = {name: getattr(value, name) for name in value.__struct_fields__}
        changed = {name: found for name, old in members.items() if (found := _without(old, taken)) is not old}
        return replace(value, **changed) if changed else value
    if isinstance(value, list):
        items = cast(list[Any], value)
        if len(items) > MANY:
            taken.append(items)
            return _HOLE
        found = [_without(item, taken) for item in items]
        return found if any(new is not old for new, old in zip(found, items, strict=True)) else items
    if _length(value) > LONG:
        taken.append(value)
        return _HOLE
    return value


def _length(value: Any) -> int:
    if isinstance(value, str | bytes):
        return len(value)
    return len(memoryview(value)) if isinstance(value, Raw) else 0


def _around(outline: Any, taken: list[Any]) -> Iterator[bytes]:
    first, *others = encode(outline).split(_QUOTED_HOLE)
    yield first
    for value, after in zip(taken, others, strict=True):
        yield from _written(value)
        yield after


def _written(value: Any) -> Iterator[bytes]:
    if isinstance(value, str):
        yield b'"'
        for start in range(0, len(value), SLICE):
            yield encode(value[start : start + SLICE])[1:-1]
        yield b'"'
    elif isinstance(value, bytes):
        yield b'"'
        for piece in slices(value, SLICE - SLICE % 3):  # whole groups of base64
            yield b2a_base64(piece, newline=False)
        yield b'"'
    elif isinstance(value, Raw):
        yield from slices(bytes(value))
    else:
        yield from _listed(cast(list[Any], value))


def _listed(items: list[Any]) -> Iterator[bytes]:
    """A few at a time."""
    for start in range(0, len(items), BATCH):
        taken: list[Any] = []
        batch = [_without(item, taken) for item in items[start : start + BATCH]]
        yield b"," if start else b"["
        yield from _inside(_around(batch, taken))
    yield b"]"


def _inside(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """A list in pieces without the brackets around it."""
    held = next(pieces)[1:]
    for piece in pieces:
        yield held
        held = piece
    yield held[:-1]


def _gathered(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Pieces of about a slice each."""
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= SLICE:
            yield b"".join(held)
            held, size = [], 0
    yield b"".join(held)


FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""A module that failed to load is not imported again before; each time it has twice as long to be mended."""


CallToolOf = Callable[[Call, str, Mapping[str, Any]], Awaitable[Any]]
"""Calls a tool by name for the caller of another call."""


class InProcessUpstream(StatelessUpstream):
    """Loaded when first used; one that fails to load is tried again like one that cannot be reached."""

    def __init__(
        self,
        server: str,
        module: str,
        options: Mapping[str, Any],
        call_tool: CallToolOf | None = None,
        sealer: Sealer | None = None,
        events: Events = LOG_ALONE,
    ) -> None:
        """`call_tool` calls another tool for the caller of a call. `sealer` is the gateway's for this server,
        so that other gateways with the same key take the answers to its questions.
        """
        self._name = server
        self._sent = KnownSecrets(secret_values(InProcess(module=module, options=options)))
        self._call_tool = call_tool
        self._sealer = sealer
        self._events = events.of(server)
        self._module = module
        self._options = plain(options)
        self._server: Server | None = None
        self._loading = asyncio.Lock()
        self._failed: str | None = None
        self._again = 0.0
        self._pause = FIRST_PAUSE

    async def _loaded(self) -> Server:
        """Imported in a thread: what somebody else's module does meanwhile may take long."""
        async with self._loading:
            if self._server is None:
                if self._failed is not None and time.monotonic() < self._again:
                    raise NotReachedError(self._name, self._failed)
                try:
                    self._server = await asyncio.to_thread(load, self._module, options=self._options)
                    self._server.events = self._events
                except LoadError as error:
                    self._failed = self._sent.clean_text(error.message)
                    self._again = time.monotonic() + self._pause
                    self._pause = min(2 * self._pause, LONGEST_PAUSE)
                    raise NotReachedError(self._name, self._failed) from None
            return self._server

    async def send(self, forward: Forward) -> Outcome:
        secrets = self._sent
        if forward.secrets:
            secrets = secrets.with_more(key.reveal() for key in forward.secrets.values())
        if not secrets.values:
            return await self._answer(forward, secrets)
        call = replace(forward.call, channel=_CleanChannel(forward.call.channel, secrets))
        token = call_secrets.set(secrets)
        try:
            return await self._answer(replace(forward, call=call), secrets)
        except McpError as error:
            secrets.clean_error(error)
            raise
        finally:
            call_secrets.reset(token)

    async def _answer(self, forward: Forward, secrets: KnownSecrets) -> Outcome:
        server = self._server or await self._loaded()
        if forward.secrets:
            await _admit(server, forward.secrets)
        call_tool = None if self._call_tool is None else partial(self._call_tool, forward.call)
        result = await server.service.handle(forward.as_call(call_tool, self._sealer, self._name))
        is_error = getattr(result, "is_error", False) is True
        kind = (
            getattr(result, "result_type", "complete") if forward.call.caller.era == "modern" else "complete"
        )
        if kind == "input_required" and forward.marks:
            asked = questions(self._name, result.input_requests)
            result = Raw(encode(replace(result, input_requests=cast(Any, asked))))
        try:
            body = result if _is_short(result) else await spool_if_long(result, secrets)
        except SpoolError as error:
            raise InvalidReplyError(self._name, f"its result could not be kept: {error}") from None
        if not isinstance(body, Raw | StreamedResult):
            body = Raw(encode(body))
        if secrets.values and isinstance(body, Raw):
            body = Raw(secrets.clean(bytes(body)))
        size = len(memoryview(body)) if isinstance(body, Raw) else body.size
        return Outcome(body, size, kind if kind in ("input_required", "task") else "complete", is_error)

    async def key_headers(self) -> tuple[str, ...]:
        """The headers in which the server looks for a caller's key."""
        keys = (self._server or await self._loaded()).caller_keys
        return () if keys is None else keys.headers

    async def checks_keys(self) -> bool:
        """Whether the server can tell beforehand if it lets in a caller with a key."""
        keys = (self._server or await self._loaded()).caller_keys
        return keys is not None and keys.admit is not None

    async def admits(self, key: Secret) -> bool:
        """Whether the server lets in a caller with this key; True if it cannot tell beforehand.

        Raises NotReachedError if it refuses for another reason than the key.
        """
        keys = (self._server or await self._loaded()).caller_keys
        if keys is None or keys.admit is None:
            return True
        try:
            await keys.admit(key)
        except Refused as refused:
            if refused.status not in (401, 403):
                raise NotReachedError(self._name, refused.message) from None
            return False
        return True

    async def info(self, call: Call | None = None) -> UpstreamInfo:
        server = await self._loaded()
        asked = Call("server/discover", Raw(encode(DISCOVER)), GATEWAY_CALLER, NO_CHANNEL, 1)
        found: DiscoverResult = await server.service.handle(asked)
        clean, said = self._sent, found.instructions
        return UpstreamInfo(
            LATEST_MODERN,
            Raw(clean.clean(msgspec.json.encode(server.implementation))),
            clean.clean_value(found.capabilities),
            clean.clean_text(said) if said else None,
        )

    async def close(self) -> None:
        if self._server is not None:
            await self._server.close()


class _CleanChannel:
    """A call's channel, for a server that knows secrets which the client must not get."""

    __slots__ = ("_channel", "_secrets")

    def __init__(self, channel: Channel, secrets: KnownSecrets) -> None:
        self._channel = channel
        self._secrets = secrets

    async def notify(self, method: str, params: Any) -> None:
        await self._channel.notify(method, self._secrets.clean_value(params))

    async def ask(self, method: str, params: Any) -> Raw:
        return await self._channel.ask(method, self._secrets.clean_value(params))

    async def release(self, retry_ms: int | None) -> None:
        await self._channel.release(retry_ms)


async def _admit(server: Server, brought: Mapping[str, Secret]) -> None:
    """Ask what the server's own edge would have asked: whether a caller with this key may enter."""
    keys = server.caller_keys
    key = None if keys is None else next((brought[name] for name in keys.headers if name in brought), None)
    if keys is None or keys.admit is None or key is None:
        return
    try:
        await keys.admit(key)
    except Refused as refused:
        if refused.status == 401:
            key.refuse()
        raise InvalidRequest(refused.message) from None
