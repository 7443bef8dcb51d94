"""Composio behind the gateway: what is called, what is asked of it, each in the session of who asks.

The tools that its MCP endpoint lists go over MCP; all others were found by a search, and are executed over
its REST API. Whatever failed without an answer is not done again here.
"""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Raw

from ...config import Composio, ServerConfig
from ...search.documents import Query
from ...sessions.leases import Lease
from ...upstream.composio import Api, ApiRefused, Executed
from ...upstream.composio.records import Question, ToolRecord
from ...upstream.expiry import is_refusal
from ...upstream.link import OURS, About
from ...wire.call import NO_CHANNEL, Call
from ...wire.errors import InvalidParams, McpError, MethodNotFound
from ...wire.messages import decode_params
from ...wire.versions import LATEST_MODERN
from ..breaker import Breaker
from ..remote import Connection, RemoteAnswer, RemoteTool, Toolkit
from ..renewal import says_over
from ..ways import Way, Ways
from .accounts import Accounts
from .asking import Asking
from .blotting import Blotter
from .loans import Loans
from .seats import Seated, Seats
from .slugs import META, SEARCH, named, without_denied
from .toolkits import Toolkits
from .unwrapping import data_of, failed, opened, result_of, with_data

MAX_TOOLS = 500
UNANSWERABLE = (401, 429)
_ABOUT = About(LATEST_MODERN, capabilities={"tools": {}})
_OURS = Call("server/discover", Raw(b"{}"), OURS, NO_CHANNEL)


class ComposioUpstream:
    """Implements `Remote`, and takes calls as any mounted upstream does.

    `connect` makes a way to an address of Composio's.
    """

    def __init__(
        self,
        config: ServerConfig,
        where: Composio,
        api: Api,
        seats: Seats,
        loans: Loans,
        connect: Callable[[str], Way],
    ) -> None:
        self.server = config.name
        self._blotter = Blotter(where.api_key)
        self._api = api
        self._seats = seats
        self._loans = loans
        self._connect = connect
        self._ways = Ways()
        self._own = ""
        """The session that we read lists in."""
        self._seats.on_over = self._ways.drop
        self._asking = Asking(config.name, config.timeout)
        self._kits = Toolkits(api, where.toolkits)
        self._accounts = Accounts(config.name, api, where.callback_url)

    # Calls

    async def handle(self, call: Call) -> Any:
        if call.method != "tools/call":
            return await self._over_mcp(call)
        members = decode_params(call.params, dict[str, Raw])
        name = decode_params(members.get("name", Raw(b'""')), str)
        if not self._loans.may_use(name):
            raise InvalidParams(f"Unknown tool: {name[:80]!r}")
        arguments = decode_params(members.get("arguments", Raw(b"{}")), dict[str, Any])
        if name.upper().startswith(META) and (unknown := self._denied(arguments)):
            return failed(f"Unknown tool: {unknown}; nothing was executed", call.caller.era == "modern")
        if not self._loans.is_listed(name):
            return await self._execute(call, name, arguments)
        return await self._call_listed(call, name)

    def _denied(self, arguments: dict[str, Any]) -> str:
        """The tools that arguments name and that may not be used."""
        slugs = dict.fromkeys(slug for slug in named(arguments) if not self._loans.may_use(slug))
        return ", ".join(repr(slug[:80]) for slug in slugs)

    async def _call_listed(self, call: Call, name: str) -> Any:
        result = opened(await self._over_mcp(call))
        if name in SEARCH and (data := data_of(result)):
            return with_data(result, without_denied(data, self._loans.may_use))
        return result

    async def _execute(self, call: Call, slug: str, arguments: dict[str, Any]) -> Any:
        modern = call.caller.era == "modern"

        async def work(seated: Seated) -> Executed:
            return await self._api.execute(seated.session, seated.user, slug, arguments)

        try:
            done = await self._seats.run(call, work, _refused_as_over)
            return result_of(self._blotter.executed(done), modern)
        except ApiRefused as error:
            if error.status in UNANSWERABLE:
                raise
            # What the caller got wrong, or what the app wants first: the model should read it.
            return failed(f"{error.words}; hint: {error.hint}" if error.hint else error.words, modern)

    async def _over_mcp(self, call: Call) -> Any:
        async def work(seated: Seated) -> Any:
            session = seated.session
            if session is None or not session.mcp_url:
                return _without_mcp(call)
            async with self._ways.use(session.id, lambda: self._connect(session.mcp_url)) as way:
                return await way.handle(call)

        try:
            return self._blotter.result(await self._seats.run(call, work, says_over))
        except McpError as error:
            raise self._blotter.error(error) from None

    # Life

    async def about(self) -> About:
        async def work(seated: Seated) -> About:
            session = seated.session
            if session is None or not session.mcp_url:
                return _ABOUT
            self._own = session.id
            async with self._ways.use(session.id, lambda: self._connect(session.mcp_url)) as way:
                return await way.about()

        return await self._seats.run(_OURS, work)

    def guard(self, breaker: Breaker) -> None:
        """Questions are not put to one that is known to be down."""
        self._asking.breaker = breaker

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

    async def search(self, call: Call, queries: Sequence[Query], limit: int) -> RemoteAnswer:
        questions = [Question(query.use_case, query.known_fields, query.category) for query in queries]

        async def work(seated: Seated) -> RemoteAnswer:
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

    async def connections(self, call: Call, toolkits: Sequence[str]) -> Sequence[Connection]:
        async def work(seated: Seated) -> Sequence[Connection]:
            return await self._accounts.statuses(seated.session, seated.user, toolkits)

        return await self._asking.ask(lambda: self._seats.run(call, work))

    async def link(
        self, call: Call, toolkit: str, *, alias: str = "", fields: dict[str, Any] | None = None
    ) -> Connection:
        async def work(seated: Seated) -> Connection:
            return await self._accounts.link(seated.session, seated.user, toolkit, alias, fields)

        return await self._asking.ask(lambda: self._seats.run(call, work))

    async def wait(
        self, call: Call, toolkits: Sequence[str], seconds: float, *, every: bool = True
    ) -> Sequence[Connection]:
        return await self._accounts.wait(lambda: self.connections(call, toolkits), seconds, every)


def _refused_as_over(done: Executed) -> bool:
    """Composio says it in a good reply, too. An app's own session, which is over, is not ours to renew."""
    return done.failure is not None and is_refusal(done.failure)


def _without_mcp(call: Call) -> Any:
    """Where a session has no address for MCP, nothing is listed."""
    if call.method == "tools/list":
        return {"tools": []}
    raise MethodNotFound(call.method[:80])
