"""A remote in this process that searches by itself and whose apps are to be connected, small as can be."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from toolyard.catalogue.catalogue import Catalogue, conversation_of
from toolyard.catalogue.items import TOOLS, read_item
from toolyard.dispatch.remote import AppConnection, RemoteAnswer, RemoteTool
from toolyard.search.documents import ToolQuery
from toolyard.sessions.leases import Lease, Leases, NewSession
from toolyard.upstream.composio.api import Toolkit
from toolyard.upstream.errors import ConnectionLostError
from toolyard.wire.call import Call, thread_of

SCHEMA = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}


class Apps:
    """`finds` are the own names that every search gives; `mood` is `well`, `down` or `slow`."""

    def __init__(self, catalogue: Catalogue, leases: Leases, server: str) -> None:
        self.server = server
        self.finds = ["MAIL_SEND", "MAIL_READ"]
        self.mood = "well"
        self.connected: set[str] = set()
        self.asked: list[list[ToolQuery]] = []
        self.searched_for: list[str] = []
        self.authorised = asyncio.Event()
        self._catalogue = catalogue
        self._leases = leases

    def _full(self, own: str) -> str:
        return f"mcp__{self.server}__{own}"

    def _tool(self, call: Call, own: str) -> RemoteTool:
        app = own.partition("_")[0].lower()
        told = {"name": own, "description": f"{app}: {own.lower()}", "inputSchema": SCHEMA}
        item = read_item(TOOLS, msgspec.Raw(msgspec.json.encode(told)))
        self._catalogue.add_discovered(self.server, [item], conversation_of(call))
        return RemoteTool(
            own,
            self._full(own),
            app,
            description=told["description"],
            input_schema=SCHEMA,
            recommended=own == self.finds[0] if self.finds else False,
            connected=app in self.connected,
            auth="connected" if app in self.connected else "oauth",
        )

    async def session(self, call: Call) -> Lease:
        async def begin() -> NewSession:
            return NewSession(f"trs_{thread_of(call) or 'none'}", source="composio")

        return await self._leases.get(call.caller.tenant, thread_of(call), self.server, begin)

    async def _are_we_well(self) -> None:
        if self.mood == "down":
            raise ConnectionLostError(self.server, "it broke off")
        if self.mood == "slow":
            await asyncio.Event().wait()

    async def search(self, call: Call, queries: Sequence[ToolQuery], limit: int) -> RemoteAnswer:
        self.asked.append(list(queries))
        await self._are_we_well()
        tools = tuple(self._tool(call, own) for own in self.finds)
        return RemoteAnswer(tuple(tools for _ in queries), await self.session(call))

    async def toolkits(self, call: Call, text: str, category: str, limit: int) -> Sequence[Toolkit]:
        self.searched_for.append(text)
        return [Toolkit("fax", "Fax")]

    async def toolkit(self, call: Call, slug: str) -> Toolkit | None:
        return None

    async def tools_of(self, call: Call, toolkit: str) -> Sequence[RemoteTool]:
        return [self._tool(call, "FAX_SEND"), self._tool(call, "FAX_BURN")]

    async def describe(self, call: Call, names: Sequence[str]) -> Sequence[RemoteTool]:
        await self._are_we_well()
        known = ("MAIL_SEND", "MAIL_READ", "FAX_SEND")
        return [self._tool(call, own) for own in known if own in names or self._full(own) in names]

    async def connections(self, call: Call, toolkits: Sequence[str]) -> Sequence[AppConnection]:
        await self._are_we_well()
        return [self._connection(app) for app in toolkits or sorted(self.connected)]

    def _connection(self, app: str, link: str | None = None) -> AppConnection:
        status = "active" if app in self.connected else "initiated" if link else "none"
        return AppConnection(self.server, app, status, None if app in self.connected else link)

    async def link(
        self, call: Call, toolkit: str, *, alias: str = "", fields: dict[str, Any] | None = None
    ) -> AppConnection:
        return self._connection(toolkit, f"https://connect.example/{toolkit}")

    async def wait(
        self, call: Call, toolkits: Sequence[str], seconds: float, *, every: bool = True
    ) -> Sequence[AppConnection]:
        async with asyncio.timeout(seconds):
            await self.authorised.wait()
        self.connected.update(toolkits)
        return [self._connection(app) for app in toolkits]
