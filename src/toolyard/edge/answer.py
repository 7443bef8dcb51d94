"""From a call to the bytes of its answer, whatever happens in between."""

import logging

from ..wire.call import Call, Service
from ..wire.errors import InternalError, McpError
from ..wire.messages import Reply, encode, encode_error

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
        return error.http_status, encode_error(call.id, error)
    logger.error("%s failed", call.method, exc_info=error)
    return 500, encode_error(call.id, InternalError())


async def take_notification(service: Service, call: Call) -> None:
    try:
        await service.handle(call)
    except Exception as error:  # nobody waits for a notification's fate
        logger.warning("notification %s failed: %r", call.method, error)
