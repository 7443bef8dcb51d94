"""A server whose tools an agent would look for, and the client's words to find and call them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from tests.app.yard import Yard, at, yard
from tests.serving import serving
from toolyard.config import SearchConfig, ServerConfig
from toolyard.kit import Context, Image, Long, Server, ToolError

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


class Office:
    """What was done there can be seen: `sent`, and who is waiting."""

    def __init__(self) -> None:
        self.server = Server("office", instructions="Mails leave at once.")
        self.sent: list[str] = []
        self.waiting = 0
        self.most_waiting = 0
        self.cancelled: list[str] = []
        self.enough = asyncio.Event()
        self._add_mail()
        self._add_work()

    def _add_mail(self) -> None:
        server = self.server

        @server.tool(title="Send an email")
        async def send_email(
            to: Annotated[str, "Address of the recipient"],
            subject: str = "",
            urgency: Annotated[int, "From 1 to 5"] = 1,
        ) -> str:
            """Send an email to somebody."""
            self.sent.append(to)
            return f"sent to {to}"

        @server.tool(read_only=True)
        async def list_messages(folder: str = "inbox") -> dict[str, Any]:
            """Show the emails of a folder."""
            return {"folder": folder, "messages": list(self.sent)}

        @server.tool(destructive=True)
        async def delete_message(number: int) -> str:
            """Delete an email."""
            raise ToolError(f"there is no message {number}")

        @server.tool
        async def create_invoice(customer: str, amount: float) -> str:
            """Write an invoice for a customer."""
            return f"{customer} owes {amount:g}"

    def _add_work(self) -> None:
        server = self.server

        @server.tool
        async def wait(name: str) -> str:
            """Wait until there is enough."""
            self.waiting += 1
            self.most_waiting = max(self.most_waiting, self.waiting)
            try:
                await self.enough.wait()
            except asyncio.CancelledError:
                self.cancelled.append(name)
                raise
            finally:
                self.waiting -= 1
            return f"{name} waited"

        @server.tool
        async def photograph() -> Image:
            """Take a picture of the office."""
            return Image(b"not really a picture", "image/png")

        @server.tool
        async def sign(ctx: Context) -> str:
            """Ask whose signature it is."""
            answer = await ctx.elicit("Who signs?", NAME, key="who")
            return f"signed {answer.content['name']}" if answer.content else answer.action

        @server.tool(long=Long(poll=0.02))
        async def audit(ctx: Context) -> str:
            """Go through all the books, which takes long."""
            return "the books are in order"


class Front(Yard):
    """A client of the search view."""

    async def meta(self, tool: str, arguments: Any = None, **options: Any) -> dict[str, Any]:
        return (await self.call(tool, arguments, **options)).result

    async def search(self, *use_cases: str, **options: Any) -> dict[str, Any]:
        more = {key: options.pop(key) for key in ("session",) if key in options}
        each = {key: options.pop(key) for key in ("server", "limit", "category") if key in options}
        queries = [{"use_case": use_case, **each} for use_case in use_cases]
        return found_in(await self.meta("search_tools", {"queries": queries, **more}, **options))

    async def names(self, use_case: str, **options: Any) -> list[str]:
        (found,) = (await self.search(use_case, **options))["results"]
        return [one["tool"] for one in found["results"]]

    async def through(self, tool: str, arguments: Any = None, **options: Any) -> dict[str, Any]:
        given = {"tool": tool, "arguments": arguments or {}}
        return await self.meta("call_tool", given, **options)

    async def listed(self, **options: Any) -> dict[str, dict[str, Any]]:
        page = (await self.modern("tools/list", {}, **options)).result
        assert "nextCursor" not in page
        return {tool["name"]: tool for tool in page["tools"]}


def found_in(result: dict[str, Any]) -> dict[str, Any]:
    """What a program reads of a search's answer."""
    return result["_meta"]["toolyard/search"]


def in_thread(name: str) -> dict[str, str]:
    return {"X-Toolyard-Thread": name}


def text_of(result: dict[str, Any]) -> str:
    return result["content"][0]["text"]


@asynccontextmanager
async def front(
    *servers: ServerConfig, search: SearchConfig | None = None, **settings: Any
) -> AsyncIterator[Front]:
    """Its tools are listed first, as every client does; that is what waits for the servers."""
    tables = {"search": search or SearchConfig()}
    usual: dict[str, Any] = {"view": "search"}
    async with yard(*servers, tables=tables, **(usual | settings)) as opened:
        await opened.tools()
        yield Front(opened.gateway, opened.client)


@asynccontextmanager
async def office(
    search: SearchConfig | None = None, server: dict[str, Any] | None = None, **settings: Any
) -> AsyncIterator[tuple[Front, Office]]:
    """A gateway over an office, both on loopback."""
    place = Office()
    async with (
        serving(place.server.asgi()) as served,
        front(at(served.url, "office", **(server or {})), search=search, **settings) as opened,
    ):
        yield opened, place
