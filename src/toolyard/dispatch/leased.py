"""An upstream with a session for each conversation, whose id travels in a header: the Suna fork's form.

The session is begun with a POST to `session_url`. What we ask in our own name, such as lists, goes without
one until it is refused for that.
"""

from typing import Any

import msgspec
from msgspec.structs import replace

from ..sessions.leases import Begun, Lease, Leases
from ..upstream.composio import reading
from ..upstream.composio.rest import Rest
from ..upstream.errors import Garbled
from ..upstream.link import OURS
from ..wire.call import Call
from ..wire.threads import thread_of
from .mount import Handles
from .renewal import Seat, is_over, renewed_once, says_over


class Leased:
    """`rest` is where sessions are begun."""

    def __init__(self, server: str, inner: Handles, leases: Leases, header: str, rest: Rest) -> None:
        self._server = server
        self._inner = inner
        self._leases = leases
        self._header = header
        self._rest = rest

    async def handle(self, call: Call) -> Any:
        ours = call.caller is OURS
        tenant, thread = ("", "") if ours else (call.caller.tenant, thread_of(call))
        seat = Seat(self._leases, tenant, thread, self._server, self._begin)
        lease = await (seat.peek() if ours else seat.get())

        async def renew() -> Lease:
            return await (seat.get() if lease is None else seat.renew(lease.id))

        async def work(lease: Lease | None) -> Any:
            return await self._inner.handle(self._with(call, lease))

        return await renewed_once(lease, renew, work, is_over, says_over)

    def _with(self, call: Call, lease: Lease | None) -> Call:
        if lease is None or lease.is_local:
            return call
        return replace(call, more_headers={**(call.more_headers or {}), self._header: lease.id})

    async def _begin(self) -> Begun | None:
        body = await self._rest.post("", {"generate_id": True})
        try:
            reply = msgspec.json.decode(body, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise Garbled(self._server, "what its session_url answers is no JSON object") from None
        found = reading.session(reply, "")
        if found is None:
            raise Garbled(self._server, "its session_url gave no id")
        return Begun(found.id, found.ttl, source=self._server)
