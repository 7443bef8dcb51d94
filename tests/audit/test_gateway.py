"""A gateway that keeps an audit: what its records say of calls, and what it does without a store."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.audit.records import KEY, stored_objects
from tests.faults.yard import Gateway, toml
from toolyard.audit.chain import ChainKey
from toolyard.audit.log import open_audit_store
from toolyard.audit.verify import verify
from toolyard.config.callers import AuditConfig

SERVERS = {"demo": {"module": "toolyard.servers.demo:server", "start": "eager"}}
Start = Callable[[str], Awaitable[Gateway]]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    started: list[Gateway] = []

    async def start_gateway(audit: str) -> Gateway:
        config = toml(SERVERS, state_dir=str(tmp_path)) + f"[audit]\n{audit}\n"
        gateway = await Gateway.start(tmp_path, config, TOOLYARD_KEY=KEY.decode())
        started.append(gateway)
        return gateway

    yield start_gateway
    for gateway in started:
        await gateway.kill()


async def calls(folder: Path) -> list[dict[str, Any]]:
    store = open_audit_store(AuditConfig(url="file:"), folder, ChainKey(KEY))
    assert (await verify(store, [ChainKey(KEY)])).is_intact
    return [line for line in await stored_objects(store) if line["event"] == "call"]


async def test_a_record_says_who_called_what_and_how_it_ended(start: Start, tmp_path: Path):
    gateway = await start('url = "file:"\narguments = "redacted"')
    await gateway.talk.call("mcp__demo__echo", text="hello")
    await gateway.talk.call("mcp__demo__now", zone="Nowhere/Nowhere")
    await gateway.talk.call("mcp__demo__unheard_of", text="hello")
    echoed, failed, unknown = await calls(tmp_path)
    assert (echoed["server"], echoed["tool"], echoed["outcome"]) == ("demo", "echo", "ok")
    assert (echoed["tenant"], echoed["client"], echoed["credential_kind"]) == ("local", "talk", "local")
    assert echoed["arguments"] == {"text": "hello"}
    assert echoed["request_bytes"] > 0
    assert echoed["response_bytes"] > 0
    assert (failed["tool"], failed["outcome"]) == ("now", "tool_error")
    assert unknown["outcome"] == "refused"


async def test_a_gateway_that_stops_ends_its_chain(start: Start, tmp_path: Path):
    gateway = await start('url = "file:"')
    await gateway.talk.call("mcp__demo__echo", text="hello")
    await gateway.stop()
    store = open_audit_store(AuditConfig(url="file:"), tmp_path, ChainKey(KEY))
    assert [chain.state for chain in (await verify(store, [ChainKey(KEY)])).chains] == ["ended"]


async def test_without_a_store_closed_refuses_calls_and_open_makes_them(start: Start, tmp_path: Path):
    (tmp_path / "audit").write_text("a file where the folder should be")
    gateway = await start('url = "file:"')
    refused = await gateway.talk.call("mcp__demo__echo", text="hello")
    assert "the audit cannot be written" in refused["error"]["message"]
    (tmp_path / "audit").unlink()
    assert "result" in await gateway.talk.call("mcp__demo__echo", text="hello")
    assert len(await calls(tmp_path)) == 1
    await gateway.stop()
    (tmp_path / "elsewhere").write_text("another file")
    gateway = await start('url = "file:elsewhere"\nunavailable = "open"')
    assert "result" in await gateway.talk.call("mcp__demo__echo", text="hello")
