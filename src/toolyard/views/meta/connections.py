"""Reports the connections to servers and to remote apps, begins new ones and waits for them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from ...dispatch.remote import AppConnection, Remote
from ...languages import said
from ...state.store import StateError
from ...upstream.accounts import Accounts
from ...upstream.errors import CredentialError, UpstreamError
from ...wire.call import Call
from ...wire.errors import McpError
from ..context import MetaToolContext
from ..instructions import brief
from .search import no_answer_within, unknown_server

logger = logging.getLogger("toolyard.views")

ConnectionAction = Literal["status", "link", "wait", "disconnect"]

MAX_SECONDS = 600.0
POLL_SECONDS = 0.2


class _Names(Struct):
    """The requested names by kind."""

    servers: list[str] = field(default_factory=list[str])
    apps: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Apps by remote; an empty list means all connected ones."""
    unknown: list[str] = field(default_factory=list[str])


class ConnectionRequest(Struct, frozen=True):
    action: ConnectionAction = "status"
    seconds: float = 60.0
    alias: str = ""
    fields: dict[str, Any] | None = None
    every: bool = True
    """Wait for all of them, not only for the first."""


class ConnectionManager:
    def __init__(self, context: MetaToolContext) -> None:
        self._context = context

    async def answer(
        self, call: Call, names: Sequence[str], request: ConnectionRequest
    ) -> list[AppConnection]:
        await self._context.view_context.catalogue.wait_settled(self._context.view_context.list_wait)
        named = self._by_kind(call, names)
        remotes = self._context.remotes()
        parts: list[Awaitable[list[AppConnection]]] = [self._servers(call, named.servers, request)]
        parts += [self._apps(call, remotes[server], apps, request) for server, apps in named.apps.items()]
        answers = await asyncio.gather(*parts)
        return [
            *(one for answer in answers for one in answer),
            *(self._unknown(call, name) for name in named.unknown),
        ]

    def _by_kind(self, call: Call, names: Sequence[str]) -> _Names:
        """Sort names: a server, a remote, `remote/app`, or an app. Without names, all servers and remotes."""
        servers = self._context.view_context.visible(call).servers
        remotes = self._context.remotes_of(call)
        if not names:
            return _Names(
                [server for server in servers if server not in remotes], {name: [] for name in remotes}
            )
        named = _Names()
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

    def _unknown(self, call: Call, name: str) -> AppConnection:
        servers = self._context.view_context.visible(call).servers
        return AppConnection(name[:80], "", "none", message=unknown_server(servers))

    # Mounted servers

    async def _servers(
        self, call: Call, servers: list[str], request: ConnectionRequest
    ) -> list[AppConnection]:
        accounts = self._context.accounts()
        plain = [server for server in servers if server not in accounts]
        if request.action == "wait" and plain:
            await self._wait_for(call, plain, request)
        return [
            await self._account(call, accounts[server], request)
            if server in accounts
            else self._server(call, server)
            for server in servers
        ]

    async def _account(self, call: Call, accounts: Accounts, request: ConnectionRequest) -> AppConnection:
        """The caller's own account at a server that wants a login."""
        name, principal = accounts.server, call.caller.identity.principal
        link: str | None = None
        try:
            if request.action == "disconnect":
                await accounts.disconnect(principal)
            elif request.action == "wait" and await accounts.wait(
                principal, min(request.seconds, MAX_SECONDS)
            ):
                await self._wait_for(call, [name], request)  # its lists are read now
            state = await accounts.state(principal)
            if request.action == "link" and not state.connected:
                link = (await accounts.link(principal)).url
        except CredentialError as error:
            return AppConnection(name, "", "failed", message=error.reason)
        if not state.connected:
            return AppConnection(name, "", "initiated" if link else "none", link=link, message=state.reason)
        server = self._server(call, name)
        if not server.is_active:
            # Lists are read with another account than this caller's.
            message = said(
                f"you are connected, but its lists cannot be read: {server.message}",
                f"você está conectado, mas não é possível ler as listas dele: {server.message}",
            )
            return replace(server, message=message)
        return AppConnection(name, "", "active", message=f"{server.message}; {state.reason}")

    async def _wait_for(self, call: Call, servers: list[str], request: ConnectionRequest) -> None:
        enough: Callable[[list[bool]], bool] = all if request.every else any
        until = asyncio.get_running_loop().time() + min(request.seconds, MAX_SECONDS)
        while not enough([self._server(call, server).is_active for server in servers]):
            left = until - asyncio.get_running_loop().time()
            if left <= 0:
                return
            self._context.view_context.touch()
            await asyncio.sleep(min(POLL_SECONDS, left))

    def _server(self, call: Call, name: str) -> AppConnection:
        server = self._context.view_context.visible(call).servers.get(name)
        if server is None:
            return self._unknown(call, name)
        if server.reason_unavailable:
            status = "initiated" if server.state == "starting" else "failed"
            return AppConnection(name, "", status, message=brief(server.reason_unavailable))
        count = len(server.entries["tools"])
        message = (
            said(f"{count} tool", f"{count} ferramenta")
            if count == 1
            else said(f"{count} tools", f"{count} ferramentas")
        )
        return AppConnection(name, "", "active", message=message)

    # Apps of a remote

    async def _apps(
        self, call: Call, remote: Remote, apps: list[str], request: ConnectionRequest
    ) -> list[AppConnection]:
        timeout = self._context.settings.remote_seconds
        try:
            if request.action == "wait":
                timeout += min(request.seconds, MAX_SECONDS)
            async with asyncio.timeout(timeout):
                return await self._ask_remote(call, remote, apps, request)
        except TimeoutError:
            reason = no_answer_within(timeout)
        except StateError as error:
            logger.warning("the connections of %s cannot be read: %s", remote.server, error)
            reason = error.public_message
        except McpError as error:
            reason = error.reason if isinstance(error, UpstreamError) else error.message
        return [AppConnection(remote.server, app, "failed", message=reason) for app in apps or [""]]

    async def _ask_remote(
        self, call: Call, remote: Remote, apps: list[str], request: ConnectionRequest
    ) -> list[AppConnection]:
        if request.action == "link":
            link, alias, fields = self._context.link, request.alias, request.fields
            return [await link(call, remote, app, alias, fields) for app in apps]
        if request.action == "disconnect":
            how = said(
                "accounts of its apps are disconnected where they were connected, at the remote itself",
                "as contas dos aplicativos são desconectadas onde foram conectadas, no próprio remoto",
            )
            return [AppConnection(remote.server, app, "failed", message=how) for app in apps or [""]]
        if request.action == "status":
            return list(await remote.connections(call, apps))
        if not apps:
            apps = [one.toolkit for one in await remote.connections(call, []) if not one.is_active]
        seconds = max(0.0, min(request.seconds, MAX_SECONDS))
        return list(await remote.wait(call, apps, seconds, every=request.every)) if apps else []
