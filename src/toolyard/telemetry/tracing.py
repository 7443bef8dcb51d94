"""Turning traces on: where spans go, from the configuration and the variables of OpenTelemetry and Logfire.

OpenTelemetry is imported in `spans` and only if something is exported: 170 ms and 14 MiB. The local store
alone does without.
"""

import logging
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from .._version import __version__
from ..config import TelemetryConfig
from ..config.files import state_home
from ..config.models import TraceSink
from ..extras import install_command
from .content import ContentPolicy
from .requests import Tracer
from .run_spans import NO_SPANS, ClosableRunSpans, RunSpans

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

    from .spans import Tracing
    from .trace_file import TraceStore

logger = logging.getLogger("toolyard.telemetry")

_PATH = "/v1/traces"
TRACES_VARIABLE = "TOOLYARD_TRACES"
"""Where spans go if no configuration says so, as for a server of the kit: names with commas between them."""
_SINKS: tuple[TraceSink, ...] = ("local", "otlp", "logfire", "console")
_LOGFIRE = {"us": "https://logfire-us.pydantic.dev", "eu": "https://logfire-eu.pydantic.dev"}
_OTLP_VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


class TracesUnavailableError(Exception):
    """Traces are configured and cannot be made; `hint` says what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def start(config: TelemetryConfig, folder: Path | None = None, secrets: Iterable[str] = ()) -> Tracer | None:
    """None when traces are off: then there is nothing to put around a call. `folder` is for the store."""
    if config.traces is None:
        config = replace(config, traces=_named(os.environ))
        if not os.environ.get(TRACES_VARIABLE, "").strip() and has_logfire_token(os.environ):
            return _start_with_token(config, folder, secrets)
    sinks = config.traces or ()
    if not sinks:
        return None
    if set(sinks) <= {"local"} or _is_disabled():
        if "local" not in sinks:
            return None
        from .local_spans import LocalTracing

        return LocalTracing(_store(config, folder))
    return _exporting(config, folder, ContentPolicy(config.content, secrets))


def has_logfire_token(environ: Mapping[str, str]) -> bool:
    """Whether the environment alone sends traces to Logfire, by the variables of its own package."""
    wanted = environ.get("LOGFIRE_SEND_TO_LOGFIRE", "").strip().lower()
    return bool(environ.get("LOGFIRE_TOKEN", "").strip()) and wanted not in ("false", "0", "f")


def _start_with_token(config: TelemetryConfig, folder: Path | None, secrets: Iterable[str]) -> Tracer | None:
    """Nobody wrote that traces are wanted: where they cannot be made, a warning is enough."""
    try:
        tracer = start(replace(config, traces=("logfire",)), folder, secrets)
    except TracesUnavailableError as error:
        logger.warning("LOGFIRE_TOKEN is set, but %s; hint: %s", error.message, error.hint)
        return None
    if tracer is not None:
        logger.info("traces go to Logfire, as LOGFIRE_TOKEN is set and [telemetry] says nothing of traces")
    return tracer


def content_policy(config: TelemetryConfig, secrets: Iterable[str]) -> ContentPolicy | None:
    """What of calls goes into spans; None: nothing."""
    return ContentPolicy(config.content, secrets) if config.content != "off" else None


def agent_telemetry(config: TelemetryConfig, environ: Mapping[str, str] | None = None) -> TelemetryConfig:
    """The settings of an agent's run and of its gateway: the local store is always on.

    If `traces` is not configured, the variables of OpenTelemetry and Logfire say where spans go besides.
    """
    variables = os.environ if environ is None else environ
    if config.traces is not None:
        sinks = config.traces if "local" in config.traces else ("local", *config.traces)
        return replace(config, traces=sinks)
    found: list[TraceSink] = ["local"]
    if any(variables.get(name) for name in _OTLP_VARIABLES):
        found.append("otlp")
    if has_logfire_token(variables):
        found.append("logfire")
    return replace(config, traces=tuple(found))


def open_run_spans(
    config: TelemetryConfig, folder: Path | None = None, secrets: Iterable[str] = ()
) -> ClosableRunSpans:
    """The spans of an agent's run, with the settings of `agent_telemetry`.

    What cannot be exported is reported and not a reason to end the run.
    """
    content = ContentPolicy(config.content, secrets)
    sinks = config.traces or ()
    if set(sinks) - {"local"} and not _is_disabled():
        try:
            return _exporting(config, folder, content).run_spans()
        except TracesUnavailableError as error:
            logger.warning("%s; hint: %s", error.message, error.hint)
    if "local" in sinks:
        from .local_spans import LocalRunSpans

        try:
            return LocalRunSpans(_store(config, folder), content)
        except TracesUnavailableError as error:
            logger.warning("%s; hint: %s", error.message, error.hint)
    return _NoRunSpans()


class _NoRunSpans:
    """`NO_SPANS`, and nothing to close."""

    trace_id = ""
    open = staticmethod(NO_SPANS.open)
    meta = staticmethod(NO_SPANS.meta)

    async def close(self, limit: float = 5.0) -> None:
        return


def server_tracing(name: str) -> Tracer | None:
    """For a server of the kit that runs alone: TOOLYARD_TRACES says where its spans go."""
    return start(TelemetryConfig(service_name=name))


def _named(environ: Mapping[str, str]) -> tuple[TraceSink, ...]:
    """The value of TOOLYARD_TRACES."""
    wanted = [part.strip() for part in environ.get(TRACES_VARIABLE, "").split(",") if part.strip()]
    unknown = [part for part in wanted if part not in (*_SINKS, "off")]
    if unknown:
        raise TracesUnavailableError(
            f"{TRACES_VARIABLE} has {unknown[0]!r}", f"it takes off, {', '.join(_SINKS)}"
        )
    return tuple(sink for sink in _SINKS if sink in wanted)


def _is_disabled() -> bool:
    """Whether OpenTelemetry's own switch is off. It is not for the local store."""
    return os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def _store(config: TelemetryConfig, folder: Path | None) -> "TraceStore":
    from .trace_file import TraceLimits, TraceStore

    folder = folder or state_home()
    if folder is None:
        raise TracesUnavailableError(
            "traces cannot be kept: there is no state folder", "set state_dir in [gateway]"
        )
    return TraceStore(folder, TraceLimits(config.trace_bytes, config.trace_days * 86_400.0))


def _exporting(config: TelemetryConfig, folder: Path | None, content: ContentPolicy) -> "Tracing":
    sinks = config.traces or ()
    try:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        from .spans import StoringProcessor, Tracing

        exporters = [_exporter(sink, config) for sink in sinks if sink != "local"]
    except ImportError as error:
        named = " and ".join(repr(sink) for sink in sinks if sink != "local")
        raise TracesUnavailableError(
            f"telemetry.traces = {named} needs OpenTelemetry, and {error.name!r} is not installed",
            f'{install_command("otel")}, or set traces = "local" or "off"',
        ) from error
    # Not the global provider: that is for whoever embeds us. At exit nobody waits; `Tracing.close` flushes.
    provider = TracerProvider(resource=Resource.create(_resource(config)), shutdown_on_exit=False)
    for exporter in exporters:
        provider.add_span_processor(BatchSpanProcessor(exporter))
    if "local" in sinks:
        provider.add_span_processor(StoringProcessor(_store(config, folder)))
    return Tracing(provider, content)


def _exporter(sink: TraceSink, config: TelemetryConfig) -> "SpanExporter":
    if sink == "console":
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        # On stdio, standard output belongs to the protocol.
        return ConsoleSpanExporter(out=sys.stderr, formatter=lambda span: span.to_json(indent=None) + "\n")
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    if sink == "logfire":
        url, headers = logfire_target(os.environ)
        return OTLPSpanExporter(endpoint=url, headers=headers)
    return OTLPSpanExporter(endpoint=traces_url(config.endpoint))


def logfire_target(environ: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """The address and headers of Logfire. A token names its region; the first tokens did not, and are US."""
    token = environ.get("LOGFIRE_TOKEN", "").strip()
    if not token:
        raise TracesUnavailableError(
            "telemetry.traces = 'logfire' needs a token", "set LOGFIRE_TOKEN to a write token of your project"
        )
    parts = token.split("_")
    region = parts[2] if len(parts) > 3 and parts[0] == "pylf" else "us"
    base = environ.get("LOGFIRE_BASE_URL", "").strip() or _LOGFIRE.get(region, _LOGFIRE["us"])
    return base.rstrip("/") + _PATH, {"Authorization": token}


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


__all__ = [
    "RunSpans",
    "TracesUnavailableError",
    "agent_telemetry",
    "content_policy",
    "logfire_target",
    "open_run_spans",
    "server_tracing",
    "start",
    "traces_url",
]
