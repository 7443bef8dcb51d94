"""What an operator looks for, in the three places where it stands: the log, `/metrics`, `toolyard stats`."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.emulators.composio import ComposioEmulator
from tests.faults.yard import ROOT, Gateway
from tests.flow.process import Agent, agent, configured, started
from toolyard.telemetry.events import EVENTS

ISSUES = "mcp__composio__GITHUB_LIST_ISSUES"
WANTED = "list the open issues of a github repository"
REPOSITORY = {"owner": "acme", "repo": "shop"}
SAMPLE = re.compile(r'^toolyard_events_total\{event="(\w+)",server="(\w+)",reason="([^"]*)"\} (\d+)', re.M)
KEY = "ak_emulated_project_key"


@pytest.fixture
async def composio() -> AsyncIterator[ComposioEmulator]:
    async with ComposioEmulator() as emulator:
        emulator.connect("local", "github")
        yield emulator


class Operator:
    """Whoever looks after the gateway in `folder`."""

    def __init__(self, folder: Path, gateway: Gateway) -> None:
        self.folder = folder
        self._gateway = gateway

    def lines(self, event: str = "") -> list[dict[str, Any]]:
        """What the log says of events, without the names that every line has."""
        lines = [json.loads(line) for line in self._gateway.log.splitlines() if line.startswith("{")]
        events = [line for line in lines if line["logger"] == "toolyard.events"]
        return [line for line in events if event in ("", line["event"])]

    async def metrics(self) -> str:
        return (await self._gateway.talk.get("/metrics")).decode()

    async def counted(self) -> dict[tuple[str, str, str], int]:
        found = SAMPLE.findall(await self.metrics())
        return {(event, server, reason): int(count) for event, server, reason, count in found}

    def stats(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "toolyard", "stats", "--config", "toolyard.toml", *arguments]
        environment = os.environ | {"COMPOSIO_API_KEY": KEY, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout


JSON_LOG = '[telemetry]\nlogs = "json"\nlog_level = "debug"\n'


@pytest.fixture
async def gateway(composio: ComposioEmulator, tmp_path: Path) -> AsyncIterator[Gateway]:
    async with started(tmp_path, configured(composio, tmp_path, JSON_LOG)) as running:
        yield running


async def big_result(one: Agent) -> None:
    assert (await one.calls(ISSUES, **REPOSITORY))["truncated"] is True


async def test_the_three_places_say_the_same_and_none_says_a_secret(
    composio: ComposioEmulator, gateway: Gateway, tmp_path: Path
):
    operator = Operator(tmp_path, gateway)
    async with agent(gateway) as one:
        first = (await one.search(WANTED))["session"]["id"]
        composio.expire(first, 401)
        await big_result(one)
        composio.fail("search", 500, times=50)
        await one.search("add two numbers")
    counted = await operator.counted()
    await gateway.stop()
    said = Counter((line["event"], line["server"], line.get("reason", "")) for line in operator.lines())
    rows = json.loads(operator.stats("--by", "event", "--json"))
    assert {(row["event"], row["server"], row["reason"]): row["count"] for row in rows} == said
    # The gateway has a session of its own, in which it goes on reading lists.
    attached = ("session_attached", "composio", "")
    assert said[attached] >= counted[attached] >= 3
    assert said == Counter(counted | {attached: said[attached]})
    assert counted["session_renewed", "composio", "HTTP 401"] == 1
    assert counted["search_fallback", "composio", "failed"] == 1
    assert counted["result_shortened", "composio", ""] == counted["upload", "composio", ""] == 1
    for secret in (KEY, *composio.sessions):
        assert secret not in gateway.log.split("toolyard.events", 1)[1]


@pytest.mark.parametrize(
    ("status", "reason"), [(401, "HTTP 401"), (410, "HTTP 410"), (200, "session expired")]
)
async def test_a_renewed_session_is_told_with_the_status_that_caused_it(
    status: int, reason: str, composio: ComposioEmulator, gateway: Gateway, tmp_path: Path
):
    operator = Operator(tmp_path, gateway)
    async with agent(gateway) as one:
        first = (await one.search(WANTED))["session"]["id"]
        composio.expire(first, status)
        await big_result(one)
    (renewed,) = operator.lines("session_renewed")
    assert renewed["level"] == "info"
    assert renewed["message"] == "session renewed"
    assert (renewed["server"], renewed["reason"]) == ("composio", reason)
    sessions = [line["session"] for line in operator.lines("session_begun")]
    assert renewed["was"] in sessions
    assert renewed["session"] not in sessions
    both = (renewed["was"], renewed["session"])
    attached = [line["session"] for line in operator.lines("session_attached") if line["session"] in both]
    assert attached == [both[0], both[0], both[1]], "the search, the call that was refused, and again"


async def test_a_lost_session_is_told_with_its_reason(
    composio: ComposioEmulator, gateway: Gateway, tmp_path: Path
):
    operator = Operator(tmp_path, gateway)
    async with agent(gateway) as one:
        first = (await one.search(WANTED))["session"]["id"]
        composio.expire(first, 410)
        composio.fail("session.create", 403, times=50)
        refused = await one.client.call_tool("call_tool", {"tool": ISSUES, "arguments": REPOSITORY})
    assert refused.is_error
    lost = operator.lines("session_lost")[0]
    assert lost["level"] == "warning"
    assert lost["reason"] == "HTTP 403"
    assert lost["was"] in [line["session"] for line in operator.lines("session_begun")]
    assert lost["message"].startswith("no session at 'composio': ")
    assert lost["error"] in lost["message"]
    assert not operator.lines("session_renewed")


async def test_a_search_that_falls_back_says_why(
    composio: ComposioEmulator, gateway: Gateway, tmp_path: Path
):
    operator = Operator(tmp_path, gateway)
    async with agent(gateway) as one:
        await one.search(WANTED)
        assert not operator.lines("search_fallback")
        composio.empty("search")
        await one.search("add two numbers")
        composio.fail("search", 500, times=50)
        await one.search("add two numbers")
    empty, failed = operator.lines("search_fallback")
    assert (empty["reason"], empty["error"]) == ("nothing found", "it found nothing")
    assert (failed["reason"], failed["level"]) == ("failed", "info")
    assert "500" in failed["error"]


async def test_a_shortened_result_is_told_with_its_size_before_and_after_and_where_the_whole_is(
    gateway: Gateway, tmp_path: Path
):
    operator = Operator(tmp_path, gateway)
    async with agent(gateway) as one:
        answer = await one.calls(ISSUES, **REPOSITORY)
        (shortened,), (upload,) = operator.lines("result_shortened"), operator.lines("upload")
        metrics = await operator.metrics()
    before, after = shortened["approx_size_bytes_before"], shortened["approx_size_bytes_after"]
    assert shortened["tool"] == upload["what"] == ISSUES
    # On the way it is JSON in a text: a little longer than what the summary is of.
    assert 1 <= before / answer["summary"]["approx_size_bytes"] < 1.1
    assert after < before / 2
    id = answer["storage"]["resource"].rpartition("/")[2]
    assert upload["where"].startswith("local:")
    assert id in upload["where"]
    assert upload["bytes"] == answer["summary"]["approx_size_bytes"]
    labels = 'event="result_shortened",server="composio",reason="",size='
    assert f'toolyard_event_bytes_total{{{labels}"approx_size_bytes_before"}} {before}' in metrics
    assert f'toolyard_event_bytes_total{{{labels}"approx_size_bytes_after"}} {after}' in metrics
    await gateway.stop()
    shown = operator.stats().partition("\n\n")[2].splitlines()
    assert shown[0].split() == ["event", "server", "reason", "count", "bytes"]
    (row,) = (line for line in shown if line.startswith("result shortened"))
    assert re.fullmatch(r"result shortened +composio +1 +[\d.]+ kB → [\d.]+ k?B", row)


async def test_files_that_a_module_uploads_count_as_the_gateways(composio: ComposioEmulator, tmp_path: Path):
    (tmp_path / "work").mkdir()
    toolkit = (
        "[servers.files]\nmodule = 'local_toolkit'\n[servers.files.options]\n"
        f"workspace = '{tmp_path / 'work'}'\nworkbench = 'composio'\n\n"
        f"composio_api_key = '{KEY}'\ncomposio_url = '{composio.url}'\n"
    )
    async with started(tmp_path, configured(composio, tmp_path, JSON_LOG) + toolkit) as gateway:
        operator = Operator(tmp_path, gateway)
        async with agent(gateway) as one:
            await one.calls("mcp__files__write_local_file", path="a.html", content="<h1>Tea</h1>")
            await one.calls(
                "mcp__files__workbench_upload", local_path="a.html", remote_path="/home/user/a.html"
            )
            stored = await one.calls("mcp__files__upload_to_composio", path="a.html")
        uploads = operator.lines("upload")
        assert [(line["server"], line["what"], line["bytes"]) for line in uploads] == [
            ("files", "a.html", 12)
        ] * 2
        assert [line["where"] for line in uploads] == [
            "composio workbench:/home/user/a.html",
            f"composio:{stored['s3key']}",
        ]
        assert all(line["tool"].startswith(("workbench_upload", "upload_to")) for line in uploads)
        assert (await operator.counted())["upload", "files", ""] == 2


async def test_calls_that_are_simply_forwarded_are_no_events(gateway: Gateway, tmp_path: Path):
    operator = Operator(tmp_path, gateway)
    async with agent(gateway) as one:
        await one.calls("mcp__demo__add", a=1, b=2)
        before = await operator.counted()
        for number in range(5):
            await one.calls("mcp__demo__add", a=number, b=1)
        assert await operator.counted() == before


def test_every_event_is_documented():
    page = (ROOT / "docs" / "guides" / "observe.md").read_text()
    missing = [kind.name for kind in EVENTS if f"| `{kind.name}` |" not in page]
    assert not missing
    for kind in EVENTS:
        assert kind.__doc__, kind.name
