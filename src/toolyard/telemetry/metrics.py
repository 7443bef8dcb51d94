"""Prometheus metrics: counters, a histogram, gauges read at each scrape, and the text format 0.0.4.

A registry of our own, measured beside prometheus_client 0.26 with its label lookups cached: 0.3 µs a
`record` against 2.1 µs, and 33 ms and 4 MiB of import that `toolyard stdio` would pay too. Labels are
bounded: servers by the configuration, methods by METHODS, outcomes by `OutcomeLabel`. Only the event
loop's thread calls it.
"""

import os
import platform
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from .._version import __version__
from ..wire.text import clean
from .events import Event, EventKey
from .requests import OutcomeLabel

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class MetricFamily(Struct, frozen=True):
    """A metric and its samples: an ending of the name (`_bucket`), labels written by `labelled`, a value."""

    name: str
    kind: str
    help: str
    samples: Iterable[tuple[str, str, float]]


def exposition_text(families: Iterable[MetricFamily]) -> bytes:
    lines: list[str] = []
    for family in families:
        lines.append(f"# HELP {family.name} {family.help}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        lines.extend(
            f"{family.name}{suffix}{{{labels}}} {value!r}" if labels else f"{family.name}{suffix} {value!r}"
            for suffix, labels, value in family.samples
        )
    lines.append("")
    return "\n".join(lines).encode()


def labelled(**labels: str) -> str:
    """`server="git",method="tools/call"`. Writing it once per series is most of what makes a scrape cheap."""
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _escaped(value: str) -> str:
    return clean(value).replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


_SELF = Path("/proc/self")
_imported_at = time.time()


def process_families() -> Iterator[MetricFamily]:
    yield _process_family(
        "process_cpu_seconds_total", "counter", "User and system CPU time spent.", time.process_time()
    )
    yield _process_family(
        "process_start_time_seconds", "gauge", "Start of the process since the epoch.", _started_at
    )
    try:
        sizes = (_SELF / "statm").read_text().split()
        descriptors = len(os.listdir(_SELF / "fd"))
    except OSError:
        return
    page = os.sysconf("SC_PAGE_SIZE")
    yield _process_family(
        "process_virtual_memory_bytes", "gauge", "Virtual memory size.", int(sizes[0]) * page
    )
    yield _process_family(
        "process_resident_memory_bytes", "gauge", "Resident memory size.", int(sizes[1]) * page
    )
    yield _process_family("process_open_fds", "gauge", "Open file descriptors.", descriptors)


def _process_family(name: str, kind: str, explained: str, value: float) -> MetricFamily:
    return MetricFamily(name, kind, explained, [("", "", value)])


def _start_time() -> float:
    """Since the epoch; the kernel counts it in ticks since the boot."""
    try:
        # The second field is the program's name in parentheses, which may hold anything.
        fields = (_SELF / "stat").read_text().rpartition(")")[2].split()
        boots = [line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime ")]
        return float(boots[0].split()[1]) + int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return _imported_at


_started_at = _start_time()


BYTES_PER_TOKEN = 3.5


def tokens(size: int) -> int:
    return round(size / BYTES_PER_TOKEN)


METHODS = frozenset(
    {
        "initialize",
        "ping",
        "server/discover",
        "subscriptions/listen",
        "tools/list",
        "tools/call",
        "prompts/list",
        "prompts/get",
        "completion/complete",
        "resources/list",
        "resources/templates/list",
        "resources/read",
        "resources/subscribe",
        "resources/unsubscribe",
        "logging/setLevel",
        "tasks/get",
        "tasks/list",
        "tasks/result",
        "tasks/update",
        "tasks/cancel",
    }
)
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_BOUNDS = (*(repr(bound) for bound in BUCKETS), "+Inf")


class UpstreamState(Struct, frozen=True):
    """The gauges of one upstream at the moment of a scrape."""

    server: str
    up: bool
    breaker_open: bool = False
    in_flight: int = 0
    tools: int = 0


class _Traffic:
    """Counts of one server; the empty name stands for what the gateway answers itself."""

    __slots__ = ("labels", "reconnects", "request_bytes", "response_bytes", "retries")

    def __init__(self, server: str) -> None:
        self.labels = labelled(server=server)
        self.request_bytes = self.response_bytes = self.retries = self.reconnects = 0


class _TrafficByServer(dict[str, _Traffic]):
    def __missing__(self, server: str) -> _Traffic:
        traffic = self[server] = _Traffic(server)
        return traffic


class _Durations:
    __slots__ = ("buckets", "labels", "seconds")

    def __init__(self, server: str, method: str) -> None:
        self.labels = labelled(server=server, method=method)
        self.buckets = [0] * len(_BOUNDS)
        self.seconds = 0.0


class _Series:
    """Everything that one `record` changes, found by one lookup."""

    __slots__ = ("count", "durations", "labels", "traffic")

    def __init__(self, durations: _Durations, outcome: OutcomeLabel, traffic: _Traffic) -> None:
        self.labels = f"{durations.labels},{labelled(outcome=outcome)}"
        self.count = 0
        self.durations = durations
        self.traffic = traffic


class _EventSeries:
    """The counters of events of one kind."""

    __slots__ = ("count", "labels", "sizes")

    def __init__(self, event: Event) -> None:
        known = event.key._asdict()
        self.labels = labelled(**known)
        self.count = 0
        self.sizes = {labelled(**known, size=name): 0 for name in event.sizes}


class Metrics:
    def __init__(
        self,
        upstreams: Callable[[], Iterable[UpstreamState]] = lambda: (),
        parked: Callable[[], int] = lambda: 0,
        results: Callable[[], Mapping[str, Sequence[int]]] = dict,
    ) -> None:
        """All are called at each scrape, on the event loop. `results`: bytes received and sent by server."""
        self._upstreams = upstreams
        self._parked = parked
        self._results = results
        self._series: dict[tuple[str, str, str], _Series] = {}
        self._durations: dict[tuple[str, str], _Durations] = {}
        self._traffic = _TrafficByServer()
        self._events: dict[EventKey, _EventSeries] = {}

    def record(
        self,
        server: str,
        method: str,
        outcome: OutcomeLabel,
        seconds: float,
        request_bytes: int,
        response_bytes: int,
    ) -> None:
        series = self._series.get((server, method, outcome))
        if series is None:
            series = self._open(server, method, outcome)
        series.count += 1
        durations = series.durations
        durations.buckets[bisect_left(BUCKETS, seconds)] += 1
        durations.seconds += seconds
        traffic = series.traffic
        traffic.request_bytes += request_bytes
        traffic.response_bytes += response_bytes

    def retried(self, server: str) -> None:
        self._traffic[server].retries += 1

    def reconnected(self, server: str) -> None:
        self._traffic[server].reconnects += 1

    def count(self, event: Event) -> None:
        series = self._events.get(event.key)
        if series is None:
            series = self._events[event.key] = _EventSeries(event)
        series.count += 1
        for labels, value in zip(series.sizes, event.size_values, strict=True):
            series.sizes[labels] += value

    def forget(self, server: str) -> None:
        """A server left the configuration; its series end."""
        self._traffic.pop(server, None)
        self._events = {key: series for key, series in self._events.items() if key.server != server}
        for kept in (self._series, self._durations):
            for key in [key for key in kept if key[0] == server]:
                del kept[key]  # pyright: ignore[reportArgumentType]

    def render(self) -> bytes:
        """The text of `/metrics`, to be sent as CONTENT_TYPE."""
        return exposition_text(self._families())

    def _open(self, server: str, method: str, outcome: OutcomeLabel) -> _Series:
        if method not in METHODS:
            method = "other"
        key = (server, method, outcome)
        if key not in self._series:
            durations = self._durations.setdefault((server, method), _Durations(server, method))
            self._series[key] = _Series(durations, outcome, self._traffic[server])
        return self._series[key]

    def _families(self) -> Iterator[MetricFamily]:
        version = labelled(version=__version__, python=platform.python_version())
        yield MetricFamily("toolyard_build_info", "gauge", "Which Toolyard this is.", [("", version, 1)])
        yield MetricFamily(
            "toolyard_requests_total",
            "counter",
            "Requests answered.",
            [("", series.labels, series.count) for series in self._series.values()],
        )
        yield MetricFamily(
            "toolyard_request_seconds", "histogram", "How long requests took.", self._histogram_samples()
        )
        yield from self._traffic_families()
        yield from self._result_families()
        yield from self._event_families()
        yield from self._gauges()
        yield from process_families()

    def _histogram_samples(self) -> Iterator[tuple[str, str, float]]:
        for durations in self._durations.values():
            labels = durations.labels
            total = 0
            for bound, count in zip(_BOUNDS, durations.buckets, strict=True):
                total += count
                yield "_bucket", f'{labels},le="{bound}"', total
            yield "_count", labels, total
            yield "_sum", labels, durations.seconds

    def _traffic_families(self) -> Iterator[MetricFamily]:
        for name, explained, read in _TRAFFIC:
            yield MetricFamily(
                name,
                "counter",
                explained,
                [("", traffic.labels, read(traffic)) for traffic in self._traffic.values()],
            )

    def _result_families(self) -> Iterator[MetricFamily]:
        found = self._results()
        servers = dict.fromkeys((*self._traffic, *found))
        sizes = [(labelled(server=server), found.get(server, (0, 0))) for server in servers]
        for name, explained, read in _RESULTS:
            yield MetricFamily(
                name, "counter", explained, [("", labels, read(size)) for labels, size in sizes]
            )

    def _event_families(self) -> Iterator[MetricFamily]:
        events = self._events.values()
        counts = [("", series.labels, series.count) for series in events]
        sizes = [("", labels, value) for series in events for labels, value in series.sizes.items()]
        yield MetricFamily("toolyard_events_total", "counter", "What operators look for.", counts)
        yield MetricFamily("toolyard_event_bytes_total", "counter", "The bytes of such events.", sizes)

    def _gauges(self) -> Iterator[MetricFamily]:
        states = [(labelled(server=state.server), state) for state in self._upstreams()]
        for name, explained, read in _STATES:
            yield MetricFamily(
                name, "gauge", explained, [("", labels, read(state)) for labels, state in states]
            )
        yield MetricFamily(
            "toolyard_parked", "gauge", "Calls that wait for a client's answer.", [("", "", self._parked())]
        )


_TRAFFIC: tuple[tuple[str, str, Callable[[_Traffic], int]], ...] = (
    ("toolyard_request_bytes_total", "Bytes of parameters taken.", lambda of: of.request_bytes),
    ("toolyard_response_bytes_total", "Bytes of results given.", lambda of: of.response_bytes),
    ("toolyard_retries_total", "Calls tried again.", lambda of: of.retries),
    ("toolyard_reconnects_total", "Connections made anew after a loss.", lambda of: of.reconnects),
)
_RESULTS: tuple[tuple[str, str, Callable[[Sequence[int]], int]], ...] = (
    ("toolyard_results_came_bytes_total", "Bytes of tools' results, as they came.", lambda of: of[0]),
    ("toolyard_results_went_bytes_total", "Bytes of them that went on to clients.", lambda of: of[1]),
    (
        "toolyard_results_came_tokens_total",
        "Tokens of tools' results as they came, estimated.",
        lambda of: tokens(of[0]),
    ),
    (
        "toolyard_results_went_tokens_total",
        "Tokens of them that went on to clients, estimated.",
        lambda of: tokens(of[1]),
    ),
)
_STATES: tuple[tuple[str, str, Callable[[UpstreamState], int]], ...] = (
    ("toolyard_upstream_up", "1 while the upstream is connected.", lambda of: int(of.up)),
    ("toolyard_breaker_open", "1 while calls are refused after failures.", lambda of: int(of.breaker_open)),
    ("toolyard_in_flight", "Calls under way.", lambda of: of.in_flight),
    ("toolyard_tools", "Tools in the catalogue.", lambda of: of.tools),
)
