"""What `serve` prints when it is ready: the address, and what to paste where."""

import json
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .. import __version__
from .target import split

if TYPE_CHECKING:
    from ..kit import Server


def welcome(server: "Server", url: str, target: str | None) -> None:
    """Once, to standard output, and at once even into a pipe."""
    name = re.sub(r"[^A-Za-z0-9_-]+", "-", server.name).strip("-") or "toolyard"
    lines = [
        f"Toolyard {__version__} serves {_summary(server)}",
        "",
        f"  {click.style(url, bold=True)}",
        "",
        "Claude Code:",
        f"  claude mcp add --transport http {name} {url}",
        "Cursor and other clients that take an address:",
        f"  {_snippet(name, {'url': url})}",
        "Claude Desktop and other clients that start the server themselves:",
        f"  {_snippet(name, _command(target))}",
        *_try_it(server, url),
        "",
        "Ctrl-C stops it.",
    ]
    click.echo("\n".join(lines))
    sys.stdout.flush()


def _summary(server: "Server") -> str:
    counts = {"tool": len(server.tools), "resource": len(server.resources), "prompt": len(server.prompts)}
    parts = [f"{count} {kind}{'' if count == 1 else 's'}" for kind, count in counts.items() if count]
    label = server.implementation.title or server.name
    return f"{label!r}: {', '.join(parts) or 'nothing yet'}"


def _snippet(name: str, entry: dict[str, object]) -> str:
    return json.dumps({"mcpServers": {name: entry}})


def _command(target: str | None) -> dict[str, object]:
    """How a client starts the same server on stdio, from whatever folder it is in."""
    program = shutil.which("toolyard")
    start = [program] if program else [sys.executable, "-m", "toolyard"]
    arguments = [*start[1:], "stdio"]
    if target is not None:
        place, attribute = split(target)
        path = Path(place).expanduser()
        arguments.append(f"{path.resolve() if path.is_file() else place}:{attribute}")
    return {"command": start[0], "args": arguments}


def _try_it(server: "Server", url: str) -> list[str]:
    example = "call echo text=hello" if "echo" in server.tools else "list"
    return ["In another terminal:", f"  {_program()} {example} --url {url}"]


def _program() -> str:
    """What another terminal in this folder can call; it may have another PATH than ours."""
    found = Path(sys.argv[0]).absolute()
    if found.name == "toolyard" and found.is_relative_to(Path.cwd()):
        return str(found.relative_to(Path.cwd()))
    return "toolyard"
