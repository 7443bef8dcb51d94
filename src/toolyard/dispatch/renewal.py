"""Work in a session: when it is refused because the session is over, once more in a new one.

Only what was refused is done again: a session that is over does nothing, so a call that was turned away for
it has had no effect. That is taken from what the upstream says: HTTP 401 or 410, a JSON-RPC error that
speaks of the session first of all, or a result that is an error, says so in one short text, and holds
nothing else.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
from msgspec import Raw, Struct

from ..sessions.leases import Begin, Lease, Leases
from ..upstream.errors import Refused, Spoken, Stale, UpstreamError
from ..upstream.expiry import is_refusal
from ..wire.errors import McpError

T = TypeVar("T")

MAX_REFUSAL = 8 * 1024
REFUSED = (401, 410)


class Seat(Struct, frozen=True):
    """Whose session it is, and how one is begun."""

    leases: Leases
    tenant: str
    thread: str
    upstream: str
    begin: Begin

    async def get(self) -> Lease:
        return await self.leases.get(self.tenant, self.thread, self.upstream, self.begin)

    async def peek(self) -> Lease | None:
        return await self.leases.peek(self.tenant, self.thread, self.upstream)

    async def renew(self, stale: str) -> Lease:
        """At most one is begun, however many ask at once."""
        return await self.leases.renew(self.tenant, self.thread, self.upstream, stale, self.begin)


async def renewed_once(
    lease: Lease | None,
    renew: Callable[[], Awaitable[Lease]],
    work: Callable[[Lease | None], Awaitable[T]],
    is_over: Callable[[McpError], bool],
    says_over: Callable[[T], bool],
) -> T:
    """Do it, and once more when it was refused for its session's sake and another session can be had."""
    try:
        result = await work(lease)
    except McpError as error:
        if not is_over(error) or not _is_another(fresh := await renew(), lease):
            raise
    else:
        if not says_over(result) or not _is_another(fresh := await renew(), lease):
            return result
    return await work(fresh)


def _is_another(fresh: Lease, lease: Lease | None) -> bool:
    """A local one is sent nowhere: in the place of another local one, or of none, it changes nothing."""
    return not fresh.is_local or not (lease is None or lease.is_local)


def is_over(error: McpError) -> bool:
    """Whether an MCP server refused a call because of its session."""
    if isinstance(error, Refused):
        return error.expired or error.status in REFUSED
    if isinstance(error, UpstreamError):
        return isinstance(error, Stale) and error.expired
    if isinstance(error, Spoken) and error.status in REFUSED:
        return True
    return is_refusal(error.message)


class _Block(Struct):
    text: str = ""


class _Result(Struct, rename="camel"):
    is_error: bool = False
    content: list[_Block] = []
    structured_content: Any = None


_decode = msgspec.json.Decoder(_Result).decode


def says_over(result: Any) -> bool:
    """Whether a tool's result is nothing but the word that the session is over."""
    if not isinstance(result, Raw):
        return False
    body = bytes(result)
    if len(body) > MAX_REFUSAL or b'"isError"' not in body:
        return False
    try:
        found = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    alone = found.is_error and len(found.content) == 1 and not found.structured_content
    return alone and is_refusal(found.content[0].text)
