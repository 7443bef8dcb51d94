"""A server whose tools do what a function may have to do: go on in steps, answer with much, never answer.

`write` puts it into a folder as a function that is not yet packed: it uses the Toolyard of this checkout.
"""

import asyncio
from pathlib import Path

from toolyard.kit import Context, Server

server = Server("works", version="1.0")

FUNCTION = """\
from toolyard.app.aws_lambda import function

handler = function(["{target}"])
"""


@server.tool
async def echo(text: str) -> str:
    """Says it back."""
    return text


@server.tool
async def steps(port: int, ctx: Context) -> str:
    """Says that it began, and goes on when somebody at a port of this machine says so."""
    await ctx.report_progress(1, total=2, message="begun")
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    word = await reader.readline()
    writer.close()
    await ctx.report_progress(2, total=2, message="going on")
    return word.decode().strip()


@server.tool
async def counts(to: int, ctx: Context) -> int:
    """Counts, aloud."""
    for number in range(1, to + 1):
        await ctx.report_progress(number, total=to)
    return to


@server.tool
async def much(megabytes: int) -> list[dict[str, str]]:
    """Answers with very many records."""
    record = {"name": "x" * 500, "note": '"quoted"\n' * 50}
    return [record] * (megabytes * 1024)


@server.tool
async def never() -> str:
    """Does not answer."""
    await asyncio.Event().wait()
    return "never"


def write(folder: Path, target: str = "tests.aws.works:server") -> Path:
    """A function of that server in this folder."""
    (folder / "function.py").write_text(FUNCTION.format(target=target), "utf-8")
    return folder
