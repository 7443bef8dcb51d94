"""`toolyard call`: call one tool and print what it returns."""

import sys
from pathlib import Path

import click

from . import completion
from .arguments import read_arguments
from .client import Where, connected
from .offers import find_tool
from .options import config_option, debug_option, json_option, remote_options, target_option
from .render import Folder, print_error, print_json, print_result
from .terminal import Terminal

TOOL_FAILED = 1


@click.command("call", short_help="Call a tool and print its result.")
@click.argument("tool", shell_complete=completion.tools)
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]...")
@click.option(
    "--args", "whole", metavar="JSON", help="The arguments as one JSON object; - reads it from stdin."
)
@target_option
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
    where = Where(server, config, url, headers, timeout, debug, wanted=tool)
    with Terminal() as user, connected(where, user) as client:
        definition = find_tool(client, tool, where)
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
