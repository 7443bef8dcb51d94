"""`toolyard call`: call one tool and print what it returns."""

import sys
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import click

from .arguments import read_arguments
from .client import Client, Where, connected
from .failure import Failure
from .offers import tools_of
from .options import config_option, debug_option, json_option, remote_options
from .render import Folder, print_error, print_json, print_result
from .shapes import as_list, as_object
from .terminal import Terminal

TOOL_FAILED = 1


@click.command("call", short_help="Call a tool and print its result.")
@click.argument("tool")
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]...")
@click.option(
    "--args", "whole", metavar="JSON", help="The arguments as one JSON object; - reads it from stdin."
)
@click.option("--target", "server", metavar="TARGET", help="The server, as for `serve`; without it the demo.")
@config_option
@remote_options
@click.option(
    "--save", type=click.Path(path_type=Path, file_okay=False), help="Write images and audio to this folder."
)
@json_option
@debug_option
def command(
    tool: str,
    pairs: tuple[str, ...],
    whole: str | None,
    server: str | None,
    config: Path | None,
    url: str | None,
    headers: tuple[str, ...],
    timeout: float,
    save: Path | None,
    as_json: bool,
    debug: bool,
) -> None:
    """Call TOOL with arguments such as `text=hello` or `count=3`.

    Values are read as the tool's schema says: numbers, true and false, JSON for lists and objects.
    Exit status: 0, 1 when the tool says it failed, 2 when it could not be called.
    """
    given = _stdin() if whole == "-" else whole
    where = Where(server, config, url, headers, timeout, debug)
    with Terminal() as user, connected(where, user) as client:
        definition = _find(client, tool, where)
        result = client.call_tool(definition, read_arguments(pairs, given, definition))
    failed = result.get("isError") is True
    if as_json:
        print_json(result)
    elif failed:
        print_error(result)
    else:
        print_result(result, Folder(save, tool) if save is not None else None)
    if failed:
        raise click.exceptions.Exit(TOOL_FAILED)


def _stdin() -> bytes:
    return sys.stdin.buffer.read() if sys.stdin else b""  # None when it was closed before we started


def _described(client: Client, describe: dict[str, Any], name: str) -> dict[str, Any] | None:
    """A gateway that shows few of its tools tells of the others when asked."""
    answer = as_object(client.call_tool(describe, {"tools": [name]}).get("structuredContent"))
    for tool in map(as_object, as_list(answer.get("tools"))):
        if tool.get("tool") == name:
            return {"name": name, "inputSchema": as_object(tool.get("input_schema"))}
    return None


def _find(client: Client, name: str, where: Where) -> dict[str, Any]:
    tools = tools_of(client)
    if name in tools:
        return tools[name]
    if name in client.about.unlisted:
        return dict(client.about.unlisted[name])
    if "describe_tools" in tools and (found := _described(client, tools["describe_tools"], name)):
        return found
    near = get_close_matches(name, tools, 3, 0.5)
    hints = [f"did you mean {' or '.join(map(repr, near))}?"] if near else []
    place = f" --url {where.url}" if where.url else f" {where.target}" if where.target else ""
    place = f" --config {where.config}" if where.config is not None else place
    hints += [f"server {server!r} is missing: {why}" for server, why in client.about.missing.items()]
    raise Failure(f"no tool {name!r}", *hints, f"`toolyard list{place}` shows them all")
