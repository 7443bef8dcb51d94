"""`toolyard list`: the tools, resources and prompts of one server, or of every server of a configuration."""

import math
import sys
import textwrap
from collections.abc import Iterator
from typing import Unpack

import click

from ..client.connection import (
    DISABLED,
    DOWN,
    READY,
    STARTING,
    UNCONNECTED,
    UNUSABLE,
    ConnectOptions,
    ServerDescription,
    ServerStatus,
    connected,
)
from ..client.lists import ServerLists, read_all_lists
from ..json_values import JsonMapping, as_list, as_object
from ..ui.arguments import signature
from ..ui.messages import hint, is_terminal, one_line, warn
from ..ui.output import print_json
from ..ui.tables import MIN_TEXT, MIN_WIDTH, SECTIONS, TextLayout, counted, first_sentence
from ..ui.terminal import Terminal
from .options import ServerOptions, debug_option, json_option, server_options, target_argument

INCOMPLETE = 3
"""The exit status if servers are missing from the list."""
_HINTS = {"readOnlyHint": "read-only", "destructiveHint": "destructive", "openWorldHint": "open world"}
_COLOURS = {
    READY: "green",
    STARTING: "yellow",
    UNCONNECTED: "yellow",
    DOWN: "red",
    UNUSABLE: "red",
    DISABLED: "bright_black",
}


@click.command("list", short_help="List tools, resources and prompts.")
@target_argument
@click.option("--long", "-l", is_flag=True, help="Show arguments and whole descriptions.")
@click.option(
    "--wait",
    is_flag=False,
    flag_value=math.inf,
    type=click.FloatRange(min=0),
    metavar="[SECONDS]",
    help="Wait until every server has started or failed, or at most SECONDS. Default: list_wait of the file.",
)
@server_options
@json_option
@debug_option
def command(long: bool, wait: float | None, as_json: bool, **options: Unpack[ServerOptions]) -> None:
    """List the tools, resources and prompts of TARGET, of the server at --url, or of a configuration.

    TARGET is package.module:attribute or path/to/file.py:attribute. Without one, the command lists the
    servers of --config or of the toolyard.toml that is found, grouped by server. With --long, a question
    mark marks an optional argument. Exit status: 0, or 3 if a server of the configuration is still
    starting, down, not connected or not usable.
    """
    with Terminal() as user, connected(ConnectOptions(**options, wait=wait), user) as client:
        lists = read_all_lists(client)
        about = client.about
    if as_json:
        print_json(_as_json(about, lists))
    else:
        _print_lists(about, lists, long)
        _warn(about)
    if any(one.is_missing for one in about.servers):
        raise click.exceptions.Exit(INCOMPLETE)


def _print_lists(about: ServerDescription, lists: ServerLists, long: bool) -> None:
    page = TextLayout()
    lines = [click.style(_heading(about), bold=True)]
    if about.servers:
        for server in about.servers:
            lines += ["", *_group(server, lists, page, long)]
    else:
        for kind, title in SECTIONS.items():
            if lists[kind]:
                lines += ["", click.style(title, bold=True), *_rows(kind, lists[kind], page, long)]
    click.echo("\n".join(lines))


def _heading(about: ServerDescription) -> str:
    name = str(about.info.get("title") or about.info.get("name") or "unnamed server")
    return one_line(f"{name} {about.info.get('version', '')}")


def _group(server: ServerStatus, lists: ServerLists, page: TextLayout, long: bool) -> Iterator[str]:
    """One server of a configuration: its status and its lists."""
    kinds = {kind: server.holds.get(kind, frozenset[str]()) for kind in SECTIONS}
    held = {kind: [item for item in lists[kind] if _name(item) in names] for kind, names in kinds.items()}
    counts = [counted(len(items), SECTIONS[kind].lower()) for kind, items in held.items() if items]
    if server.state == READY:
        lacking = [f"not connected: {one_line(server.detail)}"] if server.detail else []
        state = ", ".join([READY, *(counts or ["nothing"]), *lacking])
    else:
        state = ", ".join([one_line(server.shown), *(f"{count} as last seen" for count in counts[:1])])
    name, colour = one_line(server.name), _COLOURS[server.state]
    room = max(MIN_WIDTH, page.width - page.measure(name) - 2)
    # The reason of a failure is shown whole; the last output of a starting server is cut.
    whole = page.folded(state, room) if server.state in (DOWN, UNCONNECTED, UNUSABLE) else [state]
    first, *more = whole if long or len(whole) > 1 else [page.cut(state, room)]
    yield f"{click.style(name, bold=True)}: {click.style(first, fg=colour)}"
    yield from (f"  {click.style(line, fg=colour)}" for line in more)
    for kind, title in SECTIONS.items():
        if held[kind]:
            inside = [] if kind == "tools" else [f"  {click.style(title, dim=True)}"]
            rows = _rows(kind, held[kind], page, long, "    " if inside else "  ")
            yield from (*inside, *rows)


def _name(item: JsonMapping) -> str:
    return str(item.get("name") if "uri" not in item and "uriTemplate" not in item else _address(item))


def _address(item: JsonMapping) -> str:
    return str(item.get("uriTemplate") or item.get("uri"))


def _rows(
    kind: str, items: list[dict[str, object]], page: TextLayout, long: bool, indent: str = "  "
) -> Iterator[str]:
    if long:
        for item in items:
            yield from _whole(kind, item, page, indent)
        return
    names = [one_line(_name(item)) for item in items]
    column = min(max(map(page.measure, names)), page.width // 2)
    for name, item in zip(names, items, strict=True):
        about = first_sentence(str(item.get("description") or item.get("title") or ""))
        start = page.padded(name, column)
        room = page.width - len(indent) - page.measure(start) - 2
        text = page.cut(about, room) if room >= MIN_TEXT else ""
        yield f"{indent}{click.style(start if text else name, fg='cyan')}{f'  {text}' if text else ''}"


def _whole(kind: str, item: JsonMapping, page: TextLayout, indent: str) -> Iterator[str]:
    """The name with its arguments, then the whole description."""
    taken = {"tools": signature, "prompts": _prompt_signature}.get(kind)
    name = one_line(_name(item))
    rest = one_line(f"({taken(item)})") if taken else one_line(f"  {item.get('mimeType') or ''}").rstrip()
    room, further = page.width - len(indent), len(indent) + 4
    first, *more = textwrap.wrap(f"{name}{rest}", room, subsequent_indent=" " * 6) or [name]
    yield f"{indent}{click.style(first[: len(name)], fg='cyan')}{click.style(first[len(name) :], dim=True)}"
    yield from (f"{indent}{click.style(line, dim=True)}" for line in more)
    about = str(item.get("description") or item.get("title") or "")
    yield from page.wrapped(about, further) if about.strip() else []
    if kind == "tools" and (words := _annotations(item)):
        yield f"{' ' * further}{click.style(words, dim=True)}"


def _annotations(tool: JsonMapping) -> str:
    """`read-only, open world`: the tool's annotations that are set."""
    annotations = as_object(tool.get("annotations"))
    return ", ".join(word for key, word in _HINTS.items() if annotations.get(key) is True)


def _prompt_signature(prompt: JsonMapping) -> str:
    arguments = [as_object(item) for item in as_list(prompt.get("arguments"))]
    return ", ".join(f"{item.get('name')}{'' if item.get('required') else '?'}" for item in arguments)


def _as_json(about: ServerDescription, lists: ServerLists) -> dict[str, object]:
    missing = {"missing": about.missing} if about.missing else {}
    servers = {
        one.name: {"state": one.state}
        | ({"reason": one.detail} if one.detail else {})
        | ({"tools": len(one.holds["tools"])} if one.holds else {})
        for one in about.servers
    }
    more = {"servers": servers} if servers else {}
    return {"server": about.info, "instructions": about.instructions, **lists, **more, **missing}


def _warn(about: ServerDescription) -> None:
    """Warn of missing servers, except those that standard output has for the same reader."""
    shown = {one.name for one in about.servers if one.is_missing} if _read_together() else set[str]()
    for name, reason in about.missing.items():
        if name not in shown:
            warn(f"{name}: {reason}")
    if any(one.state == STARTING for one in about.servers):
        hint("--wait waits until every server has started or failed")


def _read_together() -> bool:
    """Not if the output goes elsewhere while a person reads the errors."""
    return is_terminal(sys.stdout) or not is_terminal(sys.stderr)
