"""Agents at a gateway elsewhere: grants over HTTP, and gateways that make none."""

from pathlib import Path
from typing import Any

import pytest

from tests.agents.conftest import MAIN, NARROW
from tests.app.yard import yard
from toolyard import narrow_grant
from toolyard.agents import GatewayAccessError, RemoteGateway
from toolyard.callers.keys import KeyHolder
from toolyard.config import InProcess, ServerConfig
from toolyard.config.callers import AccessConfig, AccessRule, AuthConfig

DEMO = ServerConfig(name="demo", where=InProcess(module="toolyard.servers.demo"))
TOOLKIT = ServerConfig(name="local_toolkit", where=InProcess(module="toolyard.servers.local_toolkit"))
RULES = AccessConfig(default="allow", rules=(AccessRule(who=("agent:main",), deny=("demo/now",)),))
CALLERS: dict[str, Any] = {"auth": AuthConfig(keys=True, required=True), "access": RULES}


def said(answer: Any) -> str:
    return " ".join(part.text for part in answer.parts)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


async def test_each_agent_has_its_own_rights_at_a_gateway_elsewhere() -> None:
    async with yard(DEMO, TOOLKIT, tables=CALLERS, view="search") as front:
        keys = front.gateway.callers.keys(front.gateway.config)
        key = (await keys.create(KeyHolder(name="laptop"))).text
        remote = RemoteGateway(f"http://127.0.0.1:{front.client.port}/mcp", key, narrow=narrow_grant)
        main = await remote.connect(MAIN, None, "run-1")
        narrow = await remote.connect(NARROW, main, "run-1")
        assert "make_grant" not in {tool.name for tool in await main.list_tools()}
        add = {"tool": "mcp__demo__add", "arguments": {"a": 1, "b": 2}}
        echo = {"tool": "mcp__demo__echo", "arguments": {"text": "hi"}}
        now: dict[str, Any] = {"tool": "mcp__demo__now", "arguments": {}}
        assert said(await main.call("call_tool", echo, {})) == "hi"
        for connection, call in ((main, now), (narrow, now), (narrow, echo)):
            answer = await connection.call("call_tool", call, {})
            assert answer.is_error
            assert "not found" in said(answer)
        assert not (await narrow.call("call_tool", add, {})).is_error
        write = {"path": "a.txt", "content": "shared"}
        written = {"tool": "mcp__local_toolkit__write_local_file", "arguments": write}
        await main.call("call_tool", written, {})
        other = await remote.connect(MAIN, None, "run-1")
        read = {"tool": "mcp__local_toolkit__read_local_file", "arguments": {"path": "a.txt"}}
        assert "shared" in said(await other.call("call_tool", read, {}))
        for connection in (main, narrow, other):
            await connection.close()


async def test_a_gateway_that_makes_no_grants_is_refused_unless_told_otherwise() -> None:
    async with yard(DEMO, view="search") as front:
        url = f"http://127.0.0.1:{front.client.port}/mcp"
        with pytest.raises(GatewayAccessError, match="makes no grants") as caught:
            await RemoteGateway(url, narrow=narrow_grant).connect(MAIN, None, "run-1")
        assert "--without-grants" in caught.value.hint
        open_to_all = RemoteGateway(url, narrow=narrow_grant, without_grants=True)
        main = await open_to_all.connect(MAIN, None, "run-1")
        assert "call_tool" in {tool.name for tool in await main.list_tools()}
        await main.close()


async def test_a_key_that_is_not_valid_is_an_error_with_a_hint() -> None:
    async with yard(DEMO, tables=CALLERS, view="search") as front:
        url = f"http://127.0.0.1:{front.client.port}/mcp"
        with pytest.raises(GatewayAccessError, match="401"):
            await RemoteGateway(url, "ty_000000000000_x", narrow=narrow_grant).connect(MAIN, None, "x")


async def test_a_gateway_that_is_gone_is_an_answer_to_the_model() -> None:
    async with yard(DEMO, view="search") as front:
        url = f"http://127.0.0.1:{front.client.port}/mcp"
        remote = RemoteGateway(url, narrow=narrow_grant, without_grants=True)
        main = await remote.connect(MAIN, None, "run-1")
    answer = await main.call("call_tool", {"tool": "mcp__demo__now", "arguments": {}}, {})
    assert answer.is_error
    assert "could not be called" in said(answer)
    await main.close()
