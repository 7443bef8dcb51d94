"""Results on their way back: of which kind they are, and what a modern caller wants to see in them."""

from collections.abc import AsyncIterator

from msgspec import Raw

from ..upstream.envelope import BadMessage, peek
from ..upstream.errors import Garbled
from ..upstream.link import Result
from ..upstream.spool import Spooled
from ..wire.call import Call, Streamed
from ..wire.eras import SERVER_KEY
from ..wire.messages import decode_params, encode

# Legacy results come without hints on caching; these say: it is yours, and may be old by now.
_UNCACHED = b'"ttlMs":0,"cacheScope":"private",'
_CACHEABLE = frozenset(
    (
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "server/discover",
    )
)


def kind_of(server: str, result: Result) -> str:
    """`complete`, `input_required` or `task`."""
    try:
        return peek(result)
    except BadMessage as error:
        raise Garbled(server, f"its result cannot be understood: {error.reason}") from None


class Prefixed(Streamed):
    """A spooled object with members put in front of its own."""

    def __init__(self, prefix: bytes, rest: Spooled) -> None:
        self._prefix = prefix
        self._rest = rest
        self.size = len(prefix) + rest.size

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._prefix
        async for chunk in self._rest.chunks():
            yield chunk

    def close(self) -> None:
        self._rest.close()


def as_modern(call: Call, result: Result, info: Raw) -> "Raw | Prefixed":
    """A legacy result with what the modern era requires of one, and who gave it, where there is room."""
    prefix = b'{"resultType":"complete",' + (_UNCACHED if call.method in _CACHEABLE else b"")
    if isinstance(result, Spooled):
        return Prefixed(prefix, result.window(1, result.size))
    body = bytes(result).strip()
    if b'"resultType"' in body:
        # The word means nothing in the legacy era, and must not mean anything here.
        members = decode_params(result, dict[str, Raw])
        members.pop("resultType", None)
        body = encode(members)
    if b'"_meta"' not in body:
        prefix += b'"_meta":{"%s":%s},' % (SERVER_KEY.encode(), bytes(info))
    rest = body[1:].lstrip()
    return Raw(prefix.removesuffix(b",") + b"}" if rest == b"}" else prefix + rest)
