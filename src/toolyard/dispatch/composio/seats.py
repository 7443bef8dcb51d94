"""Whose session at Composio a call is made in: begun when there is none, renewed once when it is over."""

import hashlib
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from ...config import Composio
from ...sessions.leases import Begun, Lease, Leases
from ...upstream.composio import Api, Session, UserIds, is_over
from ...upstream.errors import NotReached, Refused, UpstreamError
from ...upstream.link import OURS
from ...wire.call import Call
from ...wire.threads import thread_of
from ..renewal import Seat, renewed_once

T = TypeVar("T")

SOURCE = "composio"
OWN = "toolyard"
"""As whom we read lists for everybody."""
MAX_FAILURES = 1000


class Seated(Struct, frozen=True):
    """A call's place: its lease, the session of it (None for a local one) and the user it acts for."""

    lease: Lease
    session: Session | None
    user: str


def _never(result: Any) -> bool:
    return False


class Seats:
    def __init__(self, server: str, where: Composio, api: Api, leases: Leases) -> None:
        self._server = server
        self._where = where
        self._api = api
        self._leases = leases
        self._users = UserIds(where.user_id)
        self._failures: dict[str, tuple[float, UpstreamError]] = {}
        self.on_over: Callable[[str], None] = lambda session: None
        """Told of a session that was replaced."""

    async def run(
        self,
        call: Call,
        work: Callable[[Seated], Awaitable[T]],
        says_over: Callable[[T], bool] = _never,
    ) -> T:
        """Do something in the session of a call; once more in a new one when it is refused as over."""
        seat, user = self._seat(call)
        lease = await self._lease(seat)

        async def renew() -> Lease:
            self.on_over(lease.id)
            return self._remote(seat, await seat.renew(lease.id))

        async def seated(lease: Lease | None) -> T:
            assert lease is not None, "there is one before there is a call"
            return await work(Seated(lease, _session(lease), user))

        return await renewed_once(lease, renew, seated, is_over, says_over)

    async def lease(self, call: Call) -> Lease:
        return await self._lease(self._seat(call)[0])

    def _seat(self, call: Call) -> tuple[Seat, str]:
        if call.caller is OURS:
            tenant, thread, user = "", "", self._users.of(OWN, OWN, OWN)
        else:
            identity = call.caller.identity
            tenant, thread = identity.tenant, thread_of(call)
            user = self._users.of(tenant, identity.agent, thread)
        # Another key, user or choice of apps is another session, whatever else stayed the same.
        upstream = f"{self._server}.{self._fingerprint(user)}"

        async def begin() -> Begun:
            try:
                made = await self._api.begin(user)
            except UpstreamError as error:
                self._note(key_of(tenant, thread, upstream), error)
                raise
            return Begun(made.id, made.ttl, SOURCE, {"mcp_url": made.mcp_url, "api": made.api})

        return Seat(self._leases, tenant, thread, upstream, begin), user

    async def _lease(self, seat: Seat) -> Lease:
        asked = time.monotonic()
        lease = await seat.get()
        if not lease.is_local or not self._api.needs_session:
            return lease
        at, _ = self._failures.get(_key(seat), (0.0, None))
        if at < asked:  # one of earlier times, from when there was none to be had
            lease = await seat.renew(lease.id)
        return self._remote(seat, lease)

    def _remote(self, seat: Seat, lease: Lease) -> Lease:
        """A lease that can be used; without a session nothing can be done where one is needed."""
        if not lease.is_local or not self._api.needs_session:
            self._failures.pop(_key(seat), None)
            return lease
        _, error = self._failures.get(_key(seat), (0.0, None))
        reason = "no session could be begun" + (f": {error.reason}" if error is not None else "")
        if isinstance(error, Refused):
            raise Refused(self._server, reason, error.status)
        raise NotReached(self._server, reason, error.retry_after if error is not None else None)

    def _note(self, key: str, error: UpstreamError) -> None:
        if len(self._failures) >= MAX_FAILURES:
            self._failures.clear()
        self._failures[key] = (time.monotonic(), error)

    def _fingerprint(self, user: str) -> str:
        where = self._where
        what = [where.base_url, where.api, where.api_key, where.toolkits, where.callback_url, user]
        return hashlib.blake2b(msgspec.json.encode(what), digest_size=6).hexdigest()


def key_of(*parts: str) -> str:
    return "\0".join(parts)


def _key(seat: Seat) -> str:
    return key_of(seat.tenant, seat.thread, seat.upstream)


def _session(lease: Lease) -> Session | None:
    if lease.is_local:
        return None
    return Session(lease.id, str(lease.detail.get("mcp_url", "")), str(lease.detail.get("api", "v3.1")))
