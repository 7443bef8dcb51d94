"""A server's lists, read to the last page, and one item of them by its name."""

import shlex
from collections.abc import Iterable
from typing import Any

from ..json_values import as_list, as_object
from ..ui.messages import CommandError
from .connection import CliSession, ConnectOptions

# The list's name in its result, the method that gives it, the capability that promises it, and what
# names one of its items.
LISTS = (
    ("tools", "tools/list", "tools", "name"),
    ("resources", "resources/list", "resources", "uri"),
    ("resourceTemplates", "resources/templates/list", "resources", "uriTemplate"),
    ("prompts", "prompts/list", "prompts", "name"),
)

ServerLists = dict[str, list[dict[str, Any]]]


def read_all_lists(client: CliSession) -> ServerLists:
    promised = client.about.capabilities
    return {
        name: _items(client, method, key) if capability in promised else []
        for name, method, capability, key in LISTS
    }


def read_named_list(client: CliSession, name: str) -> list[dict[str, Any]]:
    """One of the lists, by its name; empty when the server has none."""
    method, key = next((method, key) for kind, method, _, key in LISTS if kind == name)
    return _items(client, method, key)


def find_tool(client: CliSession, name: str, where: ConnectOptions) -> dict[str, Any]:
    """The definition of a tool, listed or not; Failure with the nearest names when there is none."""
    tools = {tool["name"]: tool for tool in read_named_list(client, "tools")}
    if name in tools:
        return tools[name]
    if name in client.about.unlisted:
        return dict(client.about.unlisted[name])
    caller = tools.get("call_tool", {})
    if set(as_object(as_object(caller.get("inputSchema")).get("properties"))) == {"tool", "arguments"}:
        return _describe_tool(client, caller, name, where)
    raise unknown_name_error("tool", name, tools, client, where)


def _describe_tool(
    client: CliSession, caller: dict[str, Any], name: str, where: ConnectOptions
) -> dict[str, Any]:
    """A gateway that shows few of its tools tells of the others when asked, and why one is not there."""
    asked = {"tool": "describe_tools", "arguments": {"tools": [name]}}
    answer = as_object(client.call_tool(caller, asked).get("structuredContent"))
    words = {"title": "title", "description": "description", "annotations": "annotations"}
    words |= {"input_schema": "inputSchema", "output_schema": "outputSchema"}
    for tool in map(as_object, as_list(answer.get("tools"))):
        if tool.get("tool") == name:
            found = {ours: tool[theirs] for theirs, ours in words.items() if tool.get(theirs) is not None}
            return {"name": name, "inputSchema": {}, **found}
    reason = as_object(answer.get("unknown")).get(name[:80])
    hint = f"`toolyard list{location_flags(where)}` shows what it lists"
    raise CommandError(f"no tool {name!r}", *([reason] if isinstance(reason, str) else []), hint)


def unknown_name_error(
    what: str, name: str, known: Iterable[str], client: CliSession, where: ConnectOptions
) -> CommandError:
    """There is nothing of that name: what is near, who is missing, and where all of it is."""
    from difflib import get_close_matches

    near = get_close_matches(name, list(known), 3, 0.5)
    hints = [f"did you mean {' or '.join(map(repr, near))}?"] if near else []
    hints += [f"server {server!r} is missing: {why}" for server, why in client.about.missing.items()]
    return CommandError(
        f"no {what} {name!r}", *hints, f"`toolyard list{location_flags(where)}` shows them all"
    )


def location_flags(where: ConnectOptions, target: str = "") -> str:
    """The options by which another command reaches the same server."""
    if where.url:
        return f" --url {shlex.quote(where.url)}"
    if where.config is not None:
        return f" --config {shlex.quote(str(where.config))}"
    return f" {target}{' ' if target else ''}{shlex.quote(where.target)}" if where.target else ""


def _items(client: CliSession, method: str, key: str) -> list[dict[str, Any]]:
    return [item for item in client.list_all(method) if isinstance(item.get(key), str)]
