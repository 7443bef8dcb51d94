"""The SERVER span around a client's request, for whoever answers it: the gateway's views and kit servers."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from msgspec import Raw

from ..wire.call import Call, Service, StreamedResult
from ..wire.headers import NAME_PARAMS
from ..wire.messages import decode_params
from .content import ContentPolicy
from .requests import Meta, ObservedRequest, Tracer, client_address, current

UNTRACED = frozenset({"ping", "subscriptions/listen"})
"""Methods without a span: of no interest, or open for as long as the client is."""
_NO_META: Meta = {}
_decode_string = msgspec.json.Decoder(str).decode


class RequestTracing:
    """Traces the requests that a service answers."""

    def __init__(self, tracer: Tracer, content: ContentPolicy | None = None, server: str = "") -> None:
        """`server` is the name of a kit server; a gateway has none."""
        self._tracer = tracer
        self._content = content
        self._server = server

    async def serve(self, call: Call, answer: Callable[[Call], Awaitable[Any]]) -> Any:
        if call.id is None or call.method in UNTRACED:
            return await answer(call)
        params = bytes(call.params)
        request = ObservedRequest(
            method=call.method,
            server=self._server,
            caller=call.caller,
            # An edge that knows an address serves HTTP; the others are not told apart.
            transport="http" if client_address.get().address else "inprocess",
            name=_name(call),
            rpc_id=call.id,
            session_id="" if call.session is None else call.session.id,
            request_bytes=len(params),
            is_served=True,
        )
        with self._tracer.serve(request, _meta(call) if b"traceparent" in params else _NO_META):
            token = current.set(request)
            try:
                result = await answer(call)
                self._note(call, request, result)
                return result
            finally:
                current.reset(token)

    def _note(self, call: Call, request: ObservedRequest, result: Any) -> None:
        """Write down how big the result is and whether it says that the tool failed."""
        if isinstance(result, Raw):
            request.response_bytes = len(memoryview(result))
        elif isinstance(result, StreamedResult):
            request.response_bytes = result.size
        elif getattr(result, "is_error", None) is True:
            request.is_error_result = True
        content = self._content
        if content is None or request.is_forwarded or call.method != "tools/call":
            return  # the spans of the calls have it
        if content.keeps_arguments:
            request.arguments = content.excerpt(memoryview(call.members().get("arguments", Raw(b"{}"))))
        if content.keeps_results and not isinstance(result, StreamedResult):
            body = result if isinstance(result, Raw) else msgspec.json.encode(result)
            request.result = content.excerpt(memoryview(body))


class TracedService:
    """A service with spans around its requests. Closes the tracer with it."""

    def __init__(self, service: Service, tracer: Tracer, server: str) -> None:
        self._service = service
        self._tracer = tracer
        self._tracing = RequestTracing(tracer, server=server)

    async def handle(self, call: Call) -> Any:
        return await self._tracing.serve(call, self._service.handle)

    async def listen(self, call: Call) -> None:
        await self._service.listen(call)

    async def end_session(self, call: Call) -> None:
        await self._service.end_session(call)

    async def close(self) -> None:
        await self._service.close()
        await self._tracer.close()

    def health(self) -> dict[str, Any]:
        return self._service.health()


def _name(call: Call) -> str | None:
    key = NAME_PARAMS.get(call.method)
    if key is None:
        return None
    try:
        return _decode_string(call.members()[key])
    except Exception:  # malformed in whatever way: the answer tells the client
        return None


def _meta(call: Call) -> Meta:
    try:
        return decode_params(call.members().get("_meta", Raw(b"{}")), dict[str, Raw])
    except Exception:  # as above
        return _NO_META
