"""From a call to the bytes of its reply, whatever happens in between."""

import asyncio
import logging
from collections.abc import AsyncIterator

from msgspec import UNSET, Raw, Struct

from ..wire.call import Call, Service, StreamedResult
from ..wire.errors import InternalError, McpError
from ..wire.messages import Id, JsonRpcMessage, JsonRpcResponse, encode, encode_error

logger = logging.getLogger("toolyard.edge")

CANCELLED = McpError(-32800, "Request cancelled")


class StreamedReply:
    """The response to a call whose result is too big to hold. A context manager, which lets go of it."""

    def __init__(self, id: Id, result: StreamedResult) -> None:
        self._start = b'{"jsonrpc":"2.0","id":%s,"result":' % encode(id)
        self._result = result
        self.size = len(self._start) + result.size + 1

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._start
        async for chunk in self._result.chunks():
            yield chunk
        yield b"}"

    def __enter__(self) -> "StreamedReply":
        return self

    def __exit__(self, *_: object) -> None:
        self._result.close()


async def answer(service: Service, call: Call) -> bytes | StreamedReply:
    """The encoded response, where there is no HTTP status to be chosen."""
    assert call.id is not None
    try:
        result = await service.handle(call)
        if isinstance(result, StreamedResult):
            return StreamedReply(call.id, result)
        return encode(JsonRpcResponse(call.id, result))
    except Exception as error:
        return error_reply(call, error).body


class ErrorReply(Struct, frozen=True):
    """An error as HTTP has it."""

    status: int
    body: bytes
    headers: list[tuple[bytes, bytes]] = []

    @property
    def legacy_status(self) -> int:
        """Legacy errors are answers like any other. A challenge works only under its own status."""
        return self.status if any(name == b"www-authenticate" for name, _ in self.headers) else 200


def error_reply(call: Call, error: Exception) -> ErrorReply:
    """The last net: nothing from inside may leak, and the process goes on."""
    if isinstance(error, McpError):
        try:
            return ErrorReply(error.http_status, encode_error(call.id, error), error.http_headers)
        except Exception as unfit:  # its data is an author's, and may be anything
            logger.error("the data of error %d cannot be sent: %s", error.code, unfit)
    logger.error("%s failed", call.method, exc_info=error)
    return ErrorReply(500, encode_error(call.id, InternalError()))


async def take_notification(service: Service, call: Call) -> None:
    try:
        await service.handle(call)
    except Exception as error:  # nobody waits for a notification's fate
        logger.warning("notification %s failed: %r", call.method, error)


def resolve_response(message: JsonRpcMessage, asked: "asyncio.Future[Raw]") -> None:
    """A client's response goes to whoever asked, unless they no longer wait."""
    if asked.done():
        return
    if message.error is not UNSET:
        error = message.error
        asked.set_exception(McpError(error.code, error.message, error.data))
    elif message.result is not UNSET:
        asked.set_result(Raw(bytes(message.result)))
