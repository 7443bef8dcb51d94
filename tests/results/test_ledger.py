"""What is counted: how much came from tools, and how much went on, by whom and for whom."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.app.yard import yard
from tests.results.stock import mounted
from tests.serving import http
from toolyard.config import ResultsConfig
from toolyard.telemetry.usage import UsageLedger, UsageRow, usage_rows
from toolyard.wire.call import Principal


def identify(headers: Any) -> Principal:
    known = dict(headers)
    return Principal(known.get(b"x-tenant", b"acme").decode(), known.get(b"x-agent", b"").decode())


def size(result: Any) -> int:
    return len(json.dumps(result, separators=(",", ":"), ensure_ascii=False).encode())


@pytest.mark.parametrize("way", ["inprocess", "modern", "legacy"])
async def test_what_came_and_what_went_is_counted_for_each_tool_agent_and_tenant(way: str, tmp_path: Path):
    state = str(tmp_path)
    async with (
        mounted(way) as up,
        yard(up, results=ResultsConfig(), identify=identify, view="search", state=state) as front,
    ):
        small = (await front.call("mcp__up__words", {"lines": 3}, headers={"X-Agent": "one"})).result
        big = (await front.call("mcp__up__things", {"count": 5000}, headers={"X-Agent": "two"})).result
        theirs = (await front.call("mcp__up__words", {"lines": 3}, headers={"X-Tenant": "other"})).result
        id = big["structuredContent"]["storage"]["resource"]
        read = (await front.call("read_result", {"id": id}, headers={"X-Agent": "two"})).result
        metrics = await front.client.raw(http("GET", "/metrics", host=f"127.0.0.1:{front.client.port}"))
    tools = {row.name: row for row in usage_rows(tmp_path, "tool", 1)}
    assert list(tools) == ["mcp__up__things", "mcp__up__words", "read_result"], "the biggest first"
    things = tools["mcp__up__things"]
    assert things.calls == 1
    assert 250_000 < things.received < 350_000, "of the text and the same as data, a model sees one"
    assert abs(things.sent - size(big["content"])) < 50
    assert tools["mcp__up__words"] == UsageRow(
        "mcp__up__words", 2, size(small) + size(theirs), size(small) + size(theirs)
    )
    assert tools["read_result"] == UsageRow("read_result", 1, 0, size(read["structuredContent"]))
    assert {row.name: row.calls for row in usage_rows(tmp_path, "agent", 1)} == {
        "one": 1,
        "two": 2,
        "(none)": 1,
    }
    assert {row.name: row.calls for row in usage_rows(tmp_path, "tenant", 1)} == {"acme": 3, "other": 1}
    assert {row.name: row.calls for row in usage_rows(tmp_path, "server", 1)} == {"up": 3, "(none)": 1}
    received = things.received + tools["mcp__up__words"].received
    assert f'toolyard_results_came_bytes_total{{server="up"}} {received}' in metrics.body.decode()
    assert (
        f'toolyard_results_went_bytes_total{{server=""}} {tools["read_result"].sent}' in metrics.body.decode()
    )


def test_gateways_that_share_a_folder_add_to_one_ledger(tmp_path: Path):
    for _ in range(3):
        ledger = UsageLedger(tmp_path)
        ledger.add("t", "a", "s", "tool", 1000, 100)
        taken = ledger.take()
        assert taken is not None
        ledger.write(taken)
    assert usage_rows(tmp_path, "tool", 7) == [UsageRow("tool", 3, 3000, 300)]
    assert (tmp_path / "ledger.db").stat().st_mode & 0o077 == 0


def test_what_could_not_be_written_is_counted_on(tmp_path: Path):
    ledger = UsageLedger(tmp_path / "ledger-folder")
    ledger.add("t", "a", "s", "tool", 1000, 100)
    taken = ledger.take()
    assert taken is not None
    assert ledger.take() is None
    (tmp_path / "ledger-folder").write_text("in the way")
    with pytest.raises(OSError, match="exists"):
        ledger.write(taken)
    ledger.restore(taken)
    ledger.add("t", "a", "s", "tool", 1, 1)
    assert ledger.take() == {("t", "a", "s", "tool"): [2, 1001, 101]}


def test_a_ledger_without_a_folder_has_nothing_to_write():
    ledger = UsageLedger(None)
    ledger.add("t", "a", "s", "tool", 1, 1)
    assert ledger.take() is None


async def test_counts_are_written_when_the_gateway_ends_and_while_it_runs(tmp_path: Path):
    async with mounted("inprocess") as up, yard(up, results=ResultsConfig(), state=str(tmp_path)) as front:
        await asyncio.gather(*(front.says("mcp__up__words", {"lines": 1}) for _ in range(20)))
    assert [row.calls for row in usage_rows(tmp_path, "day", 1)] == [20]
    assert usage_rows(tmp_path / "elsewhere", "tool", 1) == []
