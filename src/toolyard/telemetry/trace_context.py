"""W3C trace context without OpenTelemetry: the parent in a request, the parent that goes on, new ids."""

import os
import random
import re

import msgspec
from msgspec import Raw, Struct

Meta = dict[str, Raw]

TRACEPARENT, TRACESTATE, BAGGAGE = "traceparent", "tracestate", "baggage"
_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_NO_TRACE, _NO_SPAN = "0" * 32, "0" * 16
_decode_string = msgspec.json.Decoder(str).decode
# Seeded by the system and not asked of it: a system call for each id would cost more than the rest of a span.
_random = random.Random(os.urandom(32))
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _random.seed(os.urandom(32)))


class TraceContext(Struct, frozen=True, gc=False):
    """A span, as others refer to it."""

    trace: str
    span: str
    sampled: bool = True

    @property
    def traceparent(self) -> str:
        return f"00-{self.trace}-{self.span}-{'01' if self.sampled else '00'}"


def new_trace_id() -> str:
    return f"{_random.getrandbits(128) or 1:032x}"


def new_span_id() -> str:
    return f"{_random.getrandbits(64) or 1:016x}"


def parse_traceparent(value: str) -> TraceContext | None:
    """None if it is not valid. A later version may have more fields at its end."""
    found = _FORM.fullmatch(value.strip())
    if found is None:
        return None
    version, trace, span, flags, more = found.groups()
    if version == "ff" or (version == "00" and more) or trace == _NO_TRACE or span == _NO_SPAN:
        return None
    return TraceContext(trace, span, bool(int(flags, 16) & 1))


def context_in(meta: Meta) -> TraceContext | None:
    """The context in a request's `_meta`."""
    value = meta.get(TRACEPARENT)
    if value is None:
        return None
    try:
        return parse_traceparent(_decode_string(value))
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None  # not a string: ignore the context and serve the call


def with_context(meta: Meta, context: TraceContext, *, keeps_state: bool) -> Meta:
    """A copy of `meta` with this context. `keeps_state`: it continues the trace that `meta` names."""
    changed = dict(meta)
    if not keeps_state:
        changed.pop(TRACESTATE, None)
    changed[TRACEPARENT] = Raw(f'"{context.traceparent}"'.encode())
    return changed
