"""Trace context in a request's `_meta` (SEP-414): `traceparent`, `tracestate`, `baggage`, as JSON strings.

Uses OpenTelemetry's configured propagators (OTEL_PROPAGATORS), by default W3C's. Imported only when on.
"""

import msgspec
from msgspec import Raw
from opentelemetry.context import Context
from opentelemetry.propagate import get_global_textmap
from opentelemetry.propagators.textmap import Getter, Setter

Meta = dict[str, Raw]

# The caller's baggage is theirs: it travels on as it came, not as we would write it.
_BAGGAGE = "baggage"

_encode = msgspec.json.Encoder().encode
_decode_string = msgspec.json.Decoder(str).decode


class _Read(Getter[Meta]):
    def get(self, carrier: Meta, key: str) -> list[str] | None:
        value = carrier.get(key)
        if value is None:
            return None
        try:
            return [_decode_string(value)]
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None  # not a string: no context, and no reason to refuse the call

    def keys(self, carrier: Meta) -> list[str]:
        return list(carrier)


class _Write(Setter[Meta]):
    def set(self, carrier: Meta, key: str, value: str) -> None:
        if key != _BAGGAGE or key not in carrier:
            carrier[key] = Raw(_encode(value))


_read = _Read()
_write = _Write()


def extract(meta: Meta, onto: Context | None = None) -> Context:
    """The context that a request carries, put onto another one (the current one by default)."""
    return get_global_textmap().extract(meta, onto, _read)


def inject(meta: Meta, context: Context | None = None) -> Meta:
    """A copy of `meta` that carries a context (the current one by default) instead of the one it had."""
    propagator = get_global_textmap()
    replaced = propagator.fields - {_BAGGAGE}
    changed = {key: value for key, value in meta.items() if key not in replaced}
    propagator.inject(changed, context, _write)
    return changed
