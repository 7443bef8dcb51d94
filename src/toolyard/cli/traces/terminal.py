"""A trace in the terminal: a line for each span, with its place in time as a bar."""

import sys
from collections.abc import Iterator

import click

from ...telemetry.trace_tree import SpanNode, TraceTree
from ..ui.messages import is_terminal, one_line
from ..ui.tables import TextLayout
from .words import counts, failure, figures, format_seconds, label

LAYER_WIDTH = 8
TIME_WIDTH = 8
BAR_FROM, BAR_MIN, BAR_MAX = 76, 12, 40
"""From this width of the terminal on there is a bar, and how wide it is."""
_COLOURS = {"agent": "magenta", "model": "blue", "tool": "cyan", "gateway": "green", "upstream": "green"}
_FULL, _HALF = "█", "▌"


def tree_lines(tree: TraceTree, layout: TextLayout) -> Iterator[str]:
    width = layout.width
    bar = 0 if width < BAR_FROM else max(BAR_MIN, min(BAR_MAX, width // 4))
    room = width - TIME_WIDTH - 2 - (bar + 2 if bar else 0)
    whole = tree.summary.seconds or 1e-9
    for node, stem in _stems(tree):
        text = _text(node, stem, room, layout)
        time = format_seconds(node.seconds)
        drawn = f"  {_bar(node, whole, bar)}" if bar else ""
        line = f"{text}  {time:>{TIME_WIDTH}}{drawn}".rstrip()
        yield _coloured(node, line) if is_terminal(sys.stdout) else line
        for mark, words, colour in (("!", failure(node), "red"), ("=", counts(node), None)):
            indent = " " * min(len(stem) + 2, width // 2)
            lines = layout.folded(f"{mark} {one_line(words)}", max(20, width - len(indent))) if words else []
            for part in lines[:3]:
                yield indent + (click.style(part, fg=colour) if is_terminal(sys.stdout) else part)


def _text(node: SpanNode, stem: str, room: int, layout: TextLayout) -> str:
    """Name and figures. The figures give way first, then the end of the name."""
    mark = "✗ " if node.span.error else ""
    name = f"{stem}{mark}{node.layer} {one_line(label(node))}"
    more = ", ".join(figures(node))
    if more and layout.measure(name) + 2 + len(more) <= room:
        return layout.padded(name, room - len(more)) + more
    return layout.padded(layout.cut(name, room), room)


def _bar(node: SpanNode, whole: float, width: int) -> str:
    start = min(width - 1, max(0, int(node.start / whole * width)))
    share = node.seconds / whole * width
    filled = max(0, min(width - start, round(share)))
    return "·" * start + (_FULL * filled or _HALF) + "·" * (width - start - max(1, filled))


def _stems(tree: TraceTree) -> Iterator[tuple[SpanNode, str]]:
    """Each span with the lines that lead to it."""
    waiting = [(root, "", "") for root in reversed(tree.roots)]
    while waiting:
        node, own, below = waiting.pop()
        yield node, own
        last = len(node.children) - 1
        deep = len(below) > 40  # deeper ones stay at this margin
        for at in range(last, -1, -1):
            is_last = at == last
            mine = below + ("└ " if is_last else "├ ")
            waiting.append((node.children[at], mine, below if deep else below + ("  " if is_last else "│ ")))


def _coloured(node: SpanNode, line: str) -> str:
    if node.span.error:
        return click.style(line, fg="red")
    colour = _COLOURS.get(node.layer)
    return click.style(line, fg=colour) if colour else click.style(line, dim=node.layer == "http")
