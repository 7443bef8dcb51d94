"""Turning traces on: the exporter and the provider, from the configuration and the OTEL_* variables.

OpenTelemetry is imported here and below, and only when traces are on: 170 ms and 14 MiB.
"""

import os
import sys
from typing import TYPE_CHECKING

from .._version import __version__
from ..config import TelemetryConfig
from ..extras import install_command

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

    from .spans import Tracing

_PATH = "/v1/traces"


class TracesUnavailableError(Exception):
    """Traces are configured and cannot be made; `hint` says what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def start(config: TelemetryConfig) -> "Tracing | None":
    """None when traces are off: then there is nothing to put around a call."""
    if config.traces == "off" or os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    try:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        from .spans import Tracing

        exporter = _exporter(config)
    except ImportError as error:
        raise TracesUnavailableError(
            f"telemetry.traces = {config.traces!r} needs OpenTelemetry, and {error.name!r} is not installed",
            f'{install_command("otel")}, or set traces = "off"',
        ) from error
    # Not the global provider: that is for whoever embeds us. At exit nobody waits; `Tracing.close` flushes.
    provider = TracerProvider(resource=Resource.create(_resource(config)), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return Tracing(provider)


def _exporter(config: TelemetryConfig) -> "SpanExporter":
    if config.traces == "console":
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        # On stdio, standard output belongs to the protocol.
        return ConsoleSpanExporter(out=sys.stderr, formatter=lambda span: span.to_json(indent=None) + "\n")
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter(endpoint=traces_url(config.endpoint))


def traces_url(endpoint: str) -> str | None:
    """None leaves it to OTEL_EXPORTER_OTLP_TRACES_ENDPOINT and its like."""
    if not endpoint:
        return None
    endpoint = endpoint.rstrip("/")
    return endpoint if endpoint.endswith(_PATH) else endpoint + _PATH


def _resource(config: TelemetryConfig) -> dict[str, str]:
    attributes = {"service.version": __version__}
    named = "OTEL_SERVICE_NAME" in os.environ or "service.name=" in os.environ.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )
    if not named or config.service_name != TelemetryConfig().service_name:
        attributes["service.name"] = config.service_name
    return attributes
