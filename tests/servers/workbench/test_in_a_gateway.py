"""Code in the workbench calls the caller's tools through the gateway: with the caller's rights, no more."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.app.yard import Yard, yard
from tests.programs import needs
from toolyard.config import InProcess, ResultsConfig, ServerConfig
from toolyard.config.callers import AccessConfig, AccessRule, AuditConfig, LimitRule, LimitsConfig
from toolyard.config.servers import module_of

pytestmark = needs("bubblewrap")
CELL = "mcp__workbench__REMOTE_WORKBENCH"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def bundled(name: str, **options: Any) -> ServerConfig:
    return ServerConfig(name=name, where=InProcess(module=module_of(name), options=options))


@asynccontextmanager
async def mounted(tmp_path: Path, **more: Any) -> AsyncIterator[Yard]:
    bench = bundled("workbench", workspace=str(tmp_path / "files"), warm=0, sessions_of_one=8)
    async with yard(bench, bundled("demo"), bundled("memory"), **more) as found:
        yield found


async def text(gateway: Yard, code: str, **options: Any) -> str:
    result = (await gateway.call(CELL, {"code_to_execute": code}, **options)).result
    return result["content"][0]["text"]


async def test_code_calls_tools_of_other_servers(tmp_path: Path):
    async with mounted(tmp_path) as gateway:
        assert await text(gateway, "run_tool('mcp__demo__add', a=1, b=2)['sum']") == "3.0"
        save = "run_tool('mcp__memory__save_memory', path='/memories/t.md', content='green tea')['action']"
        assert await text(gateway, save) == "'created'"
        direct = await gateway.says("mcp__memory__view_memories", {"path": "/memories/t.md"})
        assert "green tea" in direct
        assert "Unknown tool: 'mcp__demo__nothing'" in await text(gateway, "run_tool('mcp__demo__nothing')")
        bad = await text(gateway, "run_tool('mcp__demo__add', a='x', b=2)")
        assert "ToolCallError: Invalid arguments" in bad


async def test_a_legacy_client_has_it_too(tmp_path: Path):
    async with mounted(tmp_path) as gateway:
        client = await gateway.legacy()
        answer = await client.call(CELL, code_to_execute="run_tool('mcp__demo__add', a=1, b=2)")
        assert answer.result["structuredContent"]["data"]["results"] == "{'sum': 3.0}"


async def test_a_big_result_stays_whole_for_code(tmp_path: Path):
    async with mounted(tmp_path, results=ResultsConfig()) as gateway:
        code = "print(len(run_tool('mcp__demo__echo', text='x' * 300_000)))"
        assert await text(gateway, code) == "300000"


async def test_a_loop_of_tools_ends(tmp_path: Path):
    async with mounted(tmp_path) as gateway:
        own = await text(gateway, f"run_tool({CELL!r}, code_to_execute='1')")
        assert "is running the code that asks for it" in own
        code = "1"
        for depth in range(6):
            inner = json.dumps(code)
            code = f"run_tool({CELL!r}, session_id='s{depth}', code_to_execute={inner})"
        assert "is called through 4 other tools already" in await text(gateway, code)


async def test_a_tool_that_asks_the_user_has_to_be_called_directly(tmp_path: Path):
    async with mounted(tmp_path) as gateway:
        capabilities = {"elicitation": {"form": {}}}
        said = await text(gateway, "run_tool('mcp__demo__ask_name')", capabilities=capabilities)
        assert "has to be called directly" in said


async def test_cancelling_the_call_cancels_the_tool_that_code_called(tmp_path: Path):
    async with mounted(tmp_path) as gateway:
        # The countdown would take a minute; leaving the gateway checks that no task of it is left.
        over = {"code_to_execute": "run_tool('mcp__demo__countdown', steps=60)", "timeout": 0.5}
        result = (await gateway.call(CELL, over)).result
        assert "its time was over" in result["content"][0]["text"]
        assert gateway.gateway.health()["servers"]["demo"]["in_flight"] == 0


async def test_code_has_the_rights_of_its_caller_and_each_call_is_recorded(tmp_path: Path):
    folder = tmp_path / "audit"
    tables = {
        "access": AccessConfig(
            default="deny", rules=(AccessRule(name="few", allow=("workbench", "demo/add")),)
        ),
        "audit": AuditConfig(url=f"file:{folder}"),
    }
    async with mounted(tmp_path, tables=tables) as gateway:
        assert await text(gateway, "run_tool('mcp__demo__add', a=1, b=2)['sum']") == "3.0"
        for name in ("mcp__demo__echo", "mcp__memory__view_memories"):
            assert f"Unknown tool: '{name}'" in await text(gateway, f"run_tool({name!r}, text='x')")
    written = "".join(file.read_text() for file in folder.rglob("*") if file.is_file())
    assert '"tool":"add"' in written
    assert '"tool":"REMOTE_WORKBENCH"' in written


async def test_calls_of_code_are_counted_by_limits(tmp_path: Path):
    rule = LimitRule(name="few", tools=("demo",), calls=2, window=100 * 365 * 86400.0)
    async with mounted(tmp_path, tables={"limits": LimitsConfig(rules=(rule,))}) as gateway:
        code = "for _ in range(3): print(run_tool('mcp__demo__add', a=1, b=2)['sum'])"
        said = await text(gateway, code)
        assert said.count("3.0") == 2
        assert "ToolCallError" in said
