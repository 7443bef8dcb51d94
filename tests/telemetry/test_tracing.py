"""Turning traces on: the exporters, what is configured where, and what happens when a part is missing."""

import json
import os
import socket
import subprocess
import sys
import textwrap

import pytest

from tests.telemetry.collector import collector
from tests.telemetry.requests import PARENT, TRACE, TRACEPARENT, call, carrying
from tests.waiting import PATIENCE
from toolyard.config import TelemetryConfig
from toolyard.telemetry import tracing


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)


async def test_spans_reach_an_otlp_receiver_when_the_tracing_closes() -> None:
    async with collector() as receiver:
        started = tracing.start(TelemetryConfig(traces=("otlp",), endpoint=receiver.url, service_name="yard"))
        assert started is not None
        with started.forward(call(), carrying(traceparent=TRACEPARENT)):
            pass
        await started.close()
        (resource,) = receiver.received.get_nowait().resource_spans
    assert receiver.headers[0]["Content-Type"] == "application/x-protobuf"
    described = {item.key: item.value.string_value for item in resource.resource.attributes}
    assert described["service.name"] == "yard"
    (scope,) = resource.scope_spans
    assert scope.scope.name == "toolyard"
    (span,) = scope.spans
    assert span.name == "tools/call search"
    assert span.trace_id.hex() == TRACE
    assert span.parent_span_id.hex() == PARENT
    assert span.kind == span.SPAN_KIND_CLIENT
    values = {item.key: item.value for item in span.attributes}
    assert values["gen_ai.tool.name"].string_value == "search"
    assert values["toolyard.request.size"].int_value == 120


async def test_the_variables_of_opentelemetry_say_where_and_under_what_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with collector() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=blue")
        monkeypatch.setenv("OTEL_SERVICE_NAME", "from-the-environment")
        started = tracing.start(TelemetryConfig(traces=("otlp",)))
        assert started is not None
        with started.forward(call(), {}):
            pass
        await started.close()
        (resource,) = receiver.received.get_nowait().resource_spans
    described = {item.key: item.value.string_value for item in resource.resource.attributes}
    assert described["service.name"] == "from-the-environment"
    assert receiver.headers[0]["x-team"] == "blue"


async def test_a_collector_that_hangs_holds_the_close_no_longer_than_its_limit() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        started = tracing.start(TelemetryConfig(traces=("otlp",), endpoint=url))
        assert started is not None
        with started.forward(call(), {}):
            pass
        await started.close(limit=0.2)
        # Its own limit is 10 s, and it would try again: it still waits for an answer on its connection.
        waiting, _ = silent.accept()
        with waiting:
            waiting.setblocking(False)
            assert waiting.recv(2**20)
            with pytest.raises(BlockingIOError):
                waiting.recv(1)


async def test_the_console_is_standard_error_one_span_a_line(capfd: pytest.CaptureFixture[str]) -> None:
    started = tracing.start(TelemetryConfig(traces=("console",)))
    assert started is not None
    with started.forward(call(), {}):
        pass
    await started.close()
    out, err = capfd.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    assert json.loads(line)["name"] == "tools/call search"


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("http://c:4318", "http://c:4318/v1/traces"),
        ("http://c:4318/", "http://c:4318/v1/traces"),
        ("http://c/otlp", "http://c/otlp/v1/traces"),
        ("http://c/otlp/v1/traces", "http://c/otlp/v1/traces"),
        ("", None),
    ],
)
def test_an_endpoint_is_a_base_address(endpoint: str, url: str | None) -> None:
    assert tracing.traces_url(endpoint) == url


def test_off_there_is_no_tracing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tracing.start(TelemetryConfig()) is None
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert tracing.start(TelemetryConfig(traces=("otlp",))) is None


def run(program: str) -> str:
    """In a process of its own, as it is about what gets imported."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    return done.stdout.strip()


def test_with_traces_off_opentelemetry_is_not_imported() -> None:
    loaded = run(
        """
        import sys
        from toolyard.config import TelemetryConfig
        from toolyard.telemetry import logs, metrics, requests, tracing
        tracing.start(TelemetryConfig())
        print([name for name in sys.modules if name.startswith(("opentelemetry", "prometheus", "google"))])
        """
    )
    assert loaded == "[]"


@pytest.mark.parametrize("missing", ["opentelemetry", "opentelemetry.sdk", "opentelemetry.exporter"])
def test_a_missing_extra_is_named_with_the_command_that_installs_it(missing: str) -> None:
    said = run(
        f"""
        import sys
        sys.modules[{missing!r}] = None
        from toolyard.config import TelemetryConfig
        from toolyard.telemetry import tracing
        try:
            tracing.start(TelemetryConfig(traces=("otlp",)))
        except tracing.TracesUnavailableError as error:
            print(error.message, "|", error.hint)
        """
    )
    assert "telemetry.traces = 'otlp'" in said
    assert "extras add otel" in said


def test_a_token_without_the_extra_is_a_warning_and_no_reason_not_to_start() -> None:
    said = run(
        """
        import logging, os, sys
        sys.modules["opentelemetry.sdk"] = None
        os.environ["LOGFIRE_TOKEN"] = "pylf_v1_eu_abc123"
        logging.basicConfig(stream=sys.stdout, format="%(levelname)s %(message)s")
        from toolyard.config import TelemetryConfig
        from toolyard.telemetry import tracing
        print(tracing.start(TelemetryConfig()))
        """
    )
    warning, started = said.splitlines()
    assert warning.startswith("WARNING LOGFIRE_TOKEN is set, but telemetry.traces = 'logfire' needs")
    assert "extras add otel" in warning
    assert "abc123" not in warning
    assert started == "None"
