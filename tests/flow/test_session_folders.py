"""examples/universal-agent: six servers, and the folder of a session, told by its absolute path."""

import asyncio
import json
import re
import shutil
import tomllib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.cli.running import Toolyard
from tests.crawler.web import Web, article
from tests.emulators.composio import ComposioEmulator
from tests.emulators.vision_chat import VisionChat, vision_chat
from tests.servers.zai_vision.talking import picture
from tests.waiting import PATIENCE

EXAMPLE = Path(__file__).parents[2] / "examples" / "universal-agent"
SERVERS = {"local_toolkit", "composio", "edgartools", "video_audio", "youtube", "zai_vision"}
EDGAR = "[servers.edgartools]\n"
REPORT = "<h1>Tea</h1>"


@pytest.fixture
async def composio() -> AsyncIterator[ComposioEmulator]:
    async with ComposioEmulator() as emulator:
        emulator.connect("u42", "gmail")
        yield emulator


@pytest.fixture
async def vision() -> AsyncIterator[VisionChat]:
    async with vision_chat() as api:
        yield api


@pytest.fixture
async def web() -> AsyncIterator[Web]:
    async with Web().open() as opened:
        yield opened


@pytest.fixture
def toolyard(tmp_path: Path, composio: ComposioEmulator, vision: VisionChat, web: Web) -> Toolyard:
    """The example as its comment says: its variables with values, in `.env`."""
    shutil.copy(EXAMPLE / "toolyard.toml", tmp_path)
    values = {
        "TOOLYARD_WORKSPACE": str(tmp_path / "sessions"),
        "COMPOSIO_API_KEY": composio.api_key,
        "DEFAULT_USER_ID": "u42",
        "Z_AI_API_KEY": vision.key,
    }
    values |= {"COMPOSIO_BASE_URL": composio.url, "Z_AI_BASE_URL": vision.url}
    values |= {"TOOLYARD_LOCAL_TOOLKIT_ALLOW": f"127.0.0.1:{web.port}"}
    filled = (EXAMPLE / ".env.example").read_text()
    for name, value in values.items():
        filled, found = re.subn(f"^{name}=.*$", f"{name}={value}", filled, flags=re.MULTILINE)
        filled += "" if found else f"{name}={value}\n"
    (tmp_path / ".env").write_text(filled)
    return Toolyard(tmp_path)


def test_the_example_has_the_six_servers_and_the_preset_of_edgartools(toolyard: Toolyard) -> None:
    outcome = toolyard("check")
    assert (outcome.status, outcome.err) == (0, ""), outcome.out
    assert outcome.out.startswith("toolyard.toml: ok, 6 servers")
    config = tomllib.loads((EXAMPLE / "toolyard.toml").read_text())
    assert set(config["servers"]) == SERVERS
    toolyard.write("own.toml", "")
    given = ("--env", "EDGAR_IDENTITY=Ada ada@example.com")
    added = toolyard("add", "edgartools", *given, "--no-check", "--config", "own.toml")
    assert added.status == 0, added.err
    preset = tomllib.loads((toolyard.folder / "own.toml").read_text())["servers"]["edgartools"]
    own = config["servers"]["edgartools"]
    assert (own["command"], own["args"]) == (preset["command"], preset["args"])


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_session_is_a_folder_that_tools_take_by_its_absolute_path(
    mode: str, toolyard: Toolyard, composio: ComposioEmulator, vision: VisionChat, web: Web
) -> None:
    config = (toolyard.folder / "toolyard.toml").read_text()
    toolyard.write("toolyard.toml", config.replace(EDGAR, f"{EDGAR}enabled = false\n"))  # a package of 389 MB
    session = toolyard.folder / "sessions" / "session_20251222_101500"
    web.pages["/tea"] = article("Tea")
    async with AsyncExitStack() as stack:
        serving = toolyard.serving()
        served = await asyncio.to_thread(serving.__enter__)
        stack.push_async_callback(asyncio.to_thread, serving.__exit__, None, None, None)
        http = await stack.enter_async_context(httpx2.AsyncClient(timeout=PATIENCE))
        agent = await stack.enter_async_context(
            Client(streamable_http_client(served.url, http_client=http), mode=mode)
        )

        async def does(tool: str, **arguments: Any) -> Any:
            found = await agent.call_tool(tool, arguments)
            assert not found.is_error, found.content
            return found

        names = {tool.name for tool in (await agent.list_tools()).tools}
        assert {name.split("__")[1] for name in names} == SERVERS - {"edgartools"}
        report = str(session / "work_products" / "report.html")
        await does("mcp__local_toolkit__write_local_file", path=report, content=REPORT)
        crawled = await does(
            "mcp__local_toolkit__crawl_parallel", urls=[web.url("/tea")], session_dir=str(session)
        )
        assert crawled.structured_content["successful"] == 1
        articles = [{"url": web.url("/tea"), "title": "Tea", "content": "Boil.", "status": "success"}]
        saved = await does("mcp__local_toolkit__save_corpus", articles=articles, workspace_path=str(session))
        assert saved.structured_content["corpus_path"] == str(session / "expanded_corpus.json")
        (session / "tea.png").write_bytes(picture())
        seen = await does(
            "mcp__zai_vision__analyze_image", image_source=str(session / "tea.png"), prompt="What is it?"
        )
        assert "I see PNG" in seen.content[0].text
        await does("mcp__video_audio__health_check")
        stored = await does("mcp__local_toolkit__upload_to_composio", path=report)
        assert stored.structured_content["local_path"] == report
        assert {one.user_id for one in composio.sessions.values()} <= {"u42"}
    assert (session / "work_products" / "report.html").read_text() == REPORT
    assert len(list((session / "search_results").glob("crawl_*.md"))) == 1
    assert json.loads((session / "expanded_corpus.json").read_text())["total_articles"] == 1
