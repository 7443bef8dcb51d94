"""A small suite of FastMCP's kind on all three ways, with the plugin that is loaded into theirs."""

import sys
from pathlib import Path

import pytest

from scripts.faithful import suites
from scripts.faithful.comparison import judge, last_line
from scripts.faithful.sources import Sources
from scripts.faithful.suites import Outcome, Suite, run

TESTS = """
import asyncio

from fastmcp import Client, Context, FastMCP
from fastmcp.server.dependencies import get_http_headers

server = FastMCP("theirs")


@server.tool
async def transport(context: Context) -> str:
    return str(context.transport)


@server.tool
async def user_agent() -> str:
    return get_http_headers(include_all=True).get("user-agent", "httpx2, were it not in memory")


async def said(name):
    async with Client(server) as client:
        return (await client.call_tool(name)).data


async def test_arrives():
    assert await said("transport") in ("None", "streamable-http")


async def test_two_at_a_time():
    assert len(await asyncio.gather(said("transport"), said("transport"))) == 2


async def test_only_in_memory():
    assert await said("transport") == "None"


async def test_sees_who_calls():
    assert "httpx2" in await said("user_agent")


def test_connects_nobody():
    assert server.name == "theirs"
"""
SUITE = Suite("small", "small tests", "fastmcp", "all", ("tests",), (), ("-o", "asyncio_mode=auto"))


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sources:
    monkeypatch.setattr(suites, "HOME", tmp_path / "build")
    (tmp_path / "theirs" / "tests").mkdir(parents=True)
    (tmp_path / "theirs" / "tests" / "test_small.py").write_text(TESTS, "utf-8")
    (tmp_path / "theirs" / "tests" / "test_pure.py").write_text("def test_pure(): pass\n", "utf-8")
    (tmp_path / "theirs" / "pytest.ini").write_text("[pytest]\n", "utf-8")
    return Sources(Path(sys.executable), {}, {"fastmcp": tmp_path / "theirs"})


def test_connections_are_laid_over_http_and_through_a_gateway(sources: Sources):
    files = SUITE.files(sources.folders["fastmcp"])
    assert files == ["tests/test_small.py"]
    direct = run(SUITE, "direct", sources, files, workers=1)
    assert all(test.passed for test in direct.values())
    counts = {test.id.rpartition("::")[2]: test.laid for test in direct.values()}
    assert counts == {
        "test_arrives": 1,
        "test_two_at_a_time": 2,
        "test_only_in_memory": 1,
        "test_sees_who_calls": 1,
        "test_connects_nobody": 0,
    }
    found = judge(SUITE, sources, files, sys.executable, lambda name: False)
    assert (found.direct, found.http, len(found.through)) == (4, 3, 2)
    ((lost, why),) = found.lost.items()
    assert lost.endswith("::test_sees_who_calls")
    assert why.startswith("AssertionError")


def test_the_last_line_of_a_failure_says_what_was_lost():
    text = "Traceback\n  | mcp.Error: 401\n  +------------------\n"
    assert last_line(Outcome("a", "failed", 1, text)) == "| mcp.Error: 401"
    assert last_line(None) == "it did not come to an end"
