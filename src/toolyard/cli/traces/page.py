"""A trace as one HTML page that loads nothing: a waterfall that folds, with details on a click.

The spans are data in the page, and the script makes text nodes of them: no name of a tool is ever read as
HTML. `page.html` beside this file is the page without its data.
"""

import time
from importlib.resources import files
from typing import Any

import msgspec

from ...telemetry.trace_tree import SpanNode, TraceTree
from ..ui.tables import counted
from .words import failure, figures, format_cost, format_seconds, label

_DATA = "/*data*/null"


def page(tree: TraceTree) -> str:
    text = msgspec.json.encode(_data(tree)).decode()
    # What could end the script's element, or be a line end to an old parser, is spelt out.
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    template = files("toolyard.cli.traces").joinpath("page.html").read_text(encoding="utf-8")
    assert _DATA in template
    return template.replace(_DATA, text, 1)


def _data(tree: TraceTree) -> dict[str, Any]:
    summary = tree.summary
    facts = [
        time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(summary.start / 1e9)),
        format_seconds(summary.seconds),
        counted(summary.spans, "spans"),
        counted(summary.calls, "calls"),
    ]
    if summary.input_tokens or summary.output_tokens:
        facts.append(f"{summary.input_tokens:,} → {summary.output_tokens:,} tokens")
    if summary.cost is not None:
        facts.append(format_cost(summary.cost))
    facts.append(counted(summary.errors, "errors") if summary.errors else "no errors")
    return {
        "id": summary.id,
        "title": summary.title,
        "task": summary.task,
        "facts": facts,
        "seconds": summary.seconds,
        "spans": [_span(node) for node in tree.walk()],
    }


def _span(node: SpanNode) -> list[Any]:
    """As `page.html` takes them apart: a list is half the size of an object."""
    span = node.span
    details = {**span.attributes, "span id": span.id, "kind": span.kind}
    return [
        node.depth,
        node.layer,
        label(node),
        round(node.start, 6),
        round(node.seconds, 6),
        format_seconds(node.seconds),
        ", ".join(figures(node)),
        failure(node) or node.span.error,
        details,
    ]
