"""What a server offers, as tables: drawn on a terminal, aligned text in a pipe."""

import sys

import click

from .arguments import signature
from .client import About
from .offers import Offers
from .printable import is_terminal, one_line
from .shapes import Object, as_list, as_object

Row = tuple[str, str, str]

SECTIONS = {
    "tools": "Tools",
    "resources": "Resources",
    "resourceTemplates": "Resource templates",
    "prompts": "Prompts",
}
_HINTS = {"destructiveHint": "destructive", "openWorldHint": "open world"}


def print_offers(about: About, offers: Offers) -> None:
    heading = _heading(about)
    sections = [(title, [_row(name, item) for item in offers[name]]) for name, title in SECTIONS.items()]
    filled = [(title, rows) for title, rows in sections if rows]
    if is_terminal(sys.stdout):
        _draw(heading, filled)
    else:
        _align(heading, filled)


def _heading(about: About) -> str:
    name = str(about.info.get("title") or about.info.get("name") or "a server without a name")
    return one_line(f"{name} {about.info.get('version', '')}")


def _row(section: str, item: Object) -> Row:
    about = one_line(str(item.get("description") or item.get("title") or ""))
    if section == "tools":
        return one_line(str(item["name"])), one_line(signature(item)), about + _hints(item)
    if section == "prompts":
        return one_line(str(item["name"])), one_line(_prompt_signature(item)), about
    address = str(item.get("uriTemplate") or item.get("uri"))
    return one_line(address), one_line(str(item.get("mimeType") or "")), about


def _hints(tool: Object) -> str:
    annotations = as_object(tool.get("annotations"))
    words = [word for key, word in _HINTS.items() if annotations.get(key) is True]
    return f" ({', '.join(words)})" if words else ""


def _prompt_signature(prompt: Object) -> str:
    arguments = [as_object(item) for item in as_list(prompt.get("arguments"))]
    return ", ".join(f"{item.get('name')}{'' if item.get('required') else '?'}" for item in arguments)


def _align(heading: str, sections: list[tuple[str, list[Row]]]) -> None:
    lines = [heading]
    for title, rows in sections:
        lines += ["", title]
        first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
        lines += [f"  {a:<{first}}  {b:<{second}}  {c}".rstrip() for a, b, c in rows]
    click.echo("\n".join(lines))


def _draw(heading: str, sections: list[tuple[str, list[Row]]]) -> None:
    from rich.console import Console  # 20 ms of CPU, and only a terminal needs it
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    console.print(Text(heading, "bold"))
    for title, rows in sections:
        table = Table(box=None, show_header=False, padding=(0, 0, 0, 2))
        table.add_column(style="cyan", overflow="fold")
        table.add_column(style="dim")
        table.add_column()
        for row in rows:
            table.add_row(*(Text(cell) for cell in row))
        console.print()
        console.print(Text(title, "bold"))
        console.print(table)
