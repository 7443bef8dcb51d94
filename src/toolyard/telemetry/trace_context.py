"""W3C trace context without OpenTelemetry: the parent in a request, the parent that goes on, new ids.

Ids are numbers here: most of them are never shown.
"""

import os
import random
import re

import msgspec
from msgspec import Raw, Struct

Meta = dict[str, Raw]

TRACEPARENT, TRACESTATE = "traceparent", "tracestate"
_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_decode_string = msgspec.json.Decoder(str).decode
# Seeded by the system and not asked of it: a system call for each id would cost more than the rest of a span.
_random = random.Random(os.urandom(32))
_bits = _random.getrandbits
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _random.seed(os.urandom(32)))


class TraceContext(Struct, frozen=True, gc=False):
    """A span, as others refer to it."""

    trace: int
    id: int
    sampled: bool = True


def new_trace_id() -> int:
    return _bits(128) or 1


def new_span_id() -> int:
    return _bits(64) or 1


def format_trace(trace: int) -> str:
    return f"{trace:032x}"


def format_span(span: int) -> str:
    return f"{span:016x}"


def format_traceparent(context: TraceContext) -> str:
    return f"00-{context.trace:032x}-{context.id:016x}-{'01' if context.sampled else '00'}"


def parse_traceparent(value: str) -> TraceContext | None:
    """None if it is not valid. A later version may have more fields at its end."""
    found = _FORM.fullmatch(value.strip())
    if found is None:
        return None
    version, flags, more = found[1], found[4], found[5]
    trace, span = int(found[2], 16), int(found[3], 16)
    if version == "ff" or (version == "00" and more) or not trace or not span:
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
