"""A small server whose tools do what the tests of the edge need, and tell when they do it."""

import asyncio
from typing import Annotated, Any

import msgspec

from toolyard.kit import Context, Server, ToolError
from toolyard.wire.errors import McpError

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
KEY = b"the key of these tests, no secret"


class Workshop:
    """A server and the events by which a test follows, and leads, what its tools do."""

    def __init__(self, **options: Any) -> None:
        usual: dict[str, Any] = {"key": KEY}
        self.server = Server("workshop", version="1.0", **(usual | options))
        self.started = asyncio.Event()
        self.go = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.finished = asyncio.Event()
        self.says: asyncio.Queue[str | None] = asyncio.Queue()
        self._quick_tools()
        self._led_tools()
        self._others()

    def _quick_tools(self) -> None:
        server = self.server

        @server.tool
        async def echo(text: str = "") -> str:
            """Says it back."""
            return text

        @server.tool
        async def add(a: int, b: int = 0) -> int:
            """Adds."""
            return a + b

        @server.tool
        async def anything(value: Any = None, ctx: Context | None = None) -> str:
            """Takes any value."""
            return f"{type(value).__name__} from {ctx.caller.client.name if ctx else 'nobody'}"

        @server.tool
        async def broken() -> str:
            """Fails in a way its author did not foresee."""
            raise RuntimeError("Secret of the inside at /home/user/server.py")

        @server.tool
        async def refuses() -> str:
            """Fails in a way its author foresaw."""
            raise ToolError("No, thank you.")

        @server.tool
        async def region(
            where: Annotated[str, msgspec.Meta(extra_json_schema={"x-mcp-header": "Region"})],
            number: Annotated[
                int | None, msgspec.Meta(extra_json_schema={"x-mcp-header": "Number", "type": "integer"})
            ] = None,
        ) -> str:
            """Has arguments that are mirrored in headers."""
            return where

        @server.tool
        async def log(ctx: Context, text: str = "logged") -> str:
            """Logs a line at each of three levels."""
            for level in ("debug", "info", "error"):
                await ctx.log(level, f"{text} {level}")
            return "logged"

        @server.tool
        async def steps(ctx: Context, count: int = 3, fail: bool = False) -> str:
            """Reports progress a few times; may end in an error of the protocol."""
            for number in range(1, count + 1):
                await ctx.report_progress(number, total=count)
            if fail:
                raise McpError(-31000, "Failed on the way")
            return f"{count} steps"

        @server.tool(long=True)
        async def job() -> str:
            """May become a task."""
            return "done"

    def _led_tools(self) -> None:
        server = self.server

        @server.tool
        async def wait(fail: bool = False) -> str:
            """Says nothing until it is told to go on; may end in an error of the protocol."""
            self.started.set()
            try:
                await self.go.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            self.finished.set()
            if fail:
                raise McpError(-31000, "Failed in the end")
            return "waited"

        @server.tool
        async def speak(ctx: Context) -> str:
            """Reports as progress whatever the test puts in the queue, until it puts None."""
            self.started.set()
            count = 0
            try:
                while (text := await self.says.get()) is not None:
                    count += 1
                    await ctx.report_progress(count, message=text)
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            self.finished.set()
            return f"said {count}"

        @server.tool
        async def close_and_wait(ctx: Context) -> str:
            """Lets the connection go, then waits to be told to go on."""
            await ctx.close_stream(retry_ms=7)
            self.started.set()
            await self.go.wait()
            return "came back"

    def _others(self) -> None:
        server = self.server

        @server.tool
        async def greet(ctx: Context, style: str = "") -> str:
            """Asks for a name."""
            answer = await ctx.elicit("Your name?", NAME, key="name")
            return f"Hello {answer.content['name']}{style}" if answer.accepted else f"Hello, {answer.action}"

        @server.tool
        async def think(ctx: Context) -> str:
            """Asks the client's model."""
            return (await ctx.sample("Think.", max_tokens=10, key="thought")).text

        @server.resource("shop://shelf", mime_type="text/plain")
        async def shelf() -> str:
            return "empty"

        @server.resource("shop://item/{id}")
        async def item(id: str) -> str:
            return f"item {id}"

        @server.prompt
        async def hello(name: str) -> str:
            return f"Hello {name}"

        @server.prompt
        async def ask_first(ctx: Context) -> str:
            answer = await ctx.elicit("Your name?", NAME, key="name")
            return f"Hello {answer.action}"

        @server.completion(prompt="hello", argument="name")
        async def names(value: str, context: dict[str, str]) -> list[str]:
            return [name for name in ("Ada", "Alan") if name.startswith(value)]
