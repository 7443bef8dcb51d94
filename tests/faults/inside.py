"""Servers inside the gateway's own process, with moods: `module = "tests.faults.inside:NAME"`.

$FAULTS_FOLDER/NAME holds the mood of the server NAME. A server that is dead cannot be imported, which is the
one way to be so; one that restarts ends all it had open, or has an author who ends the process. What cannot
happen to one without happening to the gateway (a crash of the interpreter, memory without end, taking the
event loop and not giving it back) is not here: whoever mounts a module trusts it with that.
"""

import asyncio
import os
from functools import cache
from pathlib import Path
from typing import Any

from tests.faults.moods import BIG, LATE_S, Journal, Mood
from toolyard.kit import Server, ToolError

FOLDER_VARIABLE = "FAULTS_FOLDER"
CHANGES = 200

_servers: dict[str, Server] = {}


def __getattr__(name: str) -> Server:
    if name.startswith("_"):
        raise AttributeError(name)
    if name not in _servers:
        _servers[name] = _server(name)
    return _servers[name]


def importable(name: str) -> Server:
    """For a module that cannot be imported while the server is dead."""
    if Mood(Path(os.environ[FOLDER_VARIABLE]) / name).now() == "dead":
        raise RuntimeError("what it needs is not there")
    if name == "big":
        _big()
    return __getattr__(name)


@cache
def _big() -> str:
    """Made once, before anybody is called: what it takes the author to make it is not the gateway's doing."""
    return "x" * BIG


def _server(name: str) -> Server:
    server = Server(name, version="1")
    folder = Path(os.environ[FOLDER_VARIABLE])
    mood, journal = Mood(folder / name), Journal(folder / f"{name}.journal")

    @server.tool(read_only=True, idempotent=True)
    async def echo(text: str) -> Any:
        """Says it back."""
        journal.note(f"call echo {text}")
        return await _misbehave(server, mood.now(), text)

    @server.tool
    async def write(text: str) -> Any:
        """Must not be done twice."""
        journal.note(f"call write {text}")
        return await _misbehave(server, mood.now(), text)

    return server


async def _misbehave(server: Server, mood: str, text: str) -> Any:
    match mood:
        case "hang-call":
            await asyncio.Event().wait()
        case "slow":
            await asyncio.sleep(LATE_S)
        case "raises":
            raise ConnectionError("what it needs is not there any more")
        case "no-value":
            return object()  # nothing that can be sent
        case "misfit":
            raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "an exception that is not meant for anybody")
        case "no-text":
            return "\udcff"  # text that is no Unicode
        case "cancels":
            raise asyncio.CancelledError
        case "exits":
            raise SystemExit("an author who leaves the process")
        case "closes":
            await server.close()
        case "flood":
            _flap(server)
        case "big":
            return _big()
        case "well":
            pass
        case _:
            raise ToolError(f"not a mood of a server in the process: {mood}")
    return text


def _flap(server: Server) -> None:
    """Another list, told of again and again."""
    for name in [name for name in server.tools if name.startswith("flap")]:
        server.remove_tool(name)

    async def flap() -> str:
        return ""

    server.add_tool(flap, name=f"flap_{len(server.tools)}_{id(flap)}")
    for _ in range(CHANGES):
        server.notify_tools_changed()
