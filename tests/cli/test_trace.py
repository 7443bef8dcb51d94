"""`toolyard trace`: a run over a gateway and its servers, in four processes, as one tree."""

import asyncio
import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import Toolyard
from tests.programs import needs
from tests.telemetry.played_run import play, yard
from toolyard.telemetry.conventions import Attributes
from toolyard.telemetry.trace_file import PlainSpan, TraceReader, TraceStore

HOSTILE = "</script><img src=x onerror=alert(1)>\x1b[31m\u202e\n"


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> tuple[Toolyard, str]:
    folder = tmp_path_factory.mktemp("played")
    toolyard = Toolyard(folder)
    with yard(folder) as gateway:
        trace = asyncio.run(play(gateway.url, toolyard.state / "toolyard"))
        ended = gateway.stop(signal.SIGINT)
        assert "Traceback" not in ended.err
    return toolyard, trace


def shown(toolyard: Toolyard, *arguments: str) -> Any:
    told = toolyard("trace", *arguments, "--json")
    assert told.status == 0, told.err
    return json.loads(told.out)


def test_a_run_is_one_tree_from_the_agent_to_the_servers(played: tuple[Toolyard, str]):
    toolyard, trace = played
    told = shown(toolyard, "last")
    assert told["trace_id"] == trace
    spans = {span["span_id"]: span for span in told["spans"]}

    def path(span: dict[str, Any]) -> str:
        above = spans.get(span["parent_id"] or "")
        return f"{path(above)}/{span['layer']}" if above else span["layer"]

    paths = [path(span) for span in told["spans"]]
    assert {one for one in paths if "/" not in one} == {"agent"}
    assert paths.count("agent/turn") == paths.count("agent/turn/model") == 4
    assert paths.count("agent/turn/tool/gateway") == 4
    assert paths.count("agent/turn/tool/gateway/upstream") == 3
    assert paths.count("agent/turn/tool/gateway/upstream/http") == 2
    assert paths.count("agent/turn/tool/gateway/upstream/server") == 3
    assert (told["calls"], told["input_tokens"], told["output_tokens"]) == (4, 10_000, 305)
    assert told["errors"] == 1
    assert told["servers"] == ["desk", "shop"]


def test_the_spans_have_the_names_of_agents_that_are_instrumented_by_hand(played: tuple[Toolyard, str]):
    told = shown(played[0], "last")
    spans = {span["span_id"]: span for span in told["spans"]}
    (exchange, *_) = (span for span in told["spans"] if span["layer"] == "http")
    tagged: list[tuple[str, dict[str, Any]]] = []
    at: dict[str, Any] | None = exchange
    while at is not None:
        tagged += [(tag, at["attributes"]) for tag in at["attributes"].get("logfire.tags", [])]
        at = spans.get(at["parent_id"] or "")
    assert [tag for tag, _ in tagged] == [
        "httpx.request",
        "mcp.request",
        "tool_call",
        "tool_result",
        "conversation_iteration_2",
    ]
    found = dict(tagged)
    assert (found["mcp.request"]["server_name"], found["mcp.request"]["tool_name"]) == ("shop", "find_orders")
    assert (found["tool_call"]["tool_name"], found["tool_call"]["tool_id"]) == ("call_tool", "c-1")
    assert found["tool_result"]["is_error"] is False
    failed = [span for span in told["spans"] if span["attributes"].get("is_error")]
    assert {span["layer"] for span in failed} == {"tool", "gateway", "upstream", "server"}


def test_a_meta_tools_span_has_the_tool_that_was_really_called(played: tuple[Toolyard, str]):
    told = shown(played[0], "last")
    called = [
        span["attributes"].get("toolyard.tools.called")
        for span in told["spans"]
        if span["layer"] == "gateway"
    ]
    assert called == [None, ["mcp__shop__find_orders"], ["mcp__shop__list_orders"], ["mcp__desk__refund"]]


def test_a_result_that_was_too_big_is_said_to_be_stored(played: tuple[Toolyard, str]):
    told = shown(played[0], "last")
    sizes = {
        span["layer"]: span["attributes"]
        for span in told["spans"]
        if "list_orders" in span["name"] + str(span["attributes"].get("toolyard.tools.called"))
    }
    assert sizes["gateway"]["toolyard.result.stored"] is True
    assert sizes["upstream"]["toolyard.response.size"] > 100_000
    assert sizes["gateway"]["toolyard.response.size"] < 10_000


def test_the_http_exchange_has_its_address_without_secrets_and_its_connection(played: tuple[Toolyard, str]):
    told = shown(played[0], "last")
    first, second = (span["attributes"] for span in told["spans"] if span["layer"] == "http")
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/mcp", first["url.full"])
    assert first["http.response.status_code"] == 200
    assert second["toolyard.http.connection_reused"] is True
    assert second["http.response.body.size"] > 100_000
    assert "in-the-" not in json.dumps(told)
    assert "Ann" not in json.dumps(told)


def test_the_tree_is_drawn_with_times_tokens_sizes_and_errors(played: tuple[Toolyard, str]):
    toolyard, trace = played
    told = toolyard("trace", trace[:6])
    assert told.status == 0, told.err
    lines = told.out.splitlines()
    assert lines[0] == f"trace {trace}"
    assert "4 calls, 10,000 → 305 tokens, $0.0145, 1 error" in lines[1]
    assert re.match(r"agent main .* m?s  █+$", lines[2])
    assert any(re.search(r"model small-1 .*1,200 → 80 tokens, \$0\.0021", line) for line in lines)
    assert any("gateway call_tool → mcp__shop__list_orders" in line and "stored" in line for line in lines)
    assert any(re.search(r"│       └ ✗ server shop/refund", line) for line in lines)
    assert "! tool_error" in told.out
    assert max(map(len, lines)) <= 120


def test_a_narrow_terminal_gets_narrow_lines(played: tuple[Toolyard, str]):
    with played[0].terminal("trace", "last", COLUMNS="44") as terminal:
        terminal.expect("turn 4")
        assert terminal.end() == 0
    lines = [line.rstrip() for line in terminal.seen.splitlines()]
    tree = lines[lines.index(next(line for line in lines if line.startswith("agent"))) :]
    assert max(map(len, tree)) <= 44
    assert "█" not in terminal.seen


def test_the_list_has_runs_and_calls_and_can_be_filtered(played: tuple[Toolyard, str]):
    toolyard, trace = played
    table = toolyard("trace")
    assert table.status == 0, table.err
    assert re.search(rf"{trace[:8]}  \S+ \S+ +main  invoke_agent main .* 4 +10,305  \$0\.0145  1", table.out)
    assert "mcp__shop__find_orders" not in table.out  # its call is in the run
    for arguments in (["--runs"], ["--errors"], ["--server", "desk"], ["--since", "1h"]):
        assert [one["trace_id"] for one in shown(toolyard, *arguments)] == [trace]
    assert shown(toolyard, "--server", "elsewhere") == []


def test_the_page_loads_nothing_and_has_the_whole_trace(played: tuple[Toolyard, str], tmp_path: Path):
    toolyard, trace = played
    told = toolyard("trace", "last", "--html", str(tmp_path / "trace.html"))
    assert told.status == 0, told.err
    page = (tmp_path / "trace.html").read_text()
    assert trace in page
    assert "src=" not in page
    assert "href=" not in page
    assert "default-src 'none'" in page


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["zzz"], "'zzz' is not the ID of a trace"),
        (["0123456789"], "no trace begins with '0123456789'"),
        (["--since", "yesterday"], "--since 'yesterday' is not an age"),
        (["--html", "x.html"], "--html needs the ID of a trace"),
        (["--delete"], "--delete needs the ID of a trace"),
        (["last", "--html", "/nowhere/x.html"], "cannot be written"),
    ],
)
def test_what_is_wrong_is_said(played: tuple[Toolyard, str], arguments: list[str], said: str):
    told = played[0]("trace", *arguments)
    assert told.status == 2
    assert said in told.err


def test_without_traces_it_says_how_to_get_some(tmp_path: Path):
    told = Toolyard(tmp_path)("trace")
    assert told.status == 0
    assert told.out == "No traces.\n"
    assert 'traces = "local"' in told.err
    assert Toolyard(tmp_path)("trace", "last").status == 2


def hostile(folder: Path, count: int = 1) -> None:
    store = TraceStore(folder)
    for number in range(1, count + 1):
        name = f"execute_tool {HOSTILE}"
        attributes: Attributes = {"gen_ai.operation.name": "execute_tool", HOSTILE: HOSTILE}
        store.add(PlainSpan(1, number, number // 7, name, "internal", number * 1000, attributes, 900))
    store.close()


def test_a_hostile_name_controls_neither_terminal_nor_page(tmp_path: Path):
    toolyard = Toolyard(tmp_path)
    hostile(toolyard.state / "toolyard")
    for told in (toolyard("trace"), toolyard("trace", "0")):
        assert told.status == 0, told.err
        assert "\x1b" not in told.out
        assert "\u202e" not in told.out
    toolyard("trace", "0", "--html", "trace.html")
    page = (tmp_path / "trace.html").read_text()
    assert page.count("</script>") == 1
    assert "<img" not in page


@needs("chromium")
def test_the_page_of_thousands_of_spans_shows_names_as_text(tmp_path: Path):
    from playwright.sync_api import sync_playwright

    toolyard = Toolyard(tmp_path)
    hostile(toolyard.state / "toolyard", 5000)
    assert toolyard("trace", "0", "--html", "trace.html").status == 0
    with sync_playwright() as drivers:
        browser = drivers.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page()
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("dialog", lambda dialog: wrong.append(dialog.message))
        page.goto((tmp_path / "trace.html").as_uri())
        rows = page.locator(".row")
        assert 20 < rows.count() < 200
        assert "<img src=x onerror=alert(1)>" in rows.first.inner_text()
        assert page.locator("img").count() == 0
        rows.nth(1).click()
        assert "<img src=x" in page.locator("#details").inner_text()
        page.get_by_text("Fold all", exact=True).click()
        folded = page.evaluate("document.getElementById('scroll').offsetHeight")
        page.get_by_text("Unfold all").click()
        assert page.evaluate("document.getElementById('scroll').offsetHeight") > folded * 10
        browser.close()
    assert wrong == []


def test_traces_can_be_deleted(tmp_path: Path):
    toolyard = Toolyard(tmp_path)
    folder = toolyard.state / "toolyard"
    store = TraceStore(folder)
    for trace in (0xA << 124, 0xB << 124):
        store.add(
            PlainSpan(
                trace, 1, 0, "invoke_agent x", "internal", 1, {"gen_ai.operation.name": "invoke_agent"}, 5
            )
        )
    store.close()
    assert toolyard("trace", "a", "--delete").status == 0
    assert [id[0] for id in TraceReader(folder).recent(5)] == ["b"]
    assert toolyard("trace", "all", "--delete").status == 0
    assert TraceReader(folder).recent(5) == []


def test_a_damaged_store_is_an_error_with_a_hint(tmp_path: Path):
    toolyard = Toolyard(tmp_path)
    (toolyard.state / "toolyard").mkdir(parents=True)
    (toolyard.state / "toolyard" / "traces.db").write_bytes(b"nothing of the kind" * 100)
    told = toolyard("trace")
    assert told.status == 2
    assert "cannot be read" in told.err
    assert "hint: delete the file" in told.err
