"""The server that these tests talk to: a workshop whose tools do one thing each.

`python -m tests.client.workshop` serves it on standard input and output.
"""

import asyncio

from msgspec import Struct

from toolyard.kit import (
    Audio,
    BlobContents,
    Context,
    EmbeddedResource,
    Image,
    Long,
    ResourceLink,
    Server,
    Text,
    TextContents,
    ToolError,
)

FORM = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "manner": {"type": "string", "default": "warmly"}},
    "required": ["name"],
}


class Sum(Struct):
    total: int


def workshop() -> Server:
    server = Server("workshop", version="1.2", title="The workshop", instructions="Mind the saw", page_size=4)
    _add_plain(server)
    _add_asking(server)
    _add_long(server)
    _add_rest(server)
    return server


def _add_plain(server: Server) -> None:
    stopped = asyncio.Event()

    @server.tool
    async def add(a: int, b: int) -> Sum:
        """Add two numbers."""
        return Sum(a + b)

    @server.tool
    async def refuse() -> str:
        """Fail in a way that was foreseen."""
        raise ToolError("We are closed")

    @server.tool
    async def show() -> list[Text | Image | Audio | ResourceLink | EmbeddedResource]:
        """Show a piece of content of each kind."""
        return [
            Text("a lamp"),
            Image(b"\x89PNG", "image/png"),
            Audio(b"RIFF", "audio/wav"),
            ResourceLink("workshop://shelf", "shelf"),
            EmbeddedResource(TextContents("workshop://note", "a note")),
            EmbeddedResource(BlobContents("workshop://blob", b"\x00")),
        ]

    @server.tool
    async def saw(ctx: Context, boards: int) -> str:
        """Report progress and write a log line for each board."""
        for board in range(1, boards + 1):
            await ctx.report_progress(board, boards, f"board {board}")
            await ctx.log("info", {"board": board}, logger="saw")
            await ctx.log("debug", "dust", logger="saw")
        return "sawn"

    @server.tool
    async def hang(ctx: Context) -> str:
        """Say that it has begun, and never end."""
        await ctx.report_progress(1, message="hanging")
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return "never"

    @server.tool
    async def stopped_hanging() -> str:
        """Wait until `hang` was cancelled."""
        await stopped.wait()
        return "it was cancelled"

    @server.tool
    async def rearrange() -> str:
        """Change something of each kind that can be listened to."""
        server.notify_tools_changed()
        server.notify_resource_updated("workshop://shelf")
        server.notify_resource_updated("workshop://blob")
        return "done"


def _add_asking(server: Server) -> None:
    @server.tool
    async def greet(ctx: Context) -> str:
        """Ask for a name."""
        answer = await ctx.elicit("Your name?", FORM)
        return f"{answer.action}: {answer.content}"

    @server.tool
    async def pay(ctx: Context) -> str:
        """Ask to open a page."""
        return (await ctx.elicit_url("Please pay", "https://pay.example/7")).action

    @server.tool
    async def praise(ctx: Context) -> str:
        """Let the client's model write."""
        return (await ctx.sample("Praise the lamp", max_tokens=20, system="Be brief")).text

    @server.tool
    async def folders(ctx: Context) -> list[str]:
        """List the client's folders."""
        return [root.uri for root in await ctx.roots()]

    @server.tool
    async def haggle(ctx: Context) -> str:
        """Ask three times, one after the other."""
        names = [(await ctx.elicit(f"Bid {n}?", FORM)).content["name"] for n in (1, 2, 3)]
        return ", ".join(names)


def _add_long(server: Server) -> None:
    @server.tool(long=Long(poll=0.02))
    async def build(ctx: Context, what: str) -> str:
        """Build something that takes its time."""
        await ctx.report_progress(1, message="sawing")
        return f"a {what}"

    @server.tool(long=Long(poll=0.02, required=True))
    async def commission(ctx: Context) -> str:
        """Ask while it works; a task only."""
        answer = await ctx.elicit("For whom?", FORM)
        return f"for {answer.content['name']}"

    @server.tool(long=Long(poll=0.02))
    async def season() -> str:
        """Never end."""
        await asyncio.Event().wait()
        return "dry"

    @server.tool(long=Long(poll=0.02))
    async def spoil() -> str:
        """Fail as a task does whose tool fails."""
        raise ToolError("It cracked")


def _add_rest(server: Server) -> None:
    @server.resource("workshop://shelf", mime_type="text/plain")
    async def shelf() -> str:
        """What is on the shelf."""
        return "three lamps"

    @server.resource("workshop://blob", mime_type="application/octet-stream")
    async def blob() -> bytes:
        """Bytes."""
        return b"\x00\x01"

    @server.resource("workshop://boards/{kind}")
    async def boards(kind: str) -> str:
        """Boards of one kind."""
        return f"{kind} boards"

    @server.prompt
    async def advise(wood: str) -> str:
        """Advice on a kind of wood."""
        return f"How do I plane {wood}?"

    @server.completion(argument="wood", prompt="advise")
    async def woods(value: str, context: dict[str, str]) -> list[str]:
        return [wood for wood in ("oak", "olive", "pine") if wood.startswith(value)]


if __name__ == "__main__":
    workshop().run_stdio()
