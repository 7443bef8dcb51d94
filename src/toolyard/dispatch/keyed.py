"""Upstreams that get a caller's API key: asked for before the server is, and taken back if it refuses.

Over HTTP the key is in a header, which the connection adds. A server in this process gets it as the key that
the caller brought, and a program as an environment variable: of a process of its own, so that one caller's
key is never in another's process.
"""

import asyncio
from collections.abc import Callable

from msgspec.structs import replace

from ..connections.keys import HeldKey, KeyAccounts, KeySession
from ..upstream.base import Forward, Outcome, Upstream, WrappedUpstream
from ..upstream.connection import (
    GATEWAY_CALLER,
    ClientProfile,
    Connector,
    UpstreamConnection,
)
from ..upstream.errors import NotReachedError, UpstreamError
from ..upstream.inprocess import InProcessUpstream
from ..wire.call import AUTHORIZATION, Principal, Secret
from ..wire.errors import McpError
from ..wire.seal import Sealer
from ..wire.versions import Era

_PURPOSE = "caller-key"


class KeyedUpstream(WrappedUpstream):
    """A server over HTTP, for one caller."""

    def __init__(self, inner: Upstream, session: KeySession) -> None:
        super().__init__(inner)
        self._session = session

    async def send(self, forward: Forward) -> Outcome:
        if forward.call.caller is not GATEWAY_CALLER:
            await self._session.require()
        return await self._inner.send(forward)


class KeyedProgram(KeyedUpstream):
    """A program for one caller. Another key, or none, ends the process that has the old one."""

    def __init__(self, inner: Upstream, session: KeySession, connector: "KeyedConnector") -> None:
        super().__init__(inner, session)
        self._connector = connector
        self._ending: set[asyncio.Task[None]] = set()
        session.on_forget = self._end_process

    async def send(self, forward: Forward) -> Outcome:
        if forward.call.caller is GATEWAY_CALLER:
            await self._session.current()
        else:
            await self._session.require()
        # Asked for after the wait: another call may have started a process with the new key meanwhile.
        if self._connector.version not in (None, self._session.version):
            await self._inner.reset()
        return await self._inner.send(forward)

    async def close(self) -> None:
        if self._session.on_forget == self._end_process:
            self._session.on_forget = None
        await self._inner.close()
        if self._ending:
            await asyncio.wait(list(self._ending))

    def _end_process(self) -> None:
        """Its key was deleted, replaced or refused: no process keeps it until the next call."""
        task = asyncio.create_task(self._inner.reset())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


class KeyedConnector:
    """Starts a program with the key that its caller has now. `make` gets the key, or None without one."""

    def __init__(self, server: str, session: KeySession, make: Callable[[str | None], Connector]) -> None:
        self._server = server
        self._session = session
        self._make = make
        self._latest: Connector | None = None
        self.version: str | None = None
        """Of the key that the last process has, empty if it has none; None before the first."""

    @property
    def activity(self) -> str:
        return "" if self._latest is None else self._latest.activity

    async def open(self, profile: ClientProfile, era: Era | None = None) -> UpstreamConnection:
        held = await self._session.current()
        self._latest = connector = self._make(None if held is None else held.record.key)
        self.version = version = "" if held is None else held.version
        try:
            connection = await connector.open(profile, era)
        except NotReachedError:
            if held is None:  # most programs that want a key do not start without
                await self._session.require()
            raise
        if version != self._session.version:
            await connection.close()
            raise NotReachedError(self._server, "its key was changed while it started")
        return connection

    async def denies_modern(self, connection: UpstreamConnection) -> bool:
        return self._latest is not None and await self._latest.denies_modern(connection)


class KeyedServer(WrappedUpstream):
    """A server in this process, for all callers: each call has the key of its own."""

    def __init__(
        self, inner: InProcessUpstream, accounts: KeyAccounts, lister: Callable[[], Principal], sealer: Sealer
    ) -> None:
        super().__init__(inner)
        self._server = inner
        self._accounts = accounts
        self._lister = lister
        self._sealer = sealer

    async def send(self, forward: Forward) -> Outcome:
        caller = forward.call.caller
        if caller is GATEWAY_CALLER:
            session = self._accounts.authorizer(self._lister())
            held = await session.current()
            if held is None:
                return await self._inner.send(forward)
        else:
            session = self._accounts.authorizer(caller.identity.principal)
            held = await session.require()
        key = Secret(held.record.key, self._sealer.fingerprint(held.record.key, _PURPOSE))
        header = self._accounts.settings.header.lower()
        names = (header,) if header else await self._server.key_headers() or (AUTHORIZATION,)
        try:
            outcome = await self._inner.send(replace(forward, secrets=dict.fromkeys(names, key)))
        except McpError:
            await self._note(session, held, key)
            raise
        finally:
            key.forget()
        await self._note(session, held, key)
        return outcome

    async def _note(self, session: KeySession, held: HeldKey, key: Secret) -> None:
        """Raises ConsentRequiredError if the API behind the server did not accept the key.

        If the server checks keys when callers enter, that counts; else its word does.
        """
        if not key.is_refused:
            return
        try:
            accepts = await session.judge(held)
        except UpstreamError:
            return
        if not accepts:
            await session.mark_refused(held)
            await session.require()
