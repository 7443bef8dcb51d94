"""Servers inside the gateway's own process, with moods: `module = "tests.faults.inside:NAME"`.

$FAULTS_FOLDER/NAME holds the mood of the server NAME. What cannot happen to one without happening to the
gateway (to die, to refuse a connection, to take the event loop and not give it back) is not here.
"""

import asyncio
import os
from pathlib import Path
from typing import Any

from tests.faults.moods import BIG, LATE_S, Journal, Mood
from toolyard.kit import Server, ToolError

FOLDER_VARIABLE = "FAULTS_FOLDER"
CHANGES = 1000

_servers: dict[str, Server] = {}


def __getattr__(name: str) -> Server:
    if name.startswith("_"):
        raise AttributeError(name)
    if name not in _servers:
        _servers[name] = _server(name)
    return _servers[name]


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
        case "not-rpc":
            return object()  # nothing that can be sent
        case "not-json":
            raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "an exception that is not meant for anybody")
        case "html":
            raise SystemExit("an author who leaves the process")
        case "cut":
            raise asyncio.CancelledError
        case "binary":
            return "\udcff"  # text that is no Unicode
        case "flood":
            _flap(server)
        case "big":
            return "x" * BIG
        case "well":
            pass
        case _:
            raise ToolError(f"not a mood of a server in the process: {mood}")
    return text


def _flap(server: Server) -> None:
    """Another list, told of a thousand times."""
    for name in [name for name in server.tools if name.startswith("flap")]:
        server.remove_tool(name)

    async def flap() -> str:
        return ""

    server.add_tool(flap, name=f"flap_{len(server.tools)}_{id(flap)}")
    for _ in range(CHANGES):
        server.notify_tools_changed()
