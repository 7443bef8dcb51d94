"""Sessions at Composio: which one a call uses, when it is renewed, and the MCP connection of each.

A connection belongs to one tenant and conversation; no other call uses it.
"""

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from ...config import Composio
from ...sessions.leases import Lease, Leases, NewSession
from ...upstream.base import Upstream
from ...upstream.composio import ComposioClient, ComposioSession, UserIds, is_over
from ...upstream.connection import GATEWAY_CALLER
from ...upstream.errors import NotReachedError, UpstreamError, UpstreamRefusedError
from ...wire.call import Call, thread_of
from ..mount import SessionSlot, renew_once

MAX_CONNECTIONS = 256
IDLE_SECONDS = 300.0
LEAVING_SECONDS = 60.0


class _OpenConnection:
    def __init__(self, way: Upstream) -> None:
        self.way = way
        self.users = 0
        self.used = time.monotonic()
        self._unused = asyncio.Event()

    def leave(self) -> None:
        self.users -= 1
        self.used = time.monotonic()
        self._unused.set()

    async def idle(self) -> None:
        """Until nobody uses it, and no call is parked in it."""
        while self.users:
            self._unused.clear()
            await self._unused.wait()
        await self.way.idle()


class SessionConnections:
    def __init__(self, most: int = MAX_CONNECTIONS, idle_seconds: float = IDLE_SECONDS) -> None:
        self._most = most
        self._idle_seconds = idle_seconds
        self._ways: dict[str, _OpenConnection] = {}
        self._leaving: dict[_OpenConnection, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        return len(self._ways)

    @asynccontextmanager
    async def use(self, session: str, make: Callable[[], Upstream]) -> AsyncGenerator[Upstream]:
        """The way to a session, for as long as the block lasts."""
        held = self._ways.get(session)
        if held is None:
            self._make_room()
            held = self._ways[session] = _OpenConnection(make())
        held.users += 1
        try:
            yield held.way
        finally:
            held.leave()

    def drop(self, session: str) -> None:
        """Nobody gets this one any more; it is closed when those who have it have left."""
        held = self._ways.pop(session, None)
        if held is not None:
            self._leaving[held] = asyncio.create_task(self._left(held))

    def close_idle(self) -> None:
        now = time.monotonic()
        for session, held in list(self._ways.items()):
            if not held.users and now - held.used >= self._idle_seconds:
                self.drop(session)

    def _make_room(self) -> None:
        """Those in use are never closed: how many there are is limited where calls are let in."""
        unused = [session for session, held in self._ways.items() if not held.users]
        unused.sort(key=lambda session: self._ways[session].used)
        for session in unused[: max(0, len(self._ways) - self._most + 1)]:
            self.drop(session)

    async def _left(self, held: _OpenConnection) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(LEAVING_SECONDS):
                await held.idle()
        await held.way.close()
        self._leaving.pop(held, None)

    async def idle(self) -> None:
        """Wait until no call is parked anywhere."""
        for held in [*self._ways.values(), *self._leaving]:
            await held.way.idle()

    async def close(self) -> None:
        """All of them, at once."""
        leaving = list(self._leaving.values())
        for task in leaving:
            task.cancel()
        held = [*self._ways.values(), *self._leaving]
        self._ways, self._leaving = {}, {}
        await asyncio.gather(*(one.way.close() for one in held))
        await asyncio.gather(*leaving, return_exceptions=True)


T = TypeVar("T")

SOURCE = "composio"
GATEWAY_USER = "toolyard"
"""As whom we read lists for everybody."""
MAX_FAILURES = 1000


class CallSession(Struct, frozen=True):
    """A call's place: its lease, the session of it (None for a local one) and the user it acts for."""

    lease: Lease
    session: ComposioSession | None
    user: str


def _never(result: Any) -> bool:
    return False


class ComposioSessions:
    """`on_replaced` is told the id of a session that another one replaced."""

    def __init__(
        self,
        server: str,
        where: Composio,
        api: ComposioClient,
        leases: Leases,
        on_replaced: Callable[[str], None],
    ) -> None:
        self._server = server
        self._where = where
        self._api = api
        self._leases = leases
        self._users = UserIds(where.user_id)
        self._failures: dict[str, tuple[float, UpstreamError]] = {}
        self._on_replaced = on_replaced

    async def run(
        self,
        call: Call,
        work: Callable[[CallSession], Awaitable[T]],
        says_over: Callable[[T], bool] = _never,
    ) -> T:
        """Do something in the session of a call; once more in a new one when it is refused as over."""
        seat, user = self._seat(call)
        lease = await self._lease(seat)

        async def renew() -> Lease:
            self._on_replaced(lease.id)
            return self._remote(seat, await seat.renew(lease.id))

        async def seated(lease: Lease | None) -> T:
            assert lease is not None, "there is one before there is a call"
            return await work(CallSession(lease, _session(lease), user))

        return await renew_once(lease, renew, seated, is_over, says_over)

    async def lease(self, call: Call) -> Lease:
        return await self._lease(self._seat(call)[0])

    def _seat(self, call: Call) -> tuple[SessionSlot, str]:
        if call.caller is GATEWAY_CALLER:
            tenant, thread, user = "", "", self._users.of(GATEWAY_USER, GATEWAY_USER, GATEWAY_USER)
        else:
            identity = call.caller.identity
            tenant, thread = identity.tenant, thread_of(call)
            user = self._users.of(tenant, identity.agent, thread)
        # Another key, user or choice of apps is another session, whatever else stayed the same.
        upstream = f"{self._server}.{self._fingerprint(user)}"

        async def begin() -> NewSession:
            try:
                made = await self._api.begin(user)
            except UpstreamError as error:
                self._note(key_of(tenant, thread, upstream), error)
                raise
            return NewSession(made.id, made.ttl, SOURCE, {"mcp_url": made.mcp_url, "api": made.api})

        return SessionSlot(self._leases, tenant, thread, upstream, begin), user

    async def _lease(self, seat: SessionSlot) -> Lease:
        asked = time.monotonic()
        lease = await seat.get()
        if not lease.is_local or not self._api.needs_session:
            return lease
        at, _ = self._failures.get(_key(seat), (0.0, None))
        if at < asked:  # one of earlier times, from when there was none to be had
            lease = await seat.renew(lease.id)
        return self._remote(seat, lease)

    def _remote(self, seat: SessionSlot, lease: Lease) -> Lease:
        """A lease that can be used; without a session nothing can be done where one is needed."""
        if not lease.is_local or not self._api.needs_session:
            self._failures.pop(_key(seat), None)
            return lease
        _, error = self._failures.get(_key(seat), (0.0, None))
        reason = "no session could be begun" + (f": {error.reason}" if error is not None else "")
        if isinstance(error, UpstreamRefusedError):
            raise UpstreamRefusedError(self._server, reason, error.status)
        raise NotReachedError(self._server, reason, error.retry_after if error is not None else None)

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


def _key(seat: SessionSlot) -> str:
    return key_of(seat.tenant, seat.thread, seat.upstream)


def _session(lease: Lease) -> ComposioSession | None:
    if lease.is_local:
        return None
    return ComposioSession(
        lease.id, str(lease.detail.get("mcp_url", "")), str(lease.detail.get("api", "v3.1"))
    )
