"""From a JSON-RPC message of an upstream to the result it holds or the error it is."""

from msgspec import UNSET

from ..wire.errors import McpError
from ..wire.messages import Id, Message
from .envelope import BadMessage, read_message
from .errors import Garbled
from .link import Result
from .spool import Spooled


def understand(server: str, body: bytes | Spooled) -> Message:
    try:
        return read_message(body)
    except BadMessage as error:
        garbled = Garbled(server, f"its answer is not JSON-RPC: {error}")
        garbled.id = error.id
        raise garbled from None


def result_of(server: str, message: Message, id: Id) -> Result:
    """The result; raises McpError when it is an error, Garbled when it answers something else."""
    if message.id != id or message.method is not UNSET:
        raise Garbled(server, f"it answered something else than request {id!r}")
    if message.error is not UNSET:
        raise McpError(message.error.code, message.error.message, message.error.data)
    assert message.result is not UNSET
    return message.result
