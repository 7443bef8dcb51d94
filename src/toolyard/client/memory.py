"""A connection to a server in this process: calls go straight to the service, with no transport between.

A sibling of the links in `toolyard.upstream`, so that a client does not know the difference. Results are
encoded once, as any transport would, so that nothing of the server's own objects reaches the client.
"""

import asyncio
import secrets
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from ..upstream.connection import (
    SILENT,
    ChangeWatcher,
    ClientProfile,
    LegacySessionState,
    Params,
    RawResult,
    RequestListener,
    UpstreamConnection,
    UpstreamInfo,
)
from ..upstream.handshake import discovery, initialize_params, read_discovery, read_initialized
from ..wire.call import (
    LOG_LEVEL_KEY,
    Call,
    Caller,
    ClientInfo,
    Identity,
    LegacySession,
    Secret,
    Service,
    StreamedResult,
)
from ..wire.messages import Id, encode
from ..wire.seal import digest
from ..wire.versions import LATEST_MODERN, Era


class MemoryConnector:
    """Opens links to one service, in the era it is asked to."""

    activity = ""

    def __init__(
        self,
        service: Service,
        era: Era = "modern",
        identity: Identity | None = None,
        keys: Mapping[str, str] = {},
    ) -> None:
        self._service = service
        self._era: Era = era
        self._identity = identity or Identity()
        self._keys = keys

    async def open(self, profile: ClientProfile, era: Era | None = None) -> UpstreamConnection:
        version = LATEST_MODERN if self._era == "modern" else profile.version
        info = msgspec.json.decode(profile.info, type=ClientInfo)
        capabilities = msgspec.json.decode(profile.capabilities, type=dict[str, Any])
        caller = Caller(version, capabilities, info, self._identity)
        secrets_ = {name: Secret(key, digest(key.encode())) for name, key in self._keys.items()}
        connection = InMemoryConnection(self._service, caller, secrets_)
        await connection.open(profile)
        return connection

    async def denies_modern(self, connection: UpstreamConnection) -> bool:
        return False


class InMemoryConnection:
    shares_tokens = False
    server = "in this process"

    def __init__(self, service: Service, caller: Caller, keys: Mapping[str, Secret]) -> None:
        self._service = service
        self._caller = caller
        self._keys = keys
        self._session = LegacySession(secrets.token_urlsafe(8)) if caller.era == "legacy" else None
        self._listening: asyncio.Task[None] | None = None
        self._watchers: dict[ChangeWatcher, None] = {}
        self._home: RequestListener = SILENT
        self._id = 0
        self.about = UpstreamInfo(caller.version)
        self.standing = LegacySessionState()
        self.closed = False
        self.busy = False

    async def open(self, profile: ClientProfile) -> None:
        if self._session is None:
            found = await self.request("server/discover", discovery(profile), SILENT)
            self.about = read_discovery(self.server, found)
            return
        self.about = read_initialized(
            self.server, await self.request("initialize", initialize_params(profile), SILENT)
        )
        call = Call("", Raw(b"{}"), self._caller, _Session(self), session=self._session)
        self._listening = asyncio.create_task(self._service.listen(call))
        await asyncio.sleep(0)  # it listens once it has had its first turn

    async def request(
        self,
        method: str,
        params: Params,
        listener: RequestListener,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        as_id: Id | None = None,
    ) -> RawResult:
        self._id += 1
        call = Call(
            method,
            Raw(encode(params)),
            self._as_of(params),
            _Channel(listener),
            self._id,
            token,
            self._session,
        )
        call.secrets = self._keys or None
        result = await self._service.handle(call)
        return await _whole(result) if isinstance(result, StreamedResult) else Raw(encode(result))

    def _as_of(self, params: Params) -> Caller:
        """A modern request says by itself how much of the log it wants, and what its client can do."""
        if self._session is not None or "_meta" not in params:
            return self._caller
        meta = msgspec.json.decode(params["_meta"], type=_Meta)
        caller = self._caller
        capabilities = caller.capabilities if meta.capabilities is None else meta.capabilities
        return Caller(caller.version, capabilities, caller.client, caller.identity, meta.log_level)

    async def notify(self, method: str, params: Params) -> None:
        await self._service.handle(
            Call(method, Raw(encode(params)), self._caller, _Session(self), None, None, self._session)
        )

    def watch(self, watcher: ChangeWatcher) -> None:
        self._watchers[watcher] = None

    def unwatch(self, watcher: ChangeWatcher) -> None:
        self._watchers.pop(watcher, None)

    def adopt(self, listener: RequestListener | None) -> None:
        self._home = listener or SILENT

    def changed(self, method: str, params: Raw) -> None:
        for watcher in list(self._watchers):
            watcher(method, params)

    async def ask(self, method: str, params: Raw) -> Raw:
        """A question outside of any call."""
        return await self._home.ask(method, params)

    async def close(self) -> None:
        self.closed = True
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)
            call = Call("", Raw(b"{}"), self._caller, _Session(self), session=self._session)
            await self._service.end_session(call)
        watchers, self._watchers = self._watchers, {}
        for watcher in watchers:
            watcher("", Raw(b"{}"))


class _Meta(msgspec.Struct):
    log_level: str | None = msgspec.field(default=None, name=LOG_LEVEL_KEY)
    capabilities: dict[str, Any] | None = msgspec.field(
        default=None, name="io.modelcontextprotocol/clientCapabilities"
    )


class _Channel:
    """The way back to the client while a call runs."""

    def __init__(self, listener: RequestListener) -> None:
        self._ear = listener

    async def notify(self, method: str, params: Any) -> None:
        await self._ear.notify(method, Raw(encode(params)))

    async def ask(self, method: str, params: Any) -> Raw:
        return await self._ear.ask(method, Raw(encode(params)))

    async def release(self, retry_ms: int | None) -> None:
        await self._ear.release(retry_ms)


class _Session:
    """A legacy session's own stream: changes go to those who watch."""

    def __init__(self, connection: InMemoryConnection) -> None:
        self._connection = connection

    async def notify(self, method: str, params: Any) -> None:
        self._connection.changed(method, Raw(encode(params)))

    async def ask(self, method: str, params: Any) -> Raw:
        return await self._connection.ask(method, Raw(encode(params)))

    async def release(self, retry_ms: int | None) -> None:
        return None


async def _whole(result: StreamedResult) -> Raw:
    try:
        return Raw(b"".join([chunk async for chunk in result.chunks()]))
    finally:
        result.close()
