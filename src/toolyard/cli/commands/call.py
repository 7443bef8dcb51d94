"""`toolyard call`, `read` and `prompt`: one request to a server, and its result on standard output."""

import re
import sys
from pathlib import Path
from typing import Any, Unpack
from urllib.parse import quote

import click
from msgspec import Struct

from ...wire.errors import INVALID_PARAMS, METHOD_NOT_FOUND, RESOURCE_NOT_FOUND, McpError
from ..client.connection import CliSession, ConnectOptions, connected
from ..client.lists import find_tool, read_named_list, unknown_name_error
from ..json_values import JsonMapping, as_list, as_object
from ..ui.arguments import read_arguments, read_pairs
from ..ui.messages import CommandError, is_terminal
from ..ui.output import (
    MediaFolder,
    decode_base64,
    format_block,
    print_error,
    print_json,
    print_result,
    print_text,
)
from ..ui.terminal import Terminal
from . import completion
from .options import ServerOptions, debug_option, json_option, server_options, target_option

TOOL_FAILED = 1


@click.command("call", short_help="Call a tool and print its result.")
@click.argument("tool", shell_complete=completion.tools)
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]...")
@click.option(
    "--args",
    "whole",
    metavar="JSON",
    help="All arguments as one JSON object; - reads it from standard input.",
)
@target_option
@server_options
@click.option(
    "--save", type=click.Path(path_type=Path, file_okay=False), help="Write images and audio to this folder."
)
@json_option
@debug_option
def call(
    tool: str,
    pairs: tuple[str, ...],
    whole: str | None,
    save: Path | None,
    as_json: bool,
    **options: Unpack[ServerOptions],
) -> None:
    """Call TOOL with arguments such as `text=hello` or `count=3`.

    The tool's schema decides how a value is read: as text, a number, true or false, or JSON for lists and
    objects. Exit status: 0, 1 if the tool reports an error, 2 if the call failed.
    """
    given = _stdin() if whole == "-" else whole
    where = ConnectOptions(**options, wanted=tool)
    with Terminal() as user, connected(where, user) as client:
        definition = find_tool(client, tool, where)
        result = client.call_tool(definition, read_arguments(pairs, given, definition))
    failed = result.get("isError") is True
    if as_json:
        print_json(result)
    elif failed:
        print_error(result)
    else:
        print_result(result, MediaFolder(save, tool) if save is not None else None)
    if failed:
        raise click.exceptions.Exit(TOOL_FAILED)


def _stdin() -> bytes:
    return sys.stdin.buffer.read() if sys.stdin else b""  # None if it was closed before we started


@click.command("read", short_help="Read a resource and print it.")
@click.argument("uri", shell_complete=completion.resources)
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]...")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write to this file.",
)
@click.option("--force", is_flag=True, help="With --output: overwrite the file.")
@target_option
@server_options
@json_option
@debug_option
def read(
    uri: str,
    pairs: tuple[str, ...],
    output: Path | None,
    force: bool,
    as_json: bool,
    **options: Unpack[ServerOptions],
) -> None:
    """Read the resource at URI and print it. Binary content needs a pipe or --output.

    KEY=VALUE fills in a template: toolyard read 'demo://planets/{planet}' planet=mars
    """
    address = _expand_template(uri, read_pairs(pairs))
    if output is not None and output.exists() and not force:
        raise CommandError(f"{str(output)!r} exists", "--force overwrites it")
    where = ConnectOptions(**options, wanted=address)
    with Terminal() as user, connected(where, user) as client:
        answer = _resource(client, address, where)
    if as_json:
        print_json(answer)
        return
    parts = _parts(answer, address)
    if output is not None:
        _write(output, parts)
    else:
        _print(parts, address)


class ResourceContent(Struct, frozen=True):
    """One content of a resource: text or bytes."""

    kind: str
    value: str | bytes

    @property
    def data(self) -> bytes:
        return self.value.encode() if isinstance(self.value, str) else self.value

    @property
    def label(self) -> str:
        return f"{self.kind}, {len(self.data)} bytes"


def _resource(client: CliSession, uri: str, where: ConnectOptions) -> dict[str, Any]:
    try:
        return client.request("resources/read", {"uri": uri})
    except McpError as error:
        if error.code not in (RESOURCE_NOT_FOUND, METHOD_NOT_FOUND, INVALID_PARAMS):
            raise
        known = [item["uri"] for item in read_named_list(client, "resources")]
        known += [item["uriTemplate"] for item in read_named_list(client, "resourceTemplates")]
        if uri in known:  # the error is about something else
            raise
        raise unknown_name_error("resource", uri, known, client, where) from None


def _parts(answer: JsonMapping, uri: str) -> list[ResourceContent]:
    parts: list[ResourceContent] = []
    for content in map(as_object, as_list(answer.get("contents"))):
        kind = str(content.get("mimeType") or ("text" if "text" in content else "bytes"))
        text = content.get("text")
        value = text if isinstance(text, str) else decode_base64(content.get("blob"))
        if value is None:
            raise CommandError(
                f"the server's answer for {uri!r} has neither text nor base64", "--json shows it"
            )
        parts.append(ResourceContent(kind, value))
    if not parts:
        raise CommandError(f"the server's answer for {uri!r} has no content")
    return parts


def _print(parts: list[ResourceContent], uri: str) -> None:
    for part in parts:
        if isinstance(part.value, str):
            print_text(part.value)
        elif is_terminal(sys.stdout):
            raise CommandError(f"{uri!r} is binary: {part.label}", "--output FILE writes it to a file")
        else:
            click.echo(part.value, nl=False)


def _write(file: Path, parts: list[ResourceContent]) -> None:
    data = b"".join(part.data for part in parts)
    try:
        file.write_bytes(data)
    except OSError as error:
        raise CommandError(f"cannot write {str(file)!r}: {error.strerror or error}") from None
    kinds = ", ".join(dict.fromkeys(part.kind for part in parts))
    click.echo(f"wrote {file}: {kinds}, {len(data)} bytes", err=True)


_EXPRESSION = re.compile(r"\{([+#./;?&]?)([^{}]+)\}")
_RESERVED = ":/?#[]@!$&'()*+,;="
# By the operator of RFC 6570: prefix, separator, whether names are written, and the characters that are not
# encoded.
_FORMS = {
    "": ("", ",", False, ""),
    "+": ("", ",", False, _RESERVED),
    "#": ("#", ",", False, _RESERVED),
    ".": (".", ".", False, ""),
    "/": ("/", "/", False, ""),
    ";": (";", ";", True, ""),
    "?": ("?", "&", True, ""),
    "&": ("&", "&", True, ""),
}
_OPTIONAL = ("?", "&", ";", "#")


def _expand_template(uri: str, values: dict[str, str]) -> str:
    """Fill in a template as RFC 6570 says; other URIs stay as they are."""
    expressions: list[tuple[str, str]] = _EXPRESSION.findall(uri)
    names = [name for _, body in expressions for name in _variable_names(body)]
    for key in values:
        if key not in names:
            advice = f"it has {', '.join(names)}" if names else "it is not a template"
            raise CommandError(f"{uri!r} has no variable {key!r}", advice)
    needed = [name for sign, body in expressions if sign not in _OPTIONAL for name in _variable_names(body)]
    if missing := [name for name in needed if name not in values]:
        given = " ".join(f"{name}=…" for name in names)
        raise CommandError(
            f"{uri!r} needs {' and '.join(map(repr, missing))}", f"toolyard read '{uri}' {given}"
        )
    return _EXPRESSION.sub(lambda found: _expand_expression(found[1], _variable_names(found[2]), values), uri)


def _variable_names(body: str) -> list[str]:
    return [name.rstrip("*").partition(":")[0] for name in body.split(",")]


def _expand_expression(sign: str, names: list[str], values: dict[str, str]) -> str:
    first, between, named, safe = _FORMS[sign]
    found = [(name, quote(values[name], safe=safe)) for name in names if name in values]
    texts = [f"{name}={value}" if named else value for name, value in found]
    return first + between.join(texts) if texts else ""


@click.command("prompt", short_help="Fill in a prompt and print it.")
@click.argument("name", shell_complete=completion.prompts)
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]...")
@target_option
@server_options
@json_option
@debug_option
def prompt(
    name: str,
    pairs: tuple[str, ...],
    as_json: bool,
    **options: Unpack[ServerOptions],
) -> None:
    """Fill in the prompt NAME and print its messages.

    A single user message is printed as it is. Several are printed each after a line with its role.
    """
    given = read_pairs(pairs)
    where = ConnectOptions(**options, wanted=name)
    with Terminal() as user, connected(where, user) as client:
        prompts = {item["name"]: item for item in read_named_list(client, "prompts")}
        if name not in prompts:
            raise unknown_name_error("prompt", name, prompts, client, where)
        _check_arguments(prompts[name], given)
        answer = client.request("prompts/get", {"name": name, "arguments": given})
    if as_json:
        print_json(answer)
    else:
        _print_messages([as_object(item) for item in as_list(answer.get("messages"))])


def _check_arguments(prompt: JsonMapping, given: dict[str, str]) -> None:
    arguments = [as_object(item) for item in as_list(prompt.get("arguments"))]
    names = [str(item.get("name")) for item in arguments]
    usage = ", ".join(f"{item.get('name')}{'' if item.get('required') else '?'}" for item in arguments)
    advice = f"{prompt['name']} takes {usage or 'no arguments'}"
    for key in given:
        if key not in names:
            from difflib import get_close_matches

            near = get_close_matches(key, names, 1)
            hint = f"did you mean {near[0]!r}?" if near else advice
            raise CommandError(f"prompt {prompt['name']!r} takes no argument {key!r}", hint)
    needed = [str(item.get("name")) for item in arguments if item.get("required") is True]
    if missing := [name for name in needed if name not in given]:
        raise CommandError(f"prompt {prompt['name']!r} needs {' and '.join(map(repr, missing))}", advice)


def _print_messages(messages: list[JsonMapping]) -> None:
    alone = len(messages) == 1 and messages[0].get("role") == "user"
    for number, message in enumerate(messages):
        if not alone:
            print_text(f"{chr(10) if number else ''}{message.get('role')}:")
        content = message.get("content")
        for block in as_list(content) or [content]:
            print_text(format_block(as_object(block), None))
