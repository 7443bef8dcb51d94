"""The server of these conversations: a shop whose tools do one thing each, and wait for the test if told to.

`python -m tests.interaction.shop` serves it on standard input and output.
"""

import asyncio
from typing import Annotated, Any

from msgspec import Meta, Struct

from toolyard.kit import (
    Audio,
    BlobContents,
    Context,
    Elicit,
    EmbeddedResource,
    Image,
    Long,
    ResourceLink,
    Roots,
    Sample,
    Server,
    Text,
    TextContents,
    ToolError,
    assistant,
    user,
)
from toolyard.wire.errors import McpError

KEY = b"the key of these tests, no secret"
SECRET = "Secret of the inside at /home/user/shop.py"
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


class Receipt(Struct):
    item: str
    total: Annotated[float, Meta(ge=0)]
    notes: list[str] = []


class Delivery(Struct):
    street: Annotated[str, Meta(min_length=1, title="Street")]
    express: bool = False


class Shop:
    """A server, and the events by which a test follows and leads it."""

    def __init__(self, **options: Any) -> None:
        self.server = Server(
            "shop", version="1.2", **({"key": KEY, "instructions": "Buy something"} | options)
        )
        self.started, self.go, self.stopped = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.made = 0
        for add in (_add_plain_tools, _add_failing_tools, _add_telling_tools, _add_asking_tools, _add_tasks):
            add(self)
        _add_resources(self.server)
        _add_prompts(self.server)

    async def wait(self) -> None:
        """Until the test says go; tells when it starts and when it is cancelled."""
        self.started.set()
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.stopped.set()
            raise


def _add_plain_tools(shop: Shop) -> None:
    server = shop.server

    @server.tool(title="Echo", read_only=True)
    async def echo(text: str = "") -> str:
        """Says it back."""
        return text

    @server.tool
    async def buy(item: str, price: Annotated[float, Meta(ge=0)], count: int = 1) -> Receipt:
        """Buys something."""
        return Receipt(item, price * count)

    @server.tool
    def weigh(grams: list[int]) -> int:
        """Adds up, in a thread."""
        return sum(grams)

    @server.tool
    async def show() -> list[Text | Image | Audio | ResourceLink | EmbeddedResource]:
        """Shows one piece of content of each kind."""
        return [
            Text("a lamp"),
            Image(b"\x89PNG", "image/png"),
            Audio(b"RIFF", "audio/wav"),
            ResourceLink("shop://shelf", "shelf"),
            EmbeddedResource(TextContents("shop://note", "a note")),
            EmbeddedResource(BlobContents("shop://blob", b"\x00")),
        ]

    @server.tool
    async def wait() -> str:
        """Waits until it is told to go on."""
        await shop.wait()
        return "waited"


def _add_failing_tools(shop: Shop) -> None:
    server = shop.server

    @server.tool
    async def refuse() -> str:
        """Fails in a way its author foresaw."""
        raise ToolError("We are closed")

    @server.tool
    async def break_down() -> str:
        """Fails in a way nobody foresaw."""
        raise RuntimeError(SECRET)

    @server.tool
    async def miscount() -> Receipt:
        """Returns what its own schema forbids."""
        return Receipt("lamp", -1)

    @server.tool
    async def run_out() -> str:
        """Answers with an error of the protocol."""
        raise McpError(-32050, "Out of stock", {"until": "Monday"})


def _add_telling_tools(shop: Shop) -> None:
    server = shop.server

    @server.tool
    async def pack(ctx: Context, boxes: int = 3) -> str:
        """Reports progress, a box at a time."""
        for box in range(1, boxes + 1):
            await ctx.report_progress(box, total=boxes, message=f"box {box}")
        return "packed"

    @server.tool
    async def mutter(ctx: Context) -> str:
        """Says a line at four levels."""
        for level in ("debug", "info", "warning", "error"):
            await ctx.log(level, {"line": level}, logger="till")
        return "muttered"


def _add_asking_tools(shop: Shop) -> None:
    server = shop.server

    @server.tool
    async def greet(ctx: Context) -> str:
        """Asks for a name."""
        answer = await ctx.elicit("Your name?", NAME)
        return f"Hello {answer.content['name']}" if answer.accepted else f"No name: {answer.action}"

    @server.tool
    async def deliver(ctx: Context) -> str:
        """Asks with a form made of a type."""
        answer = await ctx.elicit("Where to?", Delivery)
        place: Any = answer.content
        return f"{place.street}, {'today' if place.express else 'some day'}"

    @server.tool
    async def hurry(ctx: Context) -> str:
        """Asks, and does not wait long for the answer."""
        try:
            async with asyncio.timeout(0.05):
                return (await ctx.elicit("Quick?", NAME)).action
        except TimeoutError:
            return "too slow"

    @server.tool
    async def pay(ctx: Context) -> str:
        """Asks to open a page."""
        return (await ctx.elicit_url("Please pay", "https://pay.example/7")).action

    @server.tool
    async def advertise(ctx: Context) -> str:
        """Lets the client's model write."""
        return (await ctx.sample("Praise the lamp", max_tokens=20, system="Be brief")).text

    @server.tool
    async def folders(ctx: Context) -> list[str]:
        """Lists the client's folders."""
        return [root.uri for root in await ctx.roots()]

    @server.tool
    async def survey(ctx: Context) -> str:
        """Asks several things at once."""
        answers = await ctx.ask(who=Elicit("Who?", NAME), slogan=Sample("A slogan"), places=Roots())
        return f"{answers['who'].content['name']}: {answers['slogan'].text} ({len(answers['places'])})"

    @server.tool
    async def haggle(ctx: Context) -> str:
        """Asks three times, one after the other, and makes its offer only once."""

        def make() -> int:
            shop.made += 1
            return 40 + shop.made

        offer = await ctx.remember("offer", make)
        names = [(await ctx.elicit(f"Bid {n}?", NAME)).content["name"] for n in (1, 2, 3)]
        return f"{offer} after {', '.join(names)}"


def _add_tasks(shop: Shop) -> None:
    server = shop.server

    @server.tool(long=Long(ttl=60, poll=0.1))
    async def order(ctx: Context, item: str = "lamp") -> Receipt:
        """Takes its time: a task for clients that follow tasks."""
        await ctx.report_progress(1, message="fetching")
        await shop.wait()
        return Receipt(item, 5)

    @server.tool(long=True)
    async def commission(ctx: Context) -> str:
        """A task that asks while it runs."""
        answers = await ctx.ask(who=Elicit("Who?", NAME), slogan=Sample("A slogan"))
        return f"{answers['who'].content['name']}: {answers['slogan'].text}"

    @server.tool(long=Long(detach="by_hand"))
    async def reserve(ctx: Context) -> str:
        """Asks first and becomes a task afterwards."""
        answer = await ctx.elicit("Sure?", NAME)
        await ctx.detach()
        return f"reserved for {answer.content['name']}"

    @server.tool(long=True)
    async def lose() -> str:
        """A task that fails with an error of the protocol."""
        raise McpError(-32050, "Lost in the post")


def _add_resources(server: Server) -> None:
    @server.resource("shop://shelf", title="The shelf", mime_type="text/plain")
    async def shelf() -> str:
        return "a lamp"

    @server.resource("shop://photo", mime_type="image/png")
    async def photo() -> bytes:
        return b"\x89PNG"

    @server.resource("shop://item/{id}", mime_type="text/plain")
    async def item(id: int) -> str:
        return f"item {id}"

    @server.resource("shop://diary/{day}")
    async def diary(day: str, ctx: Context) -> str:
        answer = await ctx.elicit("Who reads?", NAME)
        return f"{day}, read by {answer.content['name']}"

    @server.completion(resource="shop://item/{id}", argument="id")
    async def ids(value: str, context: dict[str, str]) -> list[str]:
        return [str(n) for n in range(1000) if str(n).startswith(value)]


def _add_prompts(server: Server) -> None:
    @server.prompt(title="Describe")
    async def describe(item: Annotated[str, "What"], tone: str = "plain") -> list[Any]:
        """Describes an item."""
        return [user(f"Describe {item}, {tone}"), assistant(Image(b"", "image/png"))]

    @server.prompt
    async def toast(ctx: Context) -> str:
        answer = await ctx.elicit("To whom?", NAME)
        return f"A toast to {answer.content['name']}"

    @server.completion(prompt="describe", argument="tone")
    async def tones(value: str, context: dict[str, str]) -> list[str]:
        tones = ["plain", "playful"] if context.get("item") != "lamp" else ["bright"]
        return [tone for tone in tones if tone.startswith(value)]


def main() -> None:
    shop = Shop()

    @shop.server.tool
    def chatter() -> str:
        """Prints what must not be taken for the protocol."""
        print('{"jsonrpc":"2.0","id":1,"result":"a lie"}', flush=True)
        return "printed"

    shop.server.run_stdio()


if __name__ == "__main__":
    main()
