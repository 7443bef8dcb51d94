"""One HTTP request as it moves through the edge."""

from msgspec import Struct

from ..wire.call import Identity
from ..wire.headers import Head
from .asgi import Headers, Receive, Send


class Visit(Struct, gc=False):
    head: Head
    identity: Identity
    receive: Receive
    send: Send
    headers: Headers
    """What every answer carries: CORS, for a browser."""
