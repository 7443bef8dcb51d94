"""The state of servers and of remote apps: connected, to be authorised, or missing."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

from msgspec import Struct, field

from ...dispatch.remote import AppConnection, Remote
from ...state.store import StateError
from ...upstream.errors import UpstreamError
from ...wire.call import Call
from ...wire.errors import McpError
from ..context import MetaToolContext
from ..instructions import brief

logger = logging.getLogger("toolyard.views")

ConnectionAction = Literal["status", "link", "wait"]

MAX_SECONDS = 600.0
LOOK_SECONDS = 0.2


class _Named(Struct):
    """What the names are of."""

    servers: list[str] = field(default_factory=list[str])
    apps: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """By remote; no apps stands for all that are connected there."""
    unknown: list[str] = field(default_factory=list[str])


class ConnectionRequest(Struct, frozen=True):
    action: ConnectionAction = "status"
    seconds: float = 60.0
    alias: str = ""
    fields: dict[str, Any] | None = None
    every: bool = True
    """Wait for all of them, not for the first."""


class ConnectionManager:
    def __init__(self, supplies: MetaToolContext) -> None:
        self._supplies = supplies

    async def answer(self, call: Call, names: Sequence[str], wish: ConnectionRequest) -> list[AppConnection]:
        await self._supplies.yard.catalogue.wait_settled(self._supplies.yard.list_wait)
        named = self._sorted(names)
        remotes = self._supplies.remotes()
        asking: list[Awaitable[list[AppConnection]]] = [self._servers(named.servers, wish)]
        asking += [self._apps(call, remotes[server], apps, wish) for server, apps in named.apps.items()]
        answers = await asyncio.gather(*asking)
        return [*(one for answer in answers for one in answer), *map(self._nothing, named.unknown)]

    def _sorted(self, names: Sequence[str]) -> _Named:
        """A name is a server's, a remote's, `remote/app`, or an app's."""
        remotes, servers = self._supplies.remotes(), self._supplies.yard.catalogue.servers
        if not names:
            return _Named(
                [server for server in servers if server not in remotes], {name: [] for name in remotes}
            )
        named = _Named()
        for name in names:
            remote, _, app = name.partition("/")
            if name in remotes:
                named.apps.setdefault(name, [])
            elif name in servers:
                named.servers.append(name)
            elif remote in remotes and app:
                named.apps.setdefault(remote, []).append(app)
            elif remotes:
                for server in remotes:
                    named.apps.setdefault(server, []).append(name)
            else:
                named.unknown.append(name)
        return named

    def _nothing(self, name: str) -> AppConnection:
        names = ", ".join(list(self._supplies.yard.catalogue.servers)[:20]) or "none"
        return AppConnection(name[:80], "", "none", message=f"there is no such server; there are {names}")

    # Our servers

    async def _servers(self, servers: list[str], wish: ConnectionRequest) -> list[AppConnection]:
        if wish.action == "wait":
            await self._until_up(servers, wish)
        return [self._server(server) for server in servers]

    async def _until_up(self, servers: list[str], wish: ConnectionRequest) -> None:
        enough: Callable[[list[bool]], bool] = all if wish.every else any
        until = asyncio.get_running_loop().time() + min(wish.seconds, MAX_SECONDS)
        while not enough([self._server(server).is_active for server in servers]):
            left = until - asyncio.get_running_loop().time()
            if left <= 0:
                return
            self._supplies.yard.touch()
            await asyncio.sleep(min(LOOK_SECONDS, left))

    def _server(self, server: str) -> AppConnection:
        server_catalogue = self._supplies.yard.catalogue.servers.get(server)
        if server_catalogue is None:
            return self._nothing(server)
        if server_catalogue.reason_unavailable:
            status = "initiated" if server_catalogue.state == "starting" else "failed"
            return AppConnection(server, "", status, message=brief(server_catalogue.reason_unavailable))
        return AppConnection(server, "", "active", message=f"{len(server_catalogue.entries['tools'])} tools")

    # Apps of a remote

    async def _apps(
        self, call: Call, remote: Remote, apps: list[str], wish: ConnectionRequest
    ) -> list[AppConnection]:
        patience = self._supplies.settings.remote_seconds
        try:
            if wish.action == "wait":
                patience += min(wish.seconds, MAX_SECONDS)
            async with asyncio.timeout(patience):
                return await self._asked(call, remote, apps, wish)
        except TimeoutError:
            reason = f"it did not answer within {patience:g} s"
        except StateError as error:
            logger.warning("connections of %s cannot be looked up: %s", remote.server, error)
            reason = error.told
        except McpError as error:
            reason = error.reason if isinstance(error, UpstreamError) else error.message
        return [AppConnection(remote.server, app, "failed", message=reason) for app in apps or [""]]

    async def _asked(
        self, call: Call, remote: Remote, apps: list[str], wish: ConnectionRequest
    ) -> list[AppConnection]:
        if wish.action == "link":
            return [await remote.link(call, app, alias=wish.alias, fields=wish.fields) for app in apps]
        if wish.action == "status":
            return list(await remote.connections(call, apps))
        if not apps:
            apps = [one.toolkit for one in await remote.connections(call, []) if not one.is_active]
        seconds = max(0.0, min(wish.seconds, MAX_SECONDS))
        return list(await remote.wait(call, apps, seconds, every=wish.every)) if apps else []
