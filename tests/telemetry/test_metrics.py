"""The text of `/metrics`, read by the parser of prometheus_client."""

import asyncio
import os
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from tests.telemetry.requests import call
from toolyard import __version__
from toolyard.telemetry.metrics import BUCKETS, CONTENT_TYPE, Metrics, UpstreamState
from toolyard.telemetry.requests import Observation
from toolyard.wire.errors import InternalError, InvalidParams

Sample = tuple[str, frozenset[tuple[str, str]]]


def scraped(metrics: Metrics) -> dict[Sample, float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
    }


def key(name: str, **labels: str) -> Sample:
    return name, frozenset(labels.items())


def test_a_request_is_counted_timed_and_weighed() -> None:
    metrics = Metrics()
    metrics.record("git", "tools/call", "ok", 0.02, 100, 2000)
    metrics.record("git", "tools/call", "ok", 0.2, 50, 1000)
    metrics.record("git", "tools/call", "tool_error", 400.0, 1, 0)
    seen = scraped(metrics)
    assert seen[key("toolyard_requests_total", server="git", method="tools/call", outcome="ok")] == 2
    assert seen[key("toolyard_requests_total", server="git", method="tools/call", outcome="tool_error")] == 1
    assert seen[key("toolyard_request_bytes_total", server="git")] == 151
    assert seen[key("toolyard_response_bytes_total", server="git")] == 3000
    labels = {"server": "git", "method": "tools/call"}
    assert seen[key("toolyard_request_seconds_count", **labels)] == 3
    assert seen[key("toolyard_request_seconds_sum", **labels)] == pytest.approx(400.22)
    assert seen[key("toolyard_request_seconds_bucket", **labels, le="0.01")] == 0
    assert seen[key("toolyard_request_seconds_bucket", **labels, le="0.025")] == 1
    assert seen[key("toolyard_request_seconds_bucket", **labels, le="300.0")] == 2
    assert seen[key("toolyard_request_seconds_bucket", **labels, le="+Inf")] == 3


@pytest.mark.parametrize("bound", BUCKETS)
def test_a_time_on_a_bound_belongs_below_it(bound: float) -> None:
    metrics = Metrics()
    metrics.record("git", "ping", "ok", bound, 0, 0)
    labels = {"server": "git", "method": "ping", "le": repr(bound)}
    assert scraped(metrics)[key("toolyard_request_seconds_bucket", **labels)] == 1


def test_methods_that_nobody_knows_share_one_label() -> None:
    metrics = Metrics()
    for number in range(100):
        metrics.record("git", f"made/up/{number}", "ok", 0.01, 0, 0)
    seen = scraped(metrics)
    assert seen[key("toolyard_requests_total", server="git", method="other", outcome="ok")] == 100
    assert sum(name == "toolyard_requests_total" for name, _ in seen) == 1


def test_gauges_show_the_moment_of_the_scrape() -> None:
    state = [UpstreamState("git", up=True, in_flight=3, tools=12)]
    parked = [2]
    metrics = Metrics(upstreams=lambda: state, parked=lambda: parked[0])
    seen = scraped(metrics)
    assert seen[key("toolyard_upstream_up", server="git")] == 1
    assert seen[key("toolyard_breaker_open", server="git")] == 0
    assert seen[key("toolyard_in_flight", server="git")] == 3
    assert seen[key("toolyard_tools", server="git")] == 12
    assert seen[key("toolyard_parked")] == 2
    state[0] = UpstreamState("git", up=False, breaker_open=True)
    seen = scraped(metrics)
    assert seen[key("toolyard_upstream_up", server="git")] == 0
    assert seen[key("toolyard_breaker_open", server="git")] == 1


def test_retries_and_reconnects_are_counted_by_server() -> None:
    metrics = Metrics()
    metrics.retried("git")
    metrics.retried("git")
    metrics.reconnected("docs")
    seen = scraped(metrics)
    assert seen[key("toolyard_retries_total", server="git")] == 2
    assert seen[key("toolyard_retries_total", server="docs")] == 0
    assert seen[key("toolyard_reconnects_total", server="docs")] == 1


def test_a_server_that_left_takes_its_series_along() -> None:
    metrics = Metrics()
    for server in ("git", "docs"):
        metrics.record(server, "tools/call", "ok", 0.01, 1, 1)
    metrics.forget("git")
    metrics.forget("never seen")
    servers = {value for _, labels in scraped(metrics) for name, value in labels if name == "server"}
    assert servers == {"docs"}
    metrics.record("git", "tools/call", "ok", 0.01, 1, 1)
    seen = scraped(metrics)
    assert seen[key("toolyard_requests_total", server="git", method="tools/call", outcome="ok")] == 1


@given(st.text(max_size=30))
def test_any_server_name_survives_the_text_format(server: str) -> None:
    metrics = Metrics(lambda: [UpstreamState(server, up=True)])
    metrics.record(server, "tools/call", "ok", 0.01, 1, 1)
    seen = scraped(metrics)
    assert seen[key("toolyard_upstream_up", server=server)] == 1
    assert seen[key("toolyard_request_bytes_total", server=server)] == 1


def test_a_name_that_is_no_unicode_does_not_break_the_scrape() -> None:
    metrics = Metrics()
    metrics.record("half \ud800", "tools/call", "ok", 0.01, 1, 1)
    assert scraped(metrics)[key("toolyard_request_bytes_total", server="half ?")] == 1


def test_the_process_and_the_build_are_described() -> None:
    seen = scraped(Metrics())
    assert any(
        name == "toolyard_build_info" and ("version", __version__) in labels and value == 1
        for (name, labels), value in seen.items()
    )
    assert seen[key("process_cpu_seconds_total")] > 0
    assert 0 < time.time() - seen[key("process_start_time_seconds")] < 24 * 3600
    if os.path.isdir("/proc/self"):
        assert seen[key("process_resident_memory_bytes")] > 1_000_000
        assert seen[key("process_open_fds")] >= 3


def test_every_family_has_a_help_and_a_type_of_its_own() -> None:
    metrics = Metrics(lambda: [UpstreamState("git", up=True)])
    metrics.record("git", "tools/call", "ok", 0.01, 1, 1)
    families = list(text_string_to_metric_families(metrics.render().decode()))
    names = [family.name for family in families]
    assert len(names) == len(set(names))
    assert all(family.documentation and family.type != "unknown" for family in families)
    assert metrics.render().endswith(b"\n")
    assert CONTENT_TYPE == "text/plain; version=0.0.4; charset=utf-8"


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, "ok"),
        (InternalError(), "error"),
        (InvalidParams("no"), "invalid"),
        (TimeoutError(), "timeout"),
        (asyncio.CancelledError(), "cancelled"),
        (OSError("gone"), "error"),
    ],
)
def test_a_watched_request_is_recorded_however_it_ends(error: BaseException | None, outcome: str) -> None:
    metrics = Metrics()
    seen = call()
    with suppress(Exception, asyncio.CancelledError), Observation(seen, metrics):
        seen.response_bytes = 10
        if error is not None:
            raise error
    assert seen.error is None  # whoever keeps `seen` must not keep what the error holds on to
    values = scraped(metrics)
    assert values[key("toolyard_requests_total", server="git", method="tools/call", outcome=outcome)] == 1
    assert values[key("toolyard_request_bytes_total", server="git")] == 120
    assert values[key("toolyard_response_bytes_total", server="git")] == 10
