"""The upstream of the soak: `python -m tests.soak.upstream NAME ERA stdio|PORT JOURNAL`.

A kit server with one tool for each thing that a call can do. What must not be done twice is noted in the file
JOURNAL, which outlives the process, for the soak kills it.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from tests.cli.old import old_edge
from toolyard.edge import stdio
from toolyard.edge.http import server as serving
from toolyard.kit import Context, Message, Server, user
from toolyard.wire.call import Call, Service
from toolyard.wire.errors import MethodNotFound

JOURNAL_VARIABLE = "SOAK_JOURNAL"
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def soak_server(name: str, journal: Path, prefix: str = "") -> Server:
    server = Server(name, version="1", key=b"the key of this soak, no secret")

    @server.tool(name=prefix + "echo", read_only=True, idempotent=True)
    async def echo(text: str) -> str:
        """Says it back."""
        return text

    @server.tool(name=prefix + "large", read_only=True)
    async def large(size: int) -> str:
        """A text of any size."""
        return "x" * size

    @server.tool(name=prefix + "once")
    async def once(token: str) -> str:
        """Must not be done twice."""
        with journal.open("a") as file:
            file.write(token + "\n")
        return token

    @server.tool(name=prefix + "linger")
    async def linger(token: str, seconds: float) -> str:
        """Must not be done twice, and takes its time, so that it is under way when its server is killed."""
        with journal.open("a") as file:
            file.write(token + "\n")
        await asyncio.sleep(seconds)
        return token

    @server.tool(name=prefix + "think", read_only=True)
    async def think(seconds: float) -> str:
        """Takes its time and may be done again."""
        await asyncio.sleep(seconds)
        return "thought"

    @server.tool(name=prefix + "steps", read_only=True)
    async def steps(ctx: Context, count: int) -> str:
        """Tells how far it is."""
        for step in range(count):
            await ctx.report_progress(step + 1, count)
        return f"{count} steps"

    @server.tool(name=prefix + "ask")
    async def ask(ctx: Context) -> str:
        """Asks for a name."""
        answer = await ctx.elicit("Your name?", NAME, key="name")
        return f"Hello {answer.content['name']}" if answer.accepted else f"Hello, {answer.action}"

    @server.tool(name=prefix + "wait", read_only=True)
    async def wait(seconds: float) -> str:
        """Takes its time."""
        await asyncio.sleep(seconds)
        return "done"

    @server.resource(f"soak://{name}/page", mime_type="text/plain")
    async def page() -> str:
        return f"page of {name}"

    @server.prompt(name=prefix + "greet")
    async def greet(who: str) -> list[Message]:
        """A greeting."""
        return [user(f"Greet {who}")]

    return server


class OldService:
    """A kit server that knows nothing of the modern era."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.listen, self.end_session = service.listen, service.end_session
        self.close, self.health = service.close, service.health

    async def handle(self, call: Call) -> Any:
        if call.caller.era == "modern":
            raise MethodNotFound(call.method)
        return await self._service.handle(call)


def __getattr__(name: str) -> Server:
    """`module = "tests.soak.upstream:NAME"` in the gateway's config."""
    if name.startswith("_"):
        raise AttributeError(name)
    return soak_server(name, Path(os.environ[JOURNAL_VARIABLE]))


def main() -> None:
    name, era, where, journal = sys.argv[1:]
    server = soak_server(name, Path(journal))
    if where == "stdio":
        stdio.run(server.service if era == "modern" else OldService(server.service))
    else:
        app = server.asgi() if era == "modern" else old_edge(server)
        serving.run(app, "127.0.0.1", int(where))


if __name__ == "__main__":
    main()
