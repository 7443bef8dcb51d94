"""Composio as an upstream: calls and requests, each in the session of its caller.

Tools that its MCP endpoint lists go over MCP; all others run over its REST API. A request that failed
without an answer is not repeated here.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from msgspec import Raw

from ...config import Composio, ServerConfig
from ...search.documents import ToolQuery
from ...sessions.leases import Lease
from ...upstream.base import Forward, Outcome, Upstream
from ...upstream.composio import ComposioClient, ComposioRefusedError, ExecutedTool
from ...upstream.composio.api import ComposioQuery, ToolRecord
from ...upstream.connection import GATEWAY_CALLER, UpstreamInfo
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
from ..remote import AppConnection, RemoteAnswer, RemoteTool, Toolkit
from .apps import AppAccounts, ToolkitSearch
from .results import KeyRedactor, data_of, failed_result, result_of, unwrapped, with_data
from .sessions import CallSession, ComposioSessions, SessionConnections
from .tools import META_PREFIX, SEARCH_TOOLS, SessionTools, slugs_in, without_denied

T = TypeVar("T")

MAX_RETRY_AFTER = 5.0
"""Who is told to come back later than that does without an answer: there are others to ask."""
MAX_TRIES = 3


class GuardedRequests:
    """Requests that are not calls, within the time limit; none while the breaker is open."""

    def __init__(self, server: str, timeout: float, breaker: Breaker) -> None:
        self._server = server
        self._timeout = timeout
        self._breaker = breaker

    async def ask(self, question: Callable[[], Awaitable[T]]) -> T:
        self._breaker.check()
        try:
            async with asyncio.timeout(self._timeout):
                return await self._patiently(question)
        except TimeoutError as error:
            if isinstance(error, McpError):
                raise
            late = UpstreamTimeoutError(self._server, f"it did not answer within {self._timeout:g} s")
            self._failed(late)
            raise late from None
        except (ConnectionLostError, NotReachedError) as error:
            self._failed(error)
            raise

    def _failed(self, error: UpstreamError) -> None:
        if not isinstance(error, UpstreamBusyError | UpstreamDownError):
            self._breaker.failed(error.reason)

    async def _patiently(self, question: Callable[[], Awaitable[T]]) -> T:
        """One that was turned away unread, with the word when to come back, comes back."""
        for _ in range(MAX_TRIES - 1):
            try:
                return await question()
            except NotReachedError as error:
                if error.retry_after is None or error.retry_after > MAX_RETRY_AFTER:
                    raise
                await asyncio.sleep(error.retry_after)
        return await question()


MAX_TOOLS = 500
UNANSWERABLE = (401, 429)
_INFO_WITHOUT_MCP = UpstreamInfo(LATEST_MODERN, capabilities={"tools": {}})
_GATEWAY_CALL = Call("server/discover", Raw(b"{}"), GATEWAY_CALLER, NO_CHANNEL)


class ComposioUpstream(Upstream):
    """Also implements `Remote`. `connect` makes an MCP connection to an address of Composio's."""

    def __init__(
        self,
        config: ServerConfig,
        where: Composio,
        api: ComposioClient,
        seats: ComposioSessions,
        loans: SessionTools,
        connections: SessionConnections,
        connect: Callable[[str], Upstream],
        breaker: Breaker,
    ) -> None:
        self.server = config.name
        self._blotter = KeyRedactor(where.api_key)
        self._api = api
        self._seats = seats
        self._loans = loans
        self._connect = connect
        self._ways = connections
        self._own = ""
        """The session that we read lists in."""
        self._asking = GuardedRequests(config.name, config.timeout, breaker)
        self._kits = ToolkitSearch(api, where.toolkits)
        self._accounts = AppAccounts(config.name, api, where.callback_url)

    # Calls

    async def send(self, forward: Forward) -> Outcome:
        if forward.method != "tools/call":
            return await self._over_mcp(forward)
        name = decode_params(forward.params.get("name", Raw(b'""')), str)
        if not self._loans.may_use(name):
            raise InvalidParams(f"Unknown tool: {name[:80]!r}")
        arguments = decode_params(forward.params.get("arguments", Raw(b"{}")), dict[str, Any])
        if name.upper().startswith(META_PREFIX) and (unknown := self._denied(arguments)):
            modern = forward.call.caller.era == "modern"
            return _outcome(failed_result(f"Unknown tool: {unknown}; nothing was executed", modern))
        if not self._loans.is_listed(name):
            return await self._execute(forward.call, name, arguments)
        return await self._call_listed(forward, name)

    def _denied(self, arguments: dict[str, Any]) -> str:
        """The tools that arguments name and that may not be used."""
        slugs = dict.fromkeys(slug for slug in slugs_in(arguments) if not self._loans.may_use(slug))
        return ", ".join(repr(slug[:80]) for slug in slugs)

    async def _call_listed(self, forward: Forward, name: str) -> Outcome:
        came = await self._over_mcp(forward)
        if not isinstance(came.body, Raw):
            return came
        body = unwrapped(came.body)
        if name in SEARCH_TOOLS and (data := data_of(body)):
            body = with_data(body, without_denied(data, self._loans.may_use))
        modern = forward.call.caller.era == "modern"
        return came if body is came.body else read_outcome(self.server, body, modern=modern)

    async def _execute(self, call: Call, slug: str, arguments: dict[str, Any]) -> Outcome:
        modern = call.caller.era == "modern"

        async def work(seated: CallSession) -> ExecutedTool:
            return await self._api.execute(seated.session, seated.user, slug, arguments)

        try:
            done = await self._seats.run(call, work, _refused_as_over)
            return _outcome(result_of(self._blotter.executed(done), modern))
        except ComposioRefusedError as error:
            if error.status in UNANSWERABLE:
                raise
            # What the caller got wrong, or what the app wants first: the model should read it.
            words = f"{error.words}; hint: {error.hint}" if error.hint else error.words
            return _outcome(failed_result(words, modern))

    async def _over_mcp(self, forward: Forward) -> Outcome:
        async def work(seated: CallSession) -> Outcome:
            session = seated.session
            if session is None or not session.mcp_url:
                return _without_mcp(forward.method)
            async with self._ways.use(session.id, lambda: self._connect(session.mcp_url)) as way:
                return await way.send(forward)

        try:
            outcome = await self._seats.run(forward.call, work, says_over)
            body = self._blotter.result(outcome.body)
            return outcome if body is outcome.body else outcome.with_body(body)
        except McpError as error:
            raise self._blotter.error(error) from None

    # Life

    async def info(self) -> UpstreamInfo:
        async def work(seated: CallSession) -> UpstreamInfo:
            session = seated.session
            if session is None or not session.mcp_url:
                return _INFO_WITHOUT_MCP
            self._own = session.id
            async with self._ways.use(session.id, lambda: self._connect(session.mcp_url)) as way:
                return await way.info()

        return await self._seats.run(_GATEWAY_CALL, work)

    def close_idle(self) -> None:
        self._ways.close_idle()

    async def reset(self) -> None:
        """What we read lists over is opened anew."""
        self._ways.drop(self._own)

    async def idle(self) -> None:
        await self._ways.idle()

    async def close(self) -> None:
        await self._ways.close()

    # Remote

    async def session(self, call: Call) -> Lease:
        return await self._asking.ask(lambda: self._seats.lease(call))

    async def search(self, call: Call, queries: Sequence[ToolQuery], limit: int) -> RemoteAnswer:
        questions = [ComposioQuery(query.use_case, query.known_fields, query.category) for query in queries]

        async def work(seated: CallSession) -> RemoteAnswer:
            found = await self._api.search(seated.session, seated.user, questions, limit)
            results = [self._loans.lend_found(call, tools, found.accounts)[:limit] for tools in found.tools]
            return RemoteAnswer(tuple(map(tuple, results)), seated.lease, found.guidance)

        return await self._asking.ask(lambda: self._seats.run(call, work))

    async def toolkits(self, call: Call, text: str, category: str, limit: int) -> Sequence[Toolkit]:
        return await self._asking.ask(lambda: self._kits.search(text, category, limit))

    async def toolkit(self, call: Call, slug: str) -> Toolkit | None:
        return await self._asking.ask(lambda: self._kits.get(slug))

    async def tools_of(self, call: Call, toolkit: str) -> Sequence[RemoteTool]:
        if not self._kits.has(toolkit):
            return ()
        found = await self._asking.ask(lambda: self._api.tools_of(toolkit, MAX_TOOLS))
        return self._loans.lend_records(call, found)

    async def describe(self, call: Call, names: Sequence[str]) -> Sequence[RemoteTool]:
        owns = {name: own for name in names if (own := self._loans.own_name(call, name)) is not None}
        found = await self._asking.ask(lambda: self._tools(names, owns)) if owns else []
        return self._loans.lend_records(call, [tool for tool in found if self._kits.has(tool.toolkit)])

    async def _tools(self, names: Sequence[str], owns: dict[str, str]) -> list[ToolRecord]:
        found = await self._api.tools(list(dict.fromkeys(owns.values())))
        known = {tool.slug for tool in found}
        for name in names:
            for app in self._loans.shortened(name) if owns.get(name) not in known else ():
                found += [
                    tool
                    for tool in await self._api.tools_of(app, MAX_TOOLS)
                    if self._loans.name(tool.slug) == name
                ]
        return found

    async def connections(self, call: Call, toolkits: Sequence[str]) -> Sequence[AppConnection]:
        async def work(seated: CallSession) -> Sequence[AppConnection]:
            return await self._accounts.statuses(seated.session, seated.user, toolkits)

        return await self._asking.ask(lambda: self._seats.run(call, work))

    async def link(
        self, call: Call, toolkit: str, *, alias: str = "", fields: dict[str, Any] | None = None
    ) -> AppConnection:
        async def work(seated: CallSession) -> AppConnection:
            return await self._accounts.link(seated.session, seated.user, toolkit, alias, fields)

        return await self._asking.ask(lambda: self._seats.run(call, work))

    async def wait(
        self, call: Call, toolkits: Sequence[str], seconds: float, *, every: bool = True
    ) -> Sequence[AppConnection]:
        return await self._accounts.wait(lambda: self.connections(call, toolkits), seconds, every)


def _refused_as_over(done: ExecutedTool) -> bool:
    """Composio says it in a good reply, too. An app's own session, which is over, is not ours to renew."""
    return done.failure is not None and is_refusal(done.failure)


def _without_mcp(method: str) -> Outcome:
    """Where a session has no address for MCP, nothing is listed."""
    if method == "tools/list":
        return Outcome.of(b'{"tools":[]}')
    raise MethodNotFound(method[:80])


def _outcome(result: CallToolResult) -> Outcome:
    return Outcome.of(encode(result), is_error=result.is_error is True)
