"""Sessions at Composio: chooses the session of a call, renews it, and holds its MCP connection.

A session and its connection belong to one tenant and conversation; no other call uses them.
"""

import asyncio
import hashlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from ...composio import UserIds
from ...config import Composio
from ...sessions.leases import Lease, Leases, NewSession
from ...upstream.base import Upstream
from ...upstream.composio import ComposioClient, ComposioSession, is_session_expired
from ...upstream.connection import GATEWAY_CALLER
from ...upstream.errors import NotReachedError, UpstreamError, UpstreamRefusedError
from ...wire.call import Call, thread_of
from ..mount import SessionSlot, renew_once

MAX_CONNECTIONS = 256
IDLE_SECONDS = 300.0
DRAIN_SECONDS = 60.0

SOURCE = "composio"
GATEWAY_USER = "toolyard"
"""For whom the gateway reads lists in its own name, if callers who are not known have no user."""
MAX_FAILURES = 1000

T = TypeVar("T")


class CallSession(Struct, frozen=True):
    """A call's lease, its session (None for a local lease) and the user it acts for."""

    lease: Lease
    session: ComposioSession | None
    user: str


def _never(result: Any) -> bool:
    return False


class ComposioSessions:
    """Finds or begins the session of a call, and runs work in it."""

    def __init__(self, server: str, where: Composio, api: ComposioClient, leases: Leases) -> None:
        self.connections = SessionConnections()
        self._server = server
        self._where = where
        self._api = api
        self._leases = leases
        self._users = UserIds(where.user_id, where.default_user)
        self._failures: dict[str, tuple[float, UpstreamError]] = {}

    async def run(
        self,
        call: Call,
        work: Callable[[CallSession], Awaitable[T]],
        is_expired: Callable[[T], bool] = _never,
    ) -> T:
        """Run work in the session of a call; if the session has expired, run it again in a new one.

        `is_expired` says whether a result means that the session has expired.
        """
        slot, user = self._slot(call)
        lease = await self._lease(slot)

        async def renew(reason: str) -> Lease:
            self.connections.drop(lease.id)
            return self._usable(slot, await slot.renew(lease.id, reason))

        async def run(lease: Lease | None) -> T:
            assert lease is not None, "a call has a lease before it runs"
            if not lease.is_local:
                slot.attach(lease)
            return await work(CallSession(lease, _session(lease), user))

        return await renew_once(lease, renew, run, is_session_expired, is_expired)

    async def lease(self, call: Call) -> Lease:
        return await self._lease(self._slot(call)[0])

    def _slot(self, call: Call) -> tuple[SessionSlot, str]:
        if call.caller is GATEWAY_CALLER:
            user = self._where.default_user or GATEWAY_USER
            tenant, thread, user = "", "", self._users.of(user, user, GATEWAY_USER, GATEWAY_USER)
        else:
            caller = call.caller
            tenant, thread = caller.owner, thread_of(call)
            user = self._users.of(caller.owner, caller.tenant, caller.agent, thread)
        # Another key, user or choice of apps needs another session.
        upstream = f"{self._server}.{self._fingerprint(user)}"

        async def begin() -> NewSession:
            try:
                made = await self._api.begin(user)
            except UpstreamError as error:
                self._note_failure(key_of(tenant, thread, upstream), error)
                raise
            return NewSession(made.id, made.ttl, SOURCE, {"mcp_url": made.mcp_url, "api": made.api})

        return SessionSlot(self._leases, self._server, tenant, thread, upstream, begin), user

    async def _lease(self, slot: SessionSlot) -> Lease:
        asked = time.monotonic()
        lease = await slot.get()
        if not lease.is_local or not self._api.needs_session:
            return lease
        at, _ = self._failures.get(_key(slot), (0.0, None))
        if at < asked:  # a local lease from an earlier failure: try to begin a session now
            lease = await slot.renew(lease.id)
        return self._usable(slot, lease)

    def _usable(self, slot: SessionSlot, lease: Lease) -> Lease:
        """Return the lease, or raise if the API needs a session and the lease has none."""
        if not lease.is_local or not self._api.needs_session:
            self._failures.pop(_key(slot), None)
            return lease
        _, error = self._failures.get(_key(slot), (0.0, None))
        reason = "no session could be created" + (f": {error.reason}" if error is not None else "")
        if isinstance(error, UpstreamRefusedError):
            raise UpstreamRefusedError(self._server, reason, error.status)
        raise NotReachedError(self._server, reason, error.retry_after if error is not None else None)

    def _note_failure(self, key: str, error: UpstreamError) -> None:
        if len(self._failures) >= MAX_FAILURES:
            self._failures.clear()
        self._failures[key] = (time.monotonic(), error)

    def _fingerprint(self, user: str) -> str:
        where = self._where
        what = [where.base_url, where.api, where.api_key, where.toolkits, where.callback_url, user]
        return hashlib.blake2b(msgspec.json.encode(what), digest_size=6).hexdigest()


def key_of(*parts: str) -> str:
    return "\0".join(parts)


def _key(slot: SessionSlot) -> str:
    return key_of(slot.tenant, slot.thread, slot.upstream)


def _session(lease: Lease) -> ComposioSession | None:
    if lease.is_local:
        return None
    return ComposioSession(
        lease.id, str(lease.detail.get("mcp_url", "")), str(lease.detail.get("api", "v3.1"))
    )


class _OpenConnection:
    def __init__(self, connection: Upstream) -> None:
        self.connection = connection
        self.users = 0
        self.used = time.monotonic()
        self._unused = asyncio.Event()

    def release(self) -> None:
        self.users -= 1
        self.used = time.monotonic()
        self._unused.set()

    async def idle(self) -> None:
        """Wait until nobody uses it and it has no parked call."""
        while self.users:
            self._unused.clear()
            await self._unused.wait()
        await self.connection.idle()


class SessionConnections:
    """The open MCP connections, one for each session; idle ones are closed."""

    def __init__(self, max_open: int = MAX_CONNECTIONS, idle_seconds: float = IDLE_SECONDS) -> None:
        self._max_open = max_open
        self._idle_seconds = idle_seconds
        self._open: dict[str, _OpenConnection] = {}
        self._draining: dict[_OpenConnection, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        return len(self._open)

    @asynccontextmanager
    async def use(self, session: str, connect: Callable[[], Upstream]) -> AsyncGenerator[Upstream]:
        """Return the connection of a session, kept open for the length of the block."""
        held = self._open.get(session)
        if held is None:
            self._make_room()
            held = self._open[session] = _OpenConnection(connect())
        held.users += 1
        try:
            yield held.connection
        finally:
            held.release()

    def drop(self, session: str) -> None:
        """Give this connection to no new call, and close it when the current ones have ended."""
        held = self._open.pop(session, None)
        if held is not None:
            self._draining[held] = asyncio.create_task(self._drain(held))

    def close_idle(self) -> None:
        now = time.monotonic()
        for session, held in list(self._open.items()):
            if not held.users and now - held.used >= self._idle_seconds:
                self.drop(session)

    def _make_room(self) -> None:
        """Drop those unused longest. Those in use stay: the mount limits concurrent calls."""
        unused = [session for session, held in self._open.items() if not held.users]
        unused.sort(key=lambda session: self._open[session].used)
        for session in unused[: max(0, len(self._open) - self._max_open + 1)]:
            self.drop(session)

    async def _drain(self, held: _OpenConnection) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS):
                await held.idle()
        await held.connection.close()
        self._draining.pop(held, None)

    def all(self) -> list[Upstream]:
        """Those that are open, also for the last of their calls."""
        return [held.connection for held in (*self._open.values(), *self._draining)]

    async def idle(self) -> None:
        """Wait until no connection has a parked call."""
        for connection in self.all():
            await connection.idle()

    async def close(self) -> None:
        draining = list(self._draining.values())
        for task in draining:
            task.cancel()
        connections = self.all()
        self._open, self._draining = {}, {}
        await asyncio.gather(*(connection.close() for connection in connections))
        await asyncio.gather(*draining, return_exceptions=True)
