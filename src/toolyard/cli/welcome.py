"""What `serve` prints when it is ready: the address, and what to paste where."""

import json
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .. import __version__
from ..config.bundled import BUNDLED, is_table
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
        *snippets(name, url, _stdio_arguments(target), _key_header(server)),
        *_try_it(server, url),
        "",
        "Ctrl-C stops it.",
    ]
    click.echo("\n".join(lines))
    sys.stdout.flush()


def _summary(server: "Server") -> str:
    counts = {"tool": server.count_tools(), "resource": len(server.resources), "prompt": len(server.prompts)}
    parts = [f"{count} {kind}{'' if count == 1 else 's'}" for kind, count in counts.items() if count]
    label = server.implementation.title or server.name
    return f"{label!r}: {', '.join(parts) or 'nothing yet'}"


def _key_header(server: "Server") -> tuple[str, str] | None:
    """The header without which callers are turned away, and what to put into it."""
    if server.caller_keys is None or not server.caller_keys.required:
        return None
    name = server.caller_keys.headers[0]
    return name, "Bearer …" if name == "authorization" else "…"


def _snippet(name: str, entry: dict[str, object]) -> str:
    return json.dumps({"mcpServers": {name: entry}}, ensure_ascii=False)


def snippets(name: str, url: str, arguments: list[str], header: tuple[str, str] | None = None) -> list[str]:
    """What to paste where; `arguments` are how a client starts the same on stdio, from whatever folder."""
    program = shutil.which("toolyard")
    start = [program] if program else [sys.executable, "-m", "toolyard"]
    entry: dict[str, object] = {"url": url, **({"headers": dict([header])} if header else {})}
    return [
        "Claude Code:",
        f"  claude mcp add --transport http {name} {url}{_with(header)}",
        "Cursor and other clients that take an address:",
        f"  {_snippet(name, entry)}",
        "Claude Desktop and other clients that start the server themselves:",
        f"  {_snippet(name, {'command': start[0], 'args': [*start[1:], *arguments]})}",
    ]


def _with(header: tuple[str, str] | None) -> str:
    return f" --header '{header[0]}: {header[1]}'" if header else ""


def _stdio_arguments(target: str | None) -> list[str]:
    if target in BUNDLED:
        return ["stdio", target]
    if target is None:
        return ["stdio"]
    if is_table(target):
        return ["stdio", str(Path(target).expanduser().resolve())]
    place, attribute = split(target)
    path = Path(place).expanduser()
    return ["stdio", f"{path.resolve() if path.is_file() else place}:{attribute}"]


def _try_it(server: "Server", url: str) -> list[str]:
    example = "call echo text=hello" if "echo" in server.tools else "list"
    return ["In another terminal:", f"  {program()} {example} --url {url}{_with(_key_header(server))}"]


def program() -> str:
    """What another terminal in this folder can call; it may have another PATH than ours."""
    found = Path(sys.argv[0]).absolute()
    if found.name == "toolyard" and found.is_relative_to(Path.cwd()):
        return str(found.relative_to(Path.cwd()))
    return "toolyard"
