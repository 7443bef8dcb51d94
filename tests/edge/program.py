"""`python -m tests.edge.program` serves on stdio a server with the tools that the tests of stdio need."""

import asyncio
import logging
import os
import subprocess
import sys
import time

from toolyard.kit import Context, Server

server = Server("program", version="1.0")


@server.tool
async def echo(text: str = "") -> str:
    """Says it back."""
    return text


@server.tool
def prints(text: str) -> str:
    """Writes to standard output in every way a careless author might."""
    print(text)
    print(text, flush=True)
    sys.stdout.write(f"{text}\n")
    os.write(1, f"{text}\n".encode())
    subprocess.run([sys.executable, "-c", f"print({text!r})"], check=True)
    logging.warning(text)
    return "printed"


@server.tool
async def reads() -> str:
    """Reads standard input, which belongs to the protocol."""
    return f"read {sys.stdin.read()!r}"


@server.tool
async def wait(ctx: Context) -> str:
    """Says that it has begun, then waits for ever."""
    await ctx.report_progress(0, message="begun")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        print("wait was cancelled", file=sys.stderr, flush=True)
        raise
    return "never"


@server.tool
async def brief(ctx: Context) -> str:
    """Says that it has begun, and is done a moment later."""
    await ctx.report_progress(0, message="begun")
    await asyncio.sleep(0.3)
    return "done in time"


@server.tool
def blocks() -> str:
    """A plain function that does not come back for a long time."""
    print("blocks has begun", file=sys.stderr, flush=True)
    time.sleep(3600)
    return "never"


@server.tool
async def big(size: int) -> str:
    """Returns a text of any size."""
    return "x" * size


@server.tool
async def greet(ctx: Context) -> str:
    """Asks for a name."""
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    answer = await ctx.elicit("Your name?", schema, key="name")
    return f"Hello {answer.content['name']}" if answer.accepted else f"Hello, {answer.action}"


@server.tool
async def change() -> str:
    """Tells everybody that the list of tools has changed."""
    server.notify_tools_changed()
    return "told"


if __name__ == "__main__":
    server.run_stdio()
