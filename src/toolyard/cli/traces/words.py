"""What is said of a span in few words, in the terminal and on the page: its label, figures and failure."""

from ...telemetry.conventions import COST
from ...telemetry.trace_tree import SpanNode
from ..ui.tables import format_size


def label(node: SpanNode) -> str:
    """The name without what its layer says already. Not made safe for a terminal."""
    span = node.span
    attributes = span.attributes
    layer = node.layer
    if layer == "http":
        return f"{attributes['http.request.method']} {attributes.get('url.full', '')}"
    if layer == "turn" and "toolyard.turn" in attributes:
        return str(attributes["toolyard.turn"])
    for prefix in ("invoke_agent ", "chat ", "execute_tool ", "tools/call "):
        if span.name.startswith(prefix):
            name = span.name.removeprefix(prefix)
            server = attributes.get("toolyard.upstream")
            called = attributes.get("toolyard.tools.called")
            if layer in ("upstream", "server") and server:
                return f"{server}/{name}"
            if layer == "gateway" and isinstance(called, list) and called:
                return f"{name} → {', '.join(called)}"
            return name
    return span.name


def figures(node: SpanNode) -> list[str]:
    """Tokens, cost, sizes, and what else is worth a word."""
    attributes = node.span.attributes
    found: list[str] = []
    tokens_in, tokens_out = (attributes.get(f"gen_ai.usage.{way}_tokens") for way in ("input", "output"))
    if node.layer == "model" and (tokens_in is not None or tokens_out is not None):
        found.append(f"{_number(tokens_in):,} → {_number(tokens_out):,} tokens")
    cost = attributes.get(COST)
    if isinstance(cost, int | float) and not isinstance(cost, bool):
        found.append(format_cost(cost))
    if "http.response.status_code" in attributes:
        found.append(str(attributes["http.response.status_code"]))
    size = attributes.get("http.response.body.size", attributes.get("toolyard.response.size"))
    if isinstance(size, int):
        found.append(format_size(size))
    if attributes.get("toolyard.result.stored"):
        found.append("stored")
    if attributes.get("toolyard.http.connection_reused") is False:
        found.append("new connection")
    retries = attributes.get("http.request.resend_count") or attributes.get("toolyard.retries")
    if retries:
        found.append(f"retry {retries}" if node.layer == "http" else f"{retries} retries")
    outcome = attributes.get("toolyard.outcome")
    if outcome in ("cancelled", "invalid") and not node.span.error:
        found.append(str(outcome))
    if node.span.duration is None:
        found.append("not ended")
    return found


def counts(node: SpanNode) -> str:
    """What the tool counted in its result; empty if it says nothing."""
    return str(node.span.attributes.get("toolyard.result.counts", ""))


def failure(node: SpanNode) -> str:
    """Why it failed; empty if it did not. What only passes on a failure from below does not repeat it."""
    span = node.span
    if not span.text and any(child.span.error == span.error for child in node.children):
        return ""
    return f"{span.error}: {span.text}" if span.error and span.text else span.error


def format_seconds(seconds: float) -> str:
    """`40 µs`, `0.4 ms`, `12 ms`, `1.25 s`, `2:05 min`, in at most eight characters."""
    if seconds < 0.0000995:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 0.9995:
        return f"{seconds * 1000:.2g} ms" if seconds < 0.00995 else f"{seconds * 1000:.0f} ms"
    if seconds < 99.5:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02} min" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02} h"


def format_cost(cost: float) -> str:
    """`$0.0042`, `$1.20`."""
    return f"${cost:.4f}" if cost < 0.1 else f"${cost:.2f}"


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
