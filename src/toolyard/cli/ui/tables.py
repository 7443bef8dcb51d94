"""A server's lists as text: one line for each item, or everything that is known of it.

The layout is as wide as the terminal; in a pipe it is 120 characters, so that output is the same everywhere.
"""

import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator

import click

from ..client.connection import DISABLED, DOWN, READY, STARTING, UNUSABLE, ServerDescription, ServerStatus
from ..client.lists import ServerLists
from ..json_values import JsonMapping, as_list, as_object
from .arguments import signature
from .messages import is_terminal, one_line, printable

PIPE_WIDTH = 120
NARROWEST = 20
LEAST_TEXT = 10
"""Fewer characters of a description say nothing."""

SECTIONS = {
    "tools": "Tools",
    "resources": "Resources",
    "resourceTemplates": "Resource templates",
    "prompts": "Prompts",
}
_HINTS = {"readOnlyHint": "read-only", "destructiveHint": "destructive", "openWorldHint": "open world"}
_COLOURS = {READY: "green", STARTING: "yellow", DOWN: "red", UNUSABLE: "red", DISABLED: "bright_black"}
# A point that ends a sentence: not the one of an abbreviation, nor one within a sentence.
_ABBREVIATED = r"(?<!\be\.g)(?<!\bi\.e)(?<!\betc)(?<!\bcf)(?<!\bvs)"
_SENTENCE_END = re.compile(rf"{_ABBREVIATED}[.!?](?=\s+[^a-z\s])|[\u3002\uff01\uff1f]")


class TextLayout:
    """How wide the output may be, and how wide a text is on it."""

    def __init__(self) -> None:
        self._cells: Callable[[str], int] = len
        self.width = PIPE_WIDTH
        if is_terminal(sys.stdout):
            from rich.cells import cell_len  # 20 ms of CPU, and only a terminal needs it

            self._cells = cell_len
            self.width = max(NARROWEST, shutil.get_terminal_size().columns)

    def padded(self, text: str, width: int) -> str:
        return text + " " * (width - self._cells(text))

    def measure(self, text: str) -> int:
        return self._cells(text)

    def cut(self, text: str, room: int) -> str:
        """As much of it as there is room for."""
        if self._cells(text) <= room:
            return text
        kept = text[: max(0, room - 1)]
        while kept and self._cells(kept) > room - 1:
            kept = kept[:-1]
        return f"{kept.rstrip()}…"

    def folded(self, text: str, room: int) -> list[str]:
        """A cell in as many lines as it takes; blanks at its beginning stay."""
        indent = text[: len(text) - len(text.lstrip())]
        return self._parts(text, room, indent[: room // 2]) if text else [""]

    def wrapped(self, text: str, indent: int) -> list[str]:
        """Whole, in lines that begin `indent` further in; its own lines stay."""
        room = max(NARROWEST, self.width - indent)
        given = printable(text).strip().split("\n")
        lines = [part for line in given for part in self._parts(line, room, _indent(line))]
        return [f"{' ' * indent}{line}".rstrip() for line in lines]

    def _parts(self, line: str, room: int, indent: str) -> list[str]:
        parts = textwrap.wrap(line.rstrip(), room, subsequent_indent=indent) or [""]
        if all(self._cells(part) <= room for part in parts):
            return parts
        # Letters of double width: what textwrap takes for a line may be two.
        return textwrap.wrap(line.rstrip(), max(1, room // 2)) or [""]


def _indent(line: str) -> str:
    return line[: min(len(line) - len(line.lstrip()), NARROWEST // 2)]


def print_lists(about: ServerDescription, offers: ServerLists, long: bool) -> None:
    page = TextLayout()
    lines = [click.style(_heading(about), bold=True)]
    if about.servers:
        for server in about.servers:
            lines += ["", *_group(server, offers, page, long)]
    else:
        for kind, title in SECTIONS.items():
            if offers[kind]:
                lines += ["", click.style(title, bold=True), *_rows(kind, offers[kind], page, long)]
    click.echo("\n".join(lines))


def _heading(about: ServerDescription) -> str:
    name = str(about.info.get("title") or about.info.get("name") or "a server without a name")
    return one_line(f"{name} {about.info.get('version', '')}")


def _group(server: ServerStatus, offers: ServerLists, page: TextLayout, long: bool) -> Iterator[str]:
    """One server of a configuration: how it stands, and what it has."""
    kinds = {kind: server.holds.get(kind, frozenset[str]()) for kind in SECTIONS}
    held = {kind: [item for item in offers[kind] if _name(item) in names] for kind, names in kinds.items()}
    counts = [counted(len(items), SECTIONS[kind].lower()) for kind, items in held.items() if items]
    if server.state == READY:
        state = ", ".join([READY, *(counts or ["nothing"])])
    else:
        state = ", ".join([one_line(server.shown), *(f"{count} as last seen" for count in counts[:1])])
    name, colour = one_line(server.name), _COLOURS[server.state]
    room = max(NARROWEST, page.width - page.measure(name) - 2)
    # A reason is for reading, whole; what a server that starts wrote last is not.
    whole = page.folded(state, room) if server.state in (DOWN, UNUSABLE) else [state]
    first, *more = whole if long or len(whole) > 1 else [page.cut(state, room)]
    yield f"{click.style(name, bold=True)}: {click.style(first, fg=colour)}"
    yield from (f"  {click.style(line, fg=colour)}" for line in more)
    for kind, title in SECTIONS.items():
        if held[kind]:
            inside = [] if kind == "tools" else [f"  {click.style(title, dim=True)}"]
            rows = _rows(kind, held[kind], page, long, "    " if inside else "  ")
            yield from (*inside, *rows)


def counted(number: int, things: str) -> str:
    """`1 tool`, `2 tools`."""
    return f"{number} {things.removesuffix('s') if number == 1 else things}"


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
        text = page.cut(about, room) if room >= LEAST_TEXT else ""
        yield f"{indent}{click.style(start if text else name, fg='cyan')}{f'  {text}' if text else ''}"


def first_sentence(description: str) -> str:
    """Of the first paragraph, on one line."""
    text = one_line(description)
    end = _SENTENCE_END.search(text)
    return text[: end.end()] if end else text


def _whole(kind: str, item: JsonMapping, page: TextLayout, indent: str) -> Iterator[str]:
    """The name with what it takes, then the whole description."""
    taken = {"tools": signature, "prompts": _prompt_signature}.get(kind)
    name = one_line(_name(item))
    rest = one_line(f"({taken(item)})") if taken else one_line(f"  {item.get('mimeType') or ''}").rstrip()
    room, further = page.width - len(indent), len(indent) + 4
    first, *more = textwrap.wrap(f"{name}{rest}", room, subsequent_indent=" " * 6) or [name]
    yield f"{indent}{click.style(first[: len(name)], fg='cyan')}{click.style(first[len(name) :], dim=True)}"
    yield from (f"{indent}{click.style(line, dim=True)}" for line in more)
    about = str(item.get("description") or item.get("title") or "")
    yield from page.wrapped(about, further) if about.strip() else []
    if kind == "tools" and (words := annotation_words(item)):
        yield f"{' ' * further}{click.style(words, dim=True)}"


def annotation_words(tool: JsonMapping) -> str:
    """`read-only, open world`: what a tool says of itself."""
    annotations = as_object(tool.get("annotations"))
    return ", ".join(word for key, word in _HINTS.items() if annotations.get(key) is True)


def _prompt_signature(prompt: JsonMapping) -> str:
    arguments = [as_object(item) for item in as_list(prompt.get("arguments"))]
    return ", ".join(f"{item.get('name')}{'' if item.get('required') else '?'}" for item in arguments)
