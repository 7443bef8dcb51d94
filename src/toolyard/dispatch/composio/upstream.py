"""Composio as an upstream: runs calls and requests in the session of their caller.

Calls of tools that its MCP endpoint lists go over MCP, all others over its REST API. A request that failed
without an answer is not repeated here.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from msgspec import Raw
from msgspec.structs import replace

from ...composio import ExecutedTool
from ...config import Composio, ServerConfig
from ...search.documents import ToolQuery
from ...sessions.leases import Lease
from ...upstream.base import Forward, Outcome, Upstream
from ...upstream.composio import ComposioClient, ComposioRefusedError, replies
from ...upstream.composio.api import ComposioQuery, Toolkit, ToolRecord
from ...upstream.connection import GATEWAY_CALLER, StartProgress, UpstreamInfo
from ...upstream.errors import (
    ConnectionLostError,
    NotReachedError,
    UpstreamBusyError,
    UpstreamDownError,
    UpstreamError,
    UpstreamTimeoutError,
    is_refusal,
)
from ...upstream.messages.envelope import read_outcome
from ...wire.call import NO_CHANNEL, Call
from ...wire.errors import InvalidParams, McpError, MethodNotFound
from ...wire.messages import decode_params, encode
from ...wire.types import CallToolResult
from ...wire.versions import LATEST_MODERN
from ..mount import Breaker, says_over
from ..remote import AppConnection, RemoteAnswer, RemoteTool
from .apps import AppAccounts, ToolkitSearch
from .results import data_of, failed_result, result_of, unwrap, with_data
from .sessions import CallSession, ComposioSessions
from .tools import META_PREFIX, SEARCH_TOOLS, SessionTools, kept_local, may_use, slugs_in, without_denied

T = TypeVar("T")

MAX_RETRY_AFTER = 5.0
"""A request that would have to wait longer fails: a search has other servers to ask."""
MAX_TRIES = 3


class GuardedRequests:
    """Sends requests to the API within a time limit, unless the breaker is open."""

    def __init__(self, server: str, timeout: float, breaker: Breaker) -> None:
        self._server = server
        self._timeout = timeout
        self._breaker = breaker

    async def send(self, request: Callable[[], Awaitable[T]]) -> T:
        self._breaker.check()
        try:
            async with asyncio.timeout(self._timeout):
                return await self._with_retries(request)
        except TimeoutError as error:
            if isinstance(error, McpError):
                raise
            timeout = UpstreamTimeoutError(self._server, f"it did not answer within {self._timeout:g} s")
            self._failed(timeout)
            raise timeout from None
        except (ConnectionLostError, NotReachedError) as error:
            self._failed(error)
            raise

    def _failed(self, error: UpstreamError) -> None:
        if not isinstance(error, UpstreamBusyError | UpstreamDownError):
            self._breaker.failed(error.reason)

    async def _with_retries(self, request: Callable[[], Awaitable[T]]) -> T:
        """Retry a request that was rejected unread with a time to retry after."""
        for _ in range(MAX_TRIES - 1):
            try:
                return await request()
            except NotReachedError as error:
                if error.retry_after is None or error.retry_after > MAX_RETRY_AFTER:
                    raise
                await asyncio.sleep(error.retry_after)
        return await request()


MAX_TOOLS = 500
UNANSWERABLE = (401, 429)
_INFO_WITHOUT_MCP = UpstreamInfo(LATEST_MODERN, capabilities={"tools": {}})
_GATEWAY_CALL = Call("server/discover", Raw(b"{}"), GATEWAY_CALLER, NO_CHANNEL)


class ComposioUpstream(Upstream):
    """Also implements `Remote`.

    `connect` makes a connection to the MCP endpoint of a session.
    """

    runs_named_tools = True

    def __init__(
        self,
        config: ServerConfig,
        where: Composio,
        api: ComposioClient,
        sessions: ComposioSessions,
        tools: SessionTools,
        connect: Callable[[str], Upstream],
        breaker: Breaker,
    ) -> None:
        self.server = config.name
        self._api = api
        self._sessions = sessions
        self._tools = tools
        self._connect = connect
        self._connections = sessions.connections
        self._gateway_session = ""
        """The session in which the gateway reads lists."""
        self._requests = GuardedRequests(config.name, config.timeout, breaker)
        self._toolkits = ToolkitSearch(api, where.toolkits)
        self._accounts = AppAccounts(config.name, api, where.callback_url)

    # Calls

    async def send(self, forward: Forward) -> Outcome:
        if forward.method != "tools/call":
            return await self._over_mcp(forward)
        params = forward.params
        name = decode_params(params.get("name", Raw(b'""')), str)
        if not self._tools.may_use(name):
            raise InvalidParams(f"Unknown tool: {name[:80]!r}")
        arguments = decode_params(forward.params.get("arguments", Raw(b"{}")), dict[str, Any])
        if name.upper().startswith(META_PREFIX) and (unknown := self._denied(forward, arguments)):
            modern = forward.call.caller.era == "modern"
            return _outcome(failed_result(f"Unknown tool: {unknown}; nothing was executed", modern))
        local = kept_local(name, arguments)
        if not self._tools.is_listed(name):
            return await self._execute(forward.call, name, local)
        if local is not arguments:
            forward = replace(forward, params={**params, "arguments": Raw(encode(local))})
        return await self._call_listed(forward, name)

    def _denied(self, forward: Forward, arguments: dict[str, Any]) -> str:
        """Return the denied tools that arguments name."""
        slugs = dict.fromkeys(slug for slug in slugs_in(arguments) if not self._may_use(forward, slug))
        return ", ".join(repr(slug[:80]) for slug in slugs)

    def _may_use(self, forward: Forward, slug: str) -> bool:
        permits = forward.permits
        return self._tools.may_use(slug) and (permits is None or may_use(slug, permits))

    async def _call_listed(self, forward: Forward, name: str) -> Outcome:
        came = await self._over_mcp(forward)
        if not isinstance(came.body, Raw):
            return came
        body = unwrap(came.body)
        if name in SEARCH_TOOLS and (data := data_of(body)):
            data = without_denied(data, partial(self._may_use, forward))
            self._tools.add_records(forward.call, replies.defined(data))
            body = with_data(body, data)
        modern = forward.call.caller.era == "modern"
        return came if body is came.body else read_outcome(self.server, body, modern=modern)

    async def _execute(self, call: Call, slug: str, arguments: dict[str, Any]) -> Outcome:
        modern = call.caller.era == "modern"

        async def work(current: CallSession) -> ExecutedTool:
            return await self._api.execute(current.session, current.user, slug, arguments)

        try:
            done = await self._sessions.run(call, work, _says_expired)
            return _outcome(result_of(done, modern))
        except ComposioRefusedError as error:
            if error.status in UNANSWERABLE:
                raise
            # The caller made a mistake, or the app needs something first: the model should read that.
            detail = f"{error.detail}; hint: {error.hint}" if error.hint else error.detail
            return _outcome(failed_result(detail, modern))

    async def _over_mcp(self, forward: Forward) -> Outcome:
        async def work(current: CallSession) -> Outcome:
            session = current.session
            if session is None or not session.mcp_url:
                return _without_mcp(forward.method)
            async with self._connections.use(
                session.id, lambda: self._connect(session.mcp_url)
            ) as connection:
                return await connection.send(forward)

        return await self._sessions.run(forward.call, work, says_over)

    # Lifecycle

    async def info(self, call: Call | None = None) -> UpstreamInfo:
        async def work(current: CallSession) -> UpstreamInfo:
            session = current.session
            if session is None or not session.mcp_url:
                return _INFO_WITHOUT_MCP
            self._gateway_session = session.id
            async with self._connections.use(
                session.id, lambda: self._connect(session.mcp_url)
            ) as connection:
                return await connection.info()

        return await self._sessions.run(_GATEWAY_CALL, work)

    def close_idle(self) -> None:
        self._connections.close_idle()

    async def reset(self) -> None:
        """Open the gateway's own connection again when it is next needed."""
        self._connections.drop(self._gateway_session)

    async def idle(self) -> None:
        await self._connections.idle()

    async def close(self) -> None:
        await self._connections.close()

    def starting(self) -> StartProgress | None:
        return None

    def client_seen(self, call: Call) -> None:
        """Lists are read in a session of the gateway's own, as no client."""
        return

    def end_session(self, call: Call) -> None:
        for connection in self._connections.all():
            connection.end_session(call)

    def is_own(self, call: Call) -> bool:
        """Its sessions follow the user, not the client."""
        return False

    async def notified(self, call: Call) -> None:
        for connection in self._connections.all():
            await connection.notified(call)

    async def listen(self, call: Call) -> None:
        return

    def abandon(self, state: str) -> None:
        for connection in self._connections.all():
            connection.abandon(state)

    # Remote

    async def session(self, call: Call) -> Lease:
        return await self._requests.send(lambda: self._sessions.lease(call))

    async def search(self, call: Call, queries: Sequence[ToolQuery], limit: int) -> RemoteAnswer:
        asked = [ComposioQuery(query.use_case, query.known_fields, query.category) for query in queries]

        async def work(current: CallSession) -> RemoteAnswer:
            found = await self._api.search(current.session, current.user, asked, limit)
            results = [self._tools.add_found(call, tools, found.accounts)[:limit] for tools in found.tools]
            return RemoteAnswer(tuple(map(tuple, results)), current.lease, found.guidance)

        return await self._requests.send(lambda: self._sessions.run(call, work))

    async def toolkits(self, call: Call, text: str, category: str, limit: int) -> Sequence[Toolkit]:
        return await self._requests.send(lambda: self._toolkits.search(text, category, limit))

    async def toolkit(self, call: Call, slug: str) -> Toolkit | None:
        return await self._requests.send(lambda: self._toolkits.get(slug))

    async def tools_of(self, call: Call, toolkit: str) -> Sequence[RemoteTool]:
        if not self._toolkits.has(toolkit):
            return ()
        found = await self._requests.send(lambda: self._api.tools_of(toolkit, MAX_TOOLS))
        return self._tools.add_records(call, found)

    async def describe(self, call: Call, names: Sequence[str]) -> Sequence[RemoteTool]:
        owns = {name: own for name in names if (own := self._tools.own_name(call, name)) is not None}
        found = await self._requests.send(lambda: self._read_tools(names, owns)) if owns else []
        return self._tools.add_records(call, [tool for tool in found if self._toolkits.has(tool.toolkit)])

    async def _read_tools(self, names: Sequence[str], owns: dict[str, str]) -> list[ToolRecord]:
        found = await self._api.tools(list(dict.fromkeys(owns.values())))
        known = {tool.slug for tool in found}
        for name in names:
            for app in self._tools.apps_of_shortened(name) if owns.get(name) not in known else ():
                found += [
                    tool
                    for tool in await self._api.tools_of(app, MAX_TOOLS)
                    if self._tools.name(tool.slug) == name
                ]
        return found

    async def connections(self, call: Call, toolkits: Sequence[str]) -> Sequence[AppConnection]:
        async def work(current: CallSession) -> Sequence[AppConnection]:
            return await self._accounts.statuses(current.session, current.user, toolkits)

        return await self._requests.send(lambda: self._sessions.run(call, work))

    async def link(
        self, call: Call, toolkit: str, *, alias: str = "", fields: dict[str, Any] | None = None
    ) -> AppConnection:
        async def work(current: CallSession) -> AppConnection:
            return await self._accounts.link(current.session, current.user, toolkit, alias, fields)

        return await self._requests.send(lambda: self._sessions.run(call, work))

    async def wait(
        self, call: Call, toolkits: Sequence[str], seconds: float, *, every: bool = True
    ) -> Sequence[AppConnection]:
        return await self._accounts.wait(lambda: self.connections(call, toolkits), seconds, every)


def _says_expired(done: ExecutedTool) -> bool:
    """Whether a reply says that the session has expired; an app's own expired session does not count."""
    return done.failure is not None and is_refusal(done.failure)


def _without_mcp(method: str) -> Outcome:
    """Answers for a session without an MCP endpoint: it lists nothing."""
    if method == "tools/list":
        return Outcome.of(b'{"tools":[]}')
    raise MethodNotFound(method[:80])


def _outcome(result: CallToolResult) -> Outcome:
    return Outcome.of(encode(result), is_error=result.is_error is True)
