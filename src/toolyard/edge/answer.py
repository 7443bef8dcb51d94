"""From a call to the bytes of its answer, whatever happens in between."""

import asyncio
import logging

from msgspec import UNSET, Raw

from ..wire.call import Call, Service
from ..wire.errors import InternalError, McpError
from ..wire.messages import Message, Reply, encode, encode_error

logger = logging.getLogger("toolyard.edge")

CANCELLED = McpError(-32800, "The request was cancelled by the client")


async def answer(service: Service, call: Call) -> tuple[int, bytes]:
    """The HTTP status a modern client should see, and the encoded response."""
    assert call.id is not None
    try:
        return 200, encode(Reply(call.id, await service.handle(call)))
    except Exception as error:
        return failure(call, error)


def failure(call: Call, error: Exception) -> tuple[int, bytes]:
    """The last net: nothing from inside may leak, and the process goes on."""
    if isinstance(error, McpError):
        try:
            return error.http_status, encode_error(call.id, error)
        except Exception as unfit:  # its data is an author's, and may be anything
            logger.error("the data of error %d cannot be sent: %s", error.code, unfit)
    logger.error("%s failed", call.method, exc_info=error)
    return 500, encode_error(call.id, InternalError())


async def take_notification(service: Service, call: Call) -> None:
    try:
        await service.handle(call)
    except Exception as error:  # nobody waits for a notification's fate
        logger.warning("notification %s failed: %r", call.method, error)


def deliver(message: Message, asked: "asyncio.Future[Raw]") -> None:
    """A client's response goes to whoever asked, unless they no longer wait."""
    if asked.done():
        return
    if message.error is not UNSET:
        error = message.error
        asked.set_exception(McpError(error.code, error.message, error.data))
    elif message.result is not UNSET:
        asked.set_result(Raw(bytes(message.result)))
