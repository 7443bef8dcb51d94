"""One invocation of a function as it moves through the edge, and the channel of its call.

Owns how the answer is told: plain JSON, unless the handler speaks and the client takes streams; in a form
that fits what the function can send; and once, even where a deadline and an answer come together.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from ..telemetry.observed import Observed, Outcome, outcome
from ..wire.call import NO_CHANNEL, Call, Caller, Identity, Service, Streamed
from ..wire.errors import InternalError, InvalidRequest, McpError
from ..wire.headers import Head
from ..wire.messages import Notification, Reply, encode, encode_error
from ..wire.secret import Secret
from ..wire.sse import frame
from ..wire.types import CallToolResult, Text
from ..wire.versions import ASSUMED_VERSION
from .accepting import Accepted
from .answer import failure
from .asgi import JSON, SSE, Headers
from .lambda_events import Kind, Request
from .lambda_outlets import Outlet
from .tenants import forget

Fit = Callable[[Call, Raw], Awaitable[Raw]]
"""Makes a tool's result small that is too big for a function to send."""

MOST_SPOKEN = 1024 * 1024
"""Room that notifications leave for the answer."""
_NOBODY = Caller(ASSUMED_VERSION, {})


class Late(McpError, TimeoutError):
    """The function's own time is up; what was asked goes on nowhere."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            -32603,
            f"The function's time was up: no answer within {seconds:.1f} seconds, and the call was stopped",
        )

    @property
    def http_status(self) -> int:
        return 504


class _Named(Struct):
    name: str = ""


_decode_name = msgspec.json.Decoder(_Named).decode


class Invocation:
    """A request, what is known of it by now, and how it was answered."""

    def __init__(self, request: Request, outlet: Outlet) -> None:
        self.method, self.path, self.body = request.method, request.path, request.body
        self.kind: Kind = request.kind
        self.head = Head(request.headers)
        self.headers: Headers = []
        """What every answer carries: CORS, for a browser."""
        self.accepted = Accepted(True, False, False)
        self.identity = Identity()
        self.secrets: Mapping[str, Secret] | None = None
        self.call: Call | None = None
        self.seen = Observed(method="", server="", caller=_NOBODY, transport="http")
        self.status = 0
        self.outcome: Outcome = "ok"
        self._outlet = outlet
        self._state: Literal["silent", "speaking", "finished"] = "silent"

    # Answers

    async def refuse(self, status: int, message: str, headers: Headers | None = None) -> None:
        """Turned away before any JSON-RPC was read: an error without an id."""
        self.headers += headers or []
        await self.fail(status, InvalidRequest(message))

    async def fail(self, status: int, error: McpError, id: Any = None) -> None:
        self.ended_by(error)
        await self.finish(status, encode_error(id, error))

    async def empty(self, status: int, headers: Headers | None = None) -> None:
        if self._state == "finished":
            return
        await self._start(status, [*self.headers, *(headers or [])])
        self._state = "finished"

    async def finish(self, status: int, body: bytes) -> None:
        if self._state == "finished":
            return
        speaking, self._state = self._state == "speaking", "finished"
        if not speaking:
            await self._start(status, [JSON, *self.headers])
        await self._outlet.write(frame(body) if speaking else body)

    async def _start(self, status: int, headers: Headers) -> None:
        self.status = status
        await self._outlet.start(status, headers)

    def ended_by(self, error: BaseException) -> None:
        """Note how it ended. The error itself is let go: its traceback would hold on to the request."""
        self.seen.error = error
        self.outcome = outcome(self.seen)
        self.seen.error = None

    # The call

    async def run(self, service: Service, call: Call, fit: Fit | None) -> None:
        """Have it answered. In the legacy era errors are answers like any other."""
        self.take(call)
        try:
            result = await service.handle(call)
            if isinstance(result, Streamed):
                result = await _whole(result)
            if getattr(result, "is_error", False):
                self.outcome = "tool_error"
            status, body = 200, await self._fitting(call, result, fit)
        except Exception as error:
            self.ended_by(error)
            status, body = failure(call, error)
        await self.finish(200 if call.caller.era == "legacy" else status, body)

    def take(self, call: Call) -> None:
        """From here on it is this call: in the log, and when the time is up."""
        self.call = call
        call.channel = self
        self.seen.method, self.seen.caller, self.seen.rpc_id = call.method, call.caller, call.id
        if call.method == "tools/call":
            try:
                self.seen.name = _decode_name(call.params).name[:128]
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                self.seen.name = None

    def forget(self) -> None:
        """Let go of what came. A call and its channel hold each other, and no collector looks into a call."""
        if self.call is not None:
            self.call.channel = NO_CHANNEL
            self.call.secrets = self.call = None
        if self.secrets is not None:
            forget(self.secrets)
            self.secrets = None
        self.head, self.body = Head([]), b""

    async def _fitting(self, call: Call, result: Any, fit: Fit | None) -> bytes:
        outlet = self._outlet
        body = encode(Reply(call.id, result))  # type: ignore[arg-type]
        size = outlet.weight(body)
        if size <= outlet.room:
            return body
        if fit is not None and call.method == "tools/call":
            body = encode(Reply(call.id, await fit(call, Raw(encode(result)))))  # type: ignore[arg-type]
            if outlet.weight(body) <= outlet.room:
                return body
        message = f"The answer has {size} bytes and a function can send {outlet.room}; ask for less at once"
        return self._told(call, InternalError(message))

    async def too_late(self, seconds: float) -> None:
        """The time is up. Whoever has been told nothing by now is told that."""
        late = Late(seconds)
        self.ended_by(late)
        if self.call is None or self.call.id is None:
            await self.finish(late.http_status, encode_error(None, late))
        else:
            await self.finish(200, self._told(self.call, late))

    def _told(self, call: Call, error: McpError) -> bytes:
        """An error that a model can do something about comes as the result of its tool."""
        if call.method != "tools/call":
            return encode_error(call.id, error)
        result = CallToolResult(content=[Text(error.message)], is_error=True)
        if call.caller.era == "modern":
            result.result_type = "complete"
        return encode(Reply(call.id, result))  # type: ignore[arg-type]

    # The call's channel

    async def notify(self, method: str, params: Any) -> None:
        """Dropped where the client takes no streams, and where the answer might find no room after it."""
        if not self.accepted.streams or self._state == "finished":
            return
        event = frame(encode(Notification(method, params)))
        if self._outlet.weight(event) + MOST_SPOKEN // 2 > self._outlet.room:
            return
        if self._state == "silent":
            self._state = "speaking"
            await self._start(200, [*SSE, *self.headers])
        await self._outlet.write(event)

    async def ask(self, method: str, params: Any) -> Raw:
        raise InvalidRequest(
            f"{method!r} cannot be asked: this server is a stateless function, and a client's answer "
            "would reach another one; a client of 2026-07-28 can be asked"
        )

    async def release(self, retry_ms: int | None) -> None:
        """There is nobody to come back to."""


async def _whole(result: Streamed) -> Raw:
    try:
        return Raw(b"".join([chunk async for chunk in result.chunks()]))
    finally:
        result.close()
