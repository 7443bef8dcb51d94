"""The server that every client of these tests talks to.

`python -m tests.clients.yard` serves it on stdio. What its tools do can be followed through other tools
(`until_started`, `until_stopped`), so that a test needs no view into the process; for a client that cannot
call two tools at once, `--journal FIFO` writes the same down as lines.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from msgspec import Struct

from toolyard.kit import Context, Server, ToolError
from toolyard.kit.events import ChangeEvent, EventHub, EventListener

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = [sys.executable, "-m", "tests.clients.yard"]
ENVIRONMENT = {"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "src")))}

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


class Sum(Struct):
    total: int
    note: str | None = None


class Yard:
    """A server, and the events by which its tools can be followed."""

    def __init__(self, say: Callable[[str], None] = lambda line: None) -> None:
        self.server = Server("yard", version="1.2.3", instructions="Add before you greet.")
        self.started = asyncio.Event()
        self.stopped = asyncio.Event()
        self.listened_to = asyncio.Event()
        self._say = say
        self.server.hub = _WatchedHub(self.listened_to)
        self._add_plain_tools()
        self._add_telling_tools()
        self._add_asking_tools()
        self._add_waiting_tools()
        self._add_the_rest()

    def _add_plain_tools(self) -> None:
        @self.server.tool(
            title="Addition", read_only=True, destructive=False, idempotent=True, open_world=False
        )
        async def add(a: Annotated[int, "The first number"], b: int, note: str | None = None) -> Sum:
            """Add two numbers."""
            return Sum(a + b, note)

        @self.server.tool
        async def version(ctx: Context) -> str:
            """Tell which revision of the protocol the caller speaks."""
            return ctx.caller.version

        @self.server.tool(destructive=True)
        async def bake() -> Sum:
            """Bake bread."""
            raise ToolError("There is no flour.")

    def _add_telling_tools(self) -> None:
        @self.server.tool
        async def walk(ctx: Context) -> str:
            """Report progress at each of three steps."""
            for step, name in enumerate(("left", "right", "left"), 1):
                await ctx.report_progress(step, 3, name)
            return "walked"

        @self.server.tool
        async def note_down(ctx: Context) -> str:
            """Log a line too fine for most, and one that is not."""
            await ctx.log("debug", "a detail")
            await ctx.log("warning", {"what": "rain"}, logger="weather")
            return "noted"

    def _add_asking_tools(self) -> None:
        @self.server.tool
        async def greet(ctx: Context) -> str:
            """Ask the person for a name."""
            answer = await ctx.elicit("What is your name?", NAME, key="name")
            return f"Hello {answer.content['name']}" if answer.content else f"Nobody: {answer.action}"

        @self.server.tool
        async def visit(ctx: Context) -> str:
            """Ask the person to open a page."""
            return (await ctx.elicit_url("Please pay", "https://pay.example/7", key="pay")).action

        @self.server.tool
        async def ponder(ctx: Context) -> str:
            """Ask the client's model."""
            return (await ctx.sample("Capital of France?", max_tokens=10, key="thought")).text

        @self.server.tool
        async def look_around(ctx: Context) -> str:
            """Ask which folders are open."""
            return ", ".join(root.uri for root in await ctx.roots(key="folders"))

    def _add_waiting_tools(self) -> None:
        @self.server.tool
        async def wait(ctx: Context) -> str:
            """Wait until cancelled."""
            self.started.set()
            self._say("started")
            try:
                return await asyncio.get_running_loop().create_future()
            finally:
                self.stopped.set()
                self._say("stopped")

        @self.server.tool
        async def until_started() -> str:
            """Return when `wait` runs."""
            await self.started.wait()
            return "started"

        @self.server.tool
        async def until_stopped() -> str:
            """Return when `wait` has been cancelled."""
            await self.stopped.wait()
            return "stopped"

    def _add_the_rest(self) -> None:
        server = self.server

        @server.tool
        async def grow() -> str:
            """Add a tool, as soon as somebody listens for changes."""
            await self.listened_to.wait()

            async def late() -> str:
                """Was not there at first."""
                return "better late"

            server.add_tool(late)
            server.notify_tools_changed()
            return "grown"

        @server.resource("yard://gate", mime_type="text/plain", description="The gate")
        async def gate() -> str:
            return "open"

        @server.resource("yard://plants/{name}", mime_type="text/plain")
        async def plant(name: str) -> str:
            return f"a {name}"

        @server.prompt
        async def invite(guest: Annotated[str, "Who comes"]) -> str:
            """Invite somebody."""
            return f"Please come, {guest}"

        @server.completion(prompt="invite", argument="guest")
        async def guests(value: str, context: dict[str, str]) -> list[str]:
            return [name for name in ("Ada", "Alan", "Grace") if name.startswith(value)]


class _WatchedHub(EventHub):
    """Tells when the first listener has come: a change before that would be told to nobody."""

    def __init__(self, listened_to: asyncio.Event) -> None:
        super().__init__()
        self._listened_to = listened_to

    def listener(self, wants: Callable[[ChangeEvent], bool]) -> EventListener:
        self._listened_to.set()
        return super().listener(wants)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.clients.yard")
    parser.add_argument("--journal", type=Path)
    journal = parser.parse_args().journal
    if journal is None:
        Yard().server.run_stdio()
        return
    with journal.open("w", buffering=1) as lines:

        def say(line: str) -> None:
            print(line, file=lines)

        Yard(say).server.run_stdio()
        say("ended")


if __name__ == "__main__":
    main()
