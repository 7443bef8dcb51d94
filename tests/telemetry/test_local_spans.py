"""Our own spans: they say the same as OpenTelemetry's, and have the same parents."""

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec import Raw
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.telemetry.requests import PARENT, TRACE, TRACEPARENT, call, carrying
from toolyard.config import TelemetryConfig
from toolyard.telemetry import tracing
from toolyard.telemetry.local_spans import LocalTracing
from toolyard.telemetry.requests import ClientAddress, Observation, ObservedRequest, client_address
from toolyard.telemetry.serving import RequestTracing
from toolyard.telemetry.spans import Tracing
from toolyard.telemetry.trace_file import StoredSpan, TraceReader, TraceStore
from toolyard.telemetry.tracing import agent_telemetry, logfire_target, open_run_spans
from toolyard.wire.call import NO_CHANNEL, Call
from toolyard.wire.errors import InternalError, InvalidParams


class Kept:
    """A tracing whose spans can be read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._store = TraceStore(folder)
        self.tracing = LocalTracing(self._store)

    def spans(self) -> list[StoredSpan]:
        self._store.close()
        reader = TraceReader(self._folder)
        return [span for spans in reader.spans(reader.recent(100)).values() for span in spans]


@pytest.fixture
def local(tmp_path: Path) -> Kept:
    return Kept(tmp_path)


@pytest.fixture
def exporter() -> Iterator[tuple[Tracing, InMemorySpanExporter]]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield Tracing(provider), exporter
    provider.shutdown()


def parent_in(meta: dict[str, Raw]) -> list[str]:
    return bytes(meta["traceparent"]).decode().strip('"').split("-")


def big(seen: ObservedRequest) -> None:
    seen.response_bytes, seen.stored_as, seen.resends = 5000, "0f1e", 2
    seen.called = ("mcp__git__search", "mcp__git__log")


def failing(error: Exception) -> Callable[[ObservedRequest], None]:
    def fail(seen: ObservedRequest) -> None:
        raise error

    return fail


def says_error(seen: ObservedRequest) -> None:
    seen.is_error_result = True


@pytest.mark.parametrize("kind", ["serve", "forward"])
@pytest.mark.parametrize(
    "happens",
    [
        big,
        says_error,
        failing(InternalError("broken")),
        failing(InvalidParams("no")),
        failing(TimeoutError()),
    ],
)
def test_they_have_the_names_attributes_and_failures_of_opentelemetrys(
    local: Kept,
    exporter: tuple[Tracing, InMemorySpanExporter],
    kind: str,
    happens: Callable[[ObservedRequest], None],
):
    for tracing_ in (local.tracing, exporter[0]):
        seen = call(session_id="secret")
        try:
            with getattr(tracing_, kind)(seen, {}):
                happens(seen)
        except Exception:
            pass
    (ours,) = local.spans()
    (theirs,) = exporter[1].get_finished_spans()
    attributes = dict(theirs.attributes or {})
    assert ours.name == theirs.name
    assert ours.error == attributes.pop("error.type", "")
    assert ours.text == (theirs.status.description or "")
    plain = {key: list(value) if isinstance(value, tuple) else value for key, value in attributes.items()}
    assert ours.attributes == plain


async def test_a_request_its_forward_and_its_exchange_are_one_branch(local: Kept):
    async def forward(_: Call) -> Raw:
        with Observation(call(), None, local.tracing, {}) as told:
            exchange = local.tracing.exchange("POST", "http://up/mcp", 120, 1)
            exchange.answered(503, reused=False)
            exchange.end(40)
            exchange.end(99)
        assert parent_in(told)[1] == TRACE
        return Raw(b'{"content":[]}')

    await RequestTracing(local.tracing).serve(request({"traceparent": TRACEPARENT}), forward)
    exchange, client, server = local.spans()
    assert {span.trace for span in local.spans()} == {TRACE}
    assert (server.parent, client.parent, exchange.parent) == (PARENT, server.id, client.id)
    assert (exchange.name, exchange.kind, exchange.error) == ("POST", "client", "503")
    assert exchange.attributes == {
        "http.request.method": "POST",
        "url.full": "http://up/mcp",
        "server.address": "up",
        "server.port": 80,
        "http.response.status_code": 503,
        "toolyard.http.connection_reused": False,
        "http.request.body.size": 120,
        "http.response.body.size": 40,
        "http.request.resend_count": 1,
        "logfire.tags": ["httpx.request"],
    }
    assert server.attributes["toolyard.response.size"] == 14


def request(meta: dict[str, str]) -> Call:
    from msgspec.json import encode

    return Call(
        "tools/call", Raw(encode({"name": "search", "_meta": meta})), call().caller, NO_CHANNEL, "id-1"
    )


@pytest.mark.parametrize(
    "value", ["nonsense", "00-0-0-0", f"ff-{TRACE}-{PARENT}-01", f"00-{'0' * 32}-{PARENT}-01"]
)
async def test_what_is_no_trace_context_starts_a_new_trace(local: Kept, value: str):
    with local.tracing.forward(call(), carrying(traceparent=value, tracestate="stale=1")) as sent:
        pass
    (span,) = local.spans()
    assert span.parent == ""
    assert span.trace == parent_in(sent)[1] != TRACE
    assert "tracestate" not in sent


async def test_the_state_and_baggage_of_a_trace_go_on_with_it(local: Kept):
    meta = carrying(traceparent=TRACEPARENT, tracestate="rojo=1", baggage="a=b")
    with local.tracing.forward(call(), meta) as sent:
        pass
    assert bytes(sent["tracestate"]) == b'"rojo=1"'
    assert bytes(sent["baggage"]) == b'"a=b"'


async def test_a_client_that_does_not_sample_is_heeded_below_it_too(local: Kept):
    async def forward(_: Call) -> Raw:
        with Observation(call(), None, local.tracing, {}) as told:
            local.tracing.exchange("POST", "http://up/mcp", 1, 0).end(1)
            assert parent_in(told)[3] == "00"
        return Raw(b"{}")

    await RequestTracing(local.tracing).serve(request({"traceparent": f"00-{TRACE}-{PARENT}-00"}), forward)
    assert local.spans() == []


@pytest.mark.parametrize("of_opentelemetry", [False, True])
async def test_the_http_header_names_the_trace_where_the_request_does_not(
    local: Kept, exporter: tuple[Tracing, InMemorySpanExporter], of_opentelemetry: bool
):
    tracer = exporter[0] if of_opentelemetry else local.tracing
    token = client_address.set(ClientAddress("127.0.0.1", "", TRACEPARENT))
    try:
        seen, named = call(), call()
        with tracer.serve(seen, {}):
            pass
        other = "f" * 32
        with tracer.serve(named, carrying(traceparent=f"00-{other}-{PARENT}-01")):
            pass
    finally:
        client_address.reset(token)
    assert (seen.trace_id, named.trace_id) == (TRACE, other)


async def test_calls_at_the_same_time_keep_their_own_parents(local: Kept):
    together = asyncio.Barrier(5)

    async def one(trace: str) -> str:
        told: dict[str, Raw] = {}

        async def forward(_: Call) -> Raw:
            await together.wait()
            with Observation(call(), None, local.tracing, {}) as sent:
                await together.wait()
                told.update(sent)
            return Raw(b"{}")

        meta = {"traceparent": f"00-{trace}-{PARENT}-01"}
        await RequestTracing(local.tracing).serve(request(meta), forward)
        return parent_in(told)[1]

    traces = [f"{number:032x}" for number in range(1, 6)]
    assert await asyncio.gather(*map(one, traces)) == traces
    assert len(local.spans()) == 10


@pytest.mark.parametrize("sinks", [("local",), ("local", "console")])
async def test_spans_of_a_run_nest_and_say_how_they_failed(
    tmp_path: Path, sinks: tuple[str, ...], capfd: pytest.CaptureFixture[str]
):
    spans = open_run_spans(TelemetryConfig(traces=sinks), tmp_path)  # type: ignore[arg-type]
    assert spans.meta() == {}
    with spans.open("invoke_agent", "main", {"gen_ai.agent.name": "main"}) as run:
        run.set("toolyard.task", "Read my mail")
        with spans.open("turn", "", {"toolyard.turn": 1}), spans.open("chat", "small") as chat:
            chat.set("gen_ai.usage.input_tokens", 12)
            chat.fail("overloaded", "try later")

        async def tool() -> str:
            with spans.open("execute_tool", "search"):
                return spans.meta()["traceparent"]

        task = asyncio.create_task(tool())
        parent = await task
        trace = spans.trace_id
        with pytest.raises(ValueError, match="secret"), spans.open("execute_tool", "broken"):
            raise ValueError("secret")
    assert spans.trace_id == ""
    await spans.close()
    reader = TraceReader(tmp_path)
    assert reader.recent(5, runs_only=True) == [trace]
    found = {span.name: span for span in reader.spans([trace])[trace]}
    root = found["invoke_agent main"]
    assert {name: span.parent for name, span in found.items()} == {
        "invoke_agent main": "",
        "turn": root.id,
        "chat small": found["turn"].id,
        "execute_tool search": root.id,
        "execute_tool broken": root.id,
    }
    assert parent.startswith(f"00-{trace}-{found['execute_tool search'].id}-")
    assert found["turn"].attributes["logfire.tags"] == ["conversation_iteration_1"]
    assert found["execute_tool search"].attributes["is_error"] is False
    assert found["execute_tool broken"].attributes["is_error"] is True
    assert (found["chat small"].error, found["chat small"].text) == ("overloaded", "try later")
    assert found["chat small"].attributes["gen_ai.usage.input_tokens"] == 12
    assert (found["execute_tool broken"].error, found["execute_tool broken"].text) == ("ValueError", "")
    assert "toolyard.task" not in root.attributes
    assert all(span.duration is not None for span in found.values())


@pytest.mark.parametrize("sinks", [("local",), ("local", "console")])
async def test_secrets_in_the_words_of_a_failure_are_masked(
    tmp_path: Path, sinks: tuple[str, ...], capfd: pytest.CaptureFixture[str]
):
    secret = "hidden-0123456789"
    spans = open_run_spans(TelemetryConfig(traces=sinks), tmp_path, [secret])  # type: ignore[arg-type]
    with spans.open("invoke_agent", "main"), spans.open("execute_tool", "fetch") as tool:
        trace = spans.trace_id
        tool.fail("tool_error", f"401 for the key {secret}")
    await spans.close()
    texts = [span.text for span in TraceReader(tmp_path).spans([trace])[trace]]
    assert "401 for the key ***" in texts
    assert secret not in "".join([*texts, *capfd.readouterr()])


def test_a_runs_spans_go_where_the_variables_say_unless_the_file_does():
    nothing = TelemetryConfig()
    endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}
    assert agent_telemetry(nothing, {}).traces == ("local",)
    assert agent_telemetry(nothing, endpoint).traces == ("local", "otlp")
    assert agent_telemetry(nothing, {"LOGFIRE_TOKEN": "t"}).traces == ("local", "logfire")
    switched_off = {"LOGFIRE_TOKEN": "t", "LOGFIRE_SEND_TO_LOGFIRE": "false"}
    assert agent_telemetry(nothing, switched_off).traces == ("local",)
    assert agent_telemetry(TelemetryConfig(traces=()), endpoint).traces == ("local",)
    assert agent_telemetry(TelemetryConfig(traces=("console",)), endpoint).traces == ("local", "console")


def test_a_logfire_token_names_its_region():
    def address(token: str, **more: str) -> str:
        url, headers = logfire_target({"LOGFIRE_TOKEN": token, **more})
        assert headers == {"Authorization": token}
        return url

    assert address("pylf_v1_eu_abc123") == "https://logfire-eu.pydantic.dev/v1/traces"
    assert address("pylf_v1_us_abc123") == "https://logfire-us.pydantic.dev/v1/traces"
    assert address("abc123") == "https://logfire-us.pydantic.dev/v1/traces"
    assert address("pylf_v1_eu_a", LOGFIRE_BASE_URL="http://l:1/") == "http://l:1/v1/traces"
    with pytest.raises(tracing.TracesUnavailableError, match="needs a token"):
        logfire_target({})


def test_a_gateway_exports_only_if_its_file_its_own_variable_or_logfires_token_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for name in [name for name in os.environ if name.startswith(("OTEL_", "LOGFIRE_", "TOOLYARD_TRACES"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c")
    assert tracing.start(TelemetryConfig(), tmp_path) is None
    monkeypatch.setenv("LOGFIRE_TOKEN", "pylf_v1_eu_abc123")
    monkeypatch.setenv("LOGFIRE_BASE_URL", "http://l:1")
    assert isinstance(tracing.start(TelemetryConfig(), tmp_path), Tracing)
    assert tracing.start(TelemetryConfig(traces=()), tmp_path) is None
    monkeypatch.setenv("LOGFIRE_SEND_TO_LOGFIRE", "false")
    assert tracing.start(TelemetryConfig(), tmp_path) is None
    monkeypatch.delenv("LOGFIRE_SEND_TO_LOGFIRE")
    monkeypatch.setenv("TOOLYARD_TRACES", "off")
    assert tracing.start(TelemetryConfig(), tmp_path) is None
    monkeypatch.setenv("TOOLYARD_TRACES", "local")
    assert isinstance(tracing.start(TelemetryConfig(), tmp_path), LocalTracing)
    assert tracing.start(TelemetryConfig(traces=()), tmp_path) is None
    monkeypatch.setenv("TOOLYARD_TRACES", "jaeger")
    with pytest.raises(tracing.TracesUnavailableError, match="jaeger"):
        tracing.start(TelemetryConfig(), tmp_path)
