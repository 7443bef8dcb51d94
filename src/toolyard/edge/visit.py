"""One HTTP request as it moves through the edge."""

from collections.abc import Mapping

from msgspec import Struct

from ..wire.call import Identity
from ..wire.headers import Head
from ..wire.secret import Secret
from .asgi import Headers, Receive, Send


class Visit(Struct, gc=False):
    head: Head
    identity: Identity
    receive: Receive
    send: Send
    headers: Headers
    """What every answer carries: CORS, for a browser."""
    secrets: Mapping[str, Secret] | None = None
    """The keys that came with it."""
