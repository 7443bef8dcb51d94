"""The agents that come with Toolyard have the seed's access matrix, without a word in the configuration."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.app.speaker import on_port
from tests.emulators.composio import ComposioEmulator
from toolyard import narrow_grant
from toolyard.agents import AgentGateway, AgentLibrary, LocalGateway, RemoteGateway
from toolyard.agents.access import AgentConnection
from toolyard.agents.messages import TextPart
from toolyard.app import Gateway, asgi
from toolyard.callers.keys import KeyHolder
from toolyard.config import load

CONFIG = """
[gateway]
state_dir = "state"

[auth]
keys = true

[servers.local_toolkit]
module = "local_toolkit"
options = { workspace = "work", workbench = "composio" }

[servers.composio]
type = "composio"
"""
BOTH, MAIN, EXPERT = ("main", "report-creation-expert"), ("main",), ("report-creation-expert",)
MATRIX = {
    "mcp__local_toolkit__save_corpus": EXPERT,
    "mcp__local_toolkit__write_local_file": BOTH,
    "mcp__local_toolkit__workbench_download": BOTH,
    "mcp__local_toolkit__workbench_upload": BOTH,
    "mcp__local_toolkit__crawl_parallel": BOTH,
    "mcp__local_toolkit__upload_to_composio": BOTH,
    "mcp__composio__COMPOSIO_SEARCH_NEWS_SEARCH": BOTH,
    "mcp__composio__GMAIL_SEND_EMAIL": MAIN,
    "mcp__composio__COMPOSIO_REMOTE_WORKBENCH": MAIN,
}


@pytest.fixture(params=["in this process", "at an address"])
async def gateway(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> AsyncIterator[AgentGateway]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "toolyard.toml"
    file.write_text(CONFIG)
    async with ComposioEmulator() as emulator:
        monkeypatch.setenv("COMPOSIO_API_KEY", emulator.api_key)
        monkeypatch.setenv("COMPOSIO_BASE_URL", emulator.url)
        opened = Gateway(load(file), b"k" * 32)
        async with on_port(asgi(opened)) as port:
            if request.param == "in this process":
                yield LocalGateway(opened.view(), opened.callers)
            else:
                keys = opened.callers.keys(opened.config)
                key = (await keys.create(KeyHolder(name="laptop"))).text
                yield RemoteGateway(f"http://127.0.0.1:{port}/mcp", key, narrow=narrow_grant)


async def _allowed(connection: AgentConnection) -> set[str]:
    """The tools that are known to an agent: it calls each without arguments, which none can do without."""
    found: set[str] = set()
    for tool in MATRIX:
        answer = await connection.call("call_tool", {"tool": tool, "arguments": {}}, {})
        text = " ".join(part.text for part in answer.parts if isinstance(part, TextPart))
        assert answer.is_error, text
        if "not found" not in text:
            found.add(tool)
    return found


async def test_the_matrix_of_the_seed_holds_without_rules(gateway: AgentGateway, tmp_path: Path) -> None:
    library = AgentLibrary.load(None, tmp_path)
    main = await gateway.connect(library.get("main"), None, "run-1")
    expert = await gateway.connect(library.get("report-creation-expert"), main, "run-1")
    found = {"main": await _allowed(main), "report-creation-expert": await _allowed(expert)}
    await expert.close()
    await main.close()
    assert found == {name: {tool for tool, who in MATRIX.items() if name in who} for name in BOTH}
