"""Draws the diagram of the README: `python scripts/diagram.py` writes docs/images/overview.svg.

Clients on the left, the gateway with what it does to a call in the middle, servers on the right. The picture
has a background of its own, light or dark as its reader's system is, so that it can be read on any page, and
uses the fonts of the reader's machine.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).resolve().parent.parent
PICTURE = ROOT / "docs" / "images" / "overview.svg"

WIDTH, HEIGHT = 920, 452
TOP = 64
LINE, PADDING = 17, 12
NAME_LETTER, LETTER = 8.2, 6.5
"""Pixels that a letter of a name and of a line takes on average, in the widest of the usual fonts."""

TITLE = "Toolyard: clients on one side, servers on the other, one endpoint between them"
STYLE = """\
  .card { fill: #ffffff; stroke: #d0d7de }
  .box { fill: #f6f8fa; stroke: #d0d7de }
  .yard { fill: #ddf4ff; stroke: #54aeff }
  .step { fill: #ffffff; stroke: #54aeff }
  .wire { stroke: #59636e; stroke-width: 1.5; fill: none }
  .tip { fill: #59636e }
  text { fill: #1f2328; font: 13px system-ui, -apple-system, "Segoe UI", sans-serif }
  .heading { font-size: 15px; font-weight: 600 }
  .name { font-weight: 600 }
  .faint { fill: #59636e; font-size: 12px }
  @media (prefers-color-scheme: dark) {
    .card { fill: #0d1117; stroke: #30363d }
    .box { fill: #151b23; stroke: #3d444d }
    .yard { fill: #0c2d4a; stroke: #1f6feb }
    .step { fill: #0d1117; stroke: #1f6feb }
    .wire { stroke: #9198a1 }
    .tip { fill: #9198a1 }
    text { fill: #e6edf3 }
    .faint { fill: #9198a1 }
  }
"""


@dataclass(frozen=True)
class Box:
    """A name and lines of description."""

    name: str
    lines: tuple[str, ...]

    @property
    def height(self) -> int:
        return 2 * PADDING + LINE * (1 + len(self.lines)) - 6


CLIENTS = (
    Box("Claude Code and Desktop", ("over HTTP, or started on stdio",)),
    Box("Cursor, VS Code, others", ("old and new versions of MCP",)),
    Box("your own agents", ("any SDK; each tenant apart",)),
    Box("you, at a terminal", ("toolyard list, show, call",)),
)
STEPS = (
    Box("find", ("a few tools are shown; search_tools", "finds the others by what is wanted")),
    Box("call", ("the right server, in its own era;", "questions, progress, retries, limits")),
    Box("shorten", ("a big result is stored, its summary", "sent; read_result asks for the rest")),
    Box("watch", ("who is up, what was called, its cost",)),
)
SERVERS = (
    Box("programs", ("any MCP server: npx, uvx, …",)),
    Box("addresses", ("MCP over HTTP or SSE",)),
    Box("modules in process", ("yours; sql, memory, browser, …",)),
    Box("REST APIs", ("by a table or OpenAPI",)),
    Box("Composio", ("apps, by its own search",)),
)


@dataclass(frozen=True)
class Column:
    left: int
    width: int
    boxes: tuple[Box, ...]
    kind: str

    @property
    def right(self) -> int:
        return self.left + self.width

    def placed(self, top: int, bottom: int) -> list[tuple[Box, int]]:
        """Each box with its top, spread over the height."""
        free = bottom - top - sum(box.height for box in self.boxes)
        gap = free / max(1, len(self.boxes) - 1)
        found: list[tuple[Box, int]] = []
        at = float(top)
        for box in self.boxes:
            found.append((box, round(at)))
            at += box.height + gap
        return found


def text(x: float, y: float, words: str, kind: str = "") -> str:
    styled = f' class="{kind}"' if kind else ""
    return f'<text{styled} x="{x:g}" y="{y:g}">{escape(words)}</text>'


def rectangle(x: float, y: float, width: float, height: float, kind: str, radius: int = 6) -> str:
    place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius}"'
    return f'<rect class="{kind}" {place}/>'


def draw_box(box: Box, column: Column, top: int) -> list[str]:
    room = column.width - 2 * PADDING
    if len(box.name) * NAME_LETTER > room or any(len(words) * LETTER > room for words in box.lines):
        sys.exit(f"error: what is in the box {box.name!r} is too long for it")
    x, y = column.left + PADDING, top + PADDING + 11
    lines = [text(x, y + LINE * (at + 1), words, "faint") for at, words in enumerate(box.lines)]
    return [
        rectangle(column.left, top, column.width, box.height, column.kind),
        text(x, y, box.name, "name"),
        *lines,
    ]


def wire(start: tuple[float, float], end: tuple[float, float]) -> list[str]:
    """A curve from one side to the other, with a tip."""
    (x1, y1), (x2, y2) = start, end
    middle = (x1 + x2) / 2
    curve = f"M {x1:g} {y1:g} C {middle:g} {y1:g}, {middle:g} {y2:g}, {x2 - 7:g} {y2:g}"
    tip = f"M {x2:g} {y2:g} l -9 -4.5 v 9 z"
    return [f'<path class="wire" d="{curve}"/>', f'<path class="tip" d="{tip}"/>']


def drawing() -> str:
    clients = Column(24, 230, CLIENTS, "box")
    yard = Column(312, 296, (), "yard")
    steps = Column(yard.left + 14, yard.width - 28, STEPS, "step")
    servers = Column(666, 230, SERVERS, "box")
    bottom = HEIGHT - 24
    middle = (TOP + bottom) / 2
    parts = [
        rectangle(0.5, 0.5, WIDTH - 1, HEIGHT - 1, "card", 8),
        text(clients.left, 42, "Clients", "heading"),
        text(yard.left, 42, "Toolyard: one endpoint, /mcp", "heading"),
        text(servers.left, 42, "Servers", "heading"),
        rectangle(yard.left, TOP, yard.width, bottom - TOP, yard.kind, 8),
    ]
    for box, top in steps.placed(TOP + 14, bottom - 14):
        parts += draw_box(box, steps, top)
    for box, top in clients.placed(TOP, bottom):
        parts += draw_box(box, clients, top)
        parts += wire((clients.right, top + box.height / 2), (yard.left, middle))
    for box, top in servers.placed(TOP, bottom):
        parts += draw_box(box, servers, top)
        parts += wire((yard.right, middle), (servers.left, top + box.height / 2))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        f'width="{WIDTH}" height="{HEIGHT}" role="img" aria-labelledby="title">'
    )
    title, style = f'<title id="title">{escape(TITLE)}</title>', f"<style>\n{STYLE}</style>"
    return "\n".join([head, title, style, *parts, "</svg>", ""])


def main() -> None:
    PICTURE.write_text(drawing(), "utf-8")
    print(PICTURE.relative_to(ROOT))


if __name__ == "__main__":
    main()
