"""Spans of an agent's run, for whoever makes them: runs, turns, calls of models and of tools.

`NO_SPANS` is in their place while nothing is traced.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, Protocol

Operation = Literal["invoke_agent", "turn", "chat", "execute_tool"]
"""`gen_ai.operation.name` of the semantic conventions, and `turn` for one iteration of a loop."""
SpanValue = str | int | float | bool | list[str]
_MAX_NAME = 128


def run_span_name(operation: Operation, name: str) -> str:
    """As the conventions name it: the operation, then the agent, model or tool."""
    return f"{operation} {name[:_MAX_NAME]}" if name else operation


class RunSpan(Protocol):
    def set(self, key: str, value: SpanValue) -> None: ...

    def fail(self, kind: str, text: str = "") -> None:
        """`kind` becomes `error.type`."""
        ...


class RunSpans(Protocol):
    def open(
        self, operation: Operation, name: str, attributes: Mapping[str, SpanValue] | None = None
    ) -> AbstractContextManager[RunSpan]:
        """A span below the current one, which is current within the block (and in tasks begun in it)."""
        ...

    def meta(self) -> dict[str, str]:
        """`traceparent` and its like, for the `_meta` of a request; empty if nothing is traced."""
        ...

    @property
    def trace_id(self) -> str:
        """Of the current span; empty if nothing is traced."""
        ...


class ClosableRunSpans(RunSpans, Protocol):
    async def close(self, limit: float = 5.0) -> None:
        """Write or export the remaining spans, for `limit` seconds at most."""
        ...


class _NoSpan:
    def set(self, key: str, value: SpanValue) -> None:
        pass

    def fail(self, kind: str, text: str = "") -> None:
        pass


class _NoSpans:
    trace_id = ""

    def open(
        self, operation: Operation, name: str, attributes: Mapping[str, SpanValue] | None = None
    ) -> AbstractContextManager[RunSpan]:
        return nullcontext(_NO_SPAN)

    def meta(self) -> dict[str, str]:
        return {}


_NO_SPAN = _NoSpan()
NO_SPANS: RunSpans = _NoSpans()
