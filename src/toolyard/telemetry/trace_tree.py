"""A trace as a tree, and in one line: what `toolyard trace` shows of the spans in the local store."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from .conventions import COST, TASK
from .trace_file import OPERATION, StoredSpan

_INPUT, _OUTPUT = "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"


class SpanNode(Struct):
    """A span and those below it, in the order of their starts."""

    span: StoredSpan
    start: float
    """Seconds after the trace's beginning."""
    seconds: float
    depth: int
    children: "list[SpanNode]"

    @property
    def layer(self) -> str:
        return layer_of(self.span)

    def walk(self) -> "Iterator[SpanNode]":
        # Without recursion: a chain of spans may be deeper than Python's stack.
        waiting: list[SpanNode] = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children))


class TraceSummary(Struct, frozen=True):
    id: str
    start: int
    """Nanoseconds since 1970."""
    seconds: float
    title: str
    who: str
    """The agent, or else the client."""
    task: str
    is_run: bool
    is_open: bool
    """Its first span has not ended: it runs, or was killed."""
    spans: int
    calls: int
    """Of a run those that models made, as the run itself counts; else those that reached a server."""
    input_tokens: int
    output_tokens: int
    cost: float | None
    errors: int
    """Failures, each counted where it began."""
    servers: tuple[str, ...]


class TraceTree(Struct, frozen=True):
    summary: TraceSummary
    roots: tuple[SpanNode, ...]
    """One, unless the spans above some were not kept, or are in another store."""

    def walk(self) -> Iterator[SpanNode]:
        for root in self.roots:
            yield from root.walk()


def layer_of(span: StoredSpan) -> str:
    """What a span is about: agent, turn, model, tool, gateway, upstream, http, server, or its kind."""
    attributes = span.attributes
    if "mcp.method.name" in attributes:
        if span.kind == "client":
            return "upstream"
        return "server" if "toolyard.upstream" in attributes else "gateway"
    if "http.request.method" in attributes:
        return "http"
    names = {"invoke_agent": "agent", "turn": "turn", "chat": "model", "execute_tool": "tool"}
    return names.get(str(attributes.get(OPERATION, "")), span.kind)


def build_tree(id: str, spans: Sequence[StoredSpan]) -> TraceTree:
    """`spans` has at least one."""
    first = min(span.start for span in spans)
    # One that has not ended lasts as long as the trace is known.
    last = max(span.start + (span.duration or 0) for span in spans)
    nodes = {
        span.id: SpanNode(
            span,
            (span.start - first) / 1e9,
            (last - span.start if span.duration is None else span.duration) / 1e9,
            0,
            [],
        )
        for span in spans
    }
    roots: list[SpanNode] = []
    for node in sorted(nodes.values(), key=lambda node: node.start):
        parent = nodes.get(node.span.parent)
        (roots if parent is None or parent is node else parent.children).append(node)
    if not roots:  # parents in a circle: nobody makes such spans but by mistake
        roots = list(nodes.values())
        for node in roots:
            node.children = []
    for root in roots:
        for node in root.walk():
            for child in node.children:
                child.depth = node.depth + 1
    return TraceTree(_summary(id, first, last, roots, list(nodes.values())), tuple(roots))


def _summary(
    id: str, first: int, last: int, roots: Sequence[SpanNode], nodes: Sequence[SpanNode]
) -> TraceSummary:
    root = next((node for node in roots if node.layer == "agent"), roots[0]).span
    layers = [node.layer for node in nodes]
    models = [node.span for node in nodes if node.layer == "model"]
    costs = [_number(span, COST) for span in models if COST in span.attributes]
    if not costs and COST in root.attributes:
        costs = [_number(root, COST)]
    upstream = sum(
        node.layer == "upstream" and node.span.attributes["mcp.method.name"] == "tools/call" for node in nodes
    )
    servers = {str(node.span.attributes.get("toolyard.upstream", "")) for node in nodes}
    attributes = root.attributes
    who = attributes.get("gen_ai.agent.name") or attributes.get("toolyard.agent")
    return TraceSummary(
        id=id,
        start=first,
        seconds=(last - first) / 1e9,
        title=root.name,
        who=str(who or attributes.get("toolyard.client.name", "")),
        task=str(attributes.get(TASK, "")),
        is_run="agent" in layers,
        is_open=root.duration is None,
        spans=len(nodes),
        calls=layers.count("tool") if "agent" in layers else upstream,
        input_tokens=int(sum(_number(span, _INPUT) for span in models)),
        output_tokens=int(sum(_number(span, _OUTPUT) for span in models)),
        cost=sum(costs) if costs else None,
        errors=sum(_began_here(node) for node in nodes),
        servers=tuple(sorted(servers - {""})),
    )


def _began_here(node: SpanNode) -> bool:
    return bool(node.span.error) and not any(child.span.error for child in node.children)


def _number(span: StoredSpan, key: str) -> float:
    value = span.attributes.get(key, 0)
    return value if isinstance(value, int | float) else 0
