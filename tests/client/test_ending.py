"""A client in one process with its server leaves nothing open: no socket, no process, no warning."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.crawler.web import Web, article
from tests.emulators.composio import ComposioEmulator
from tests.emulators.openai_chat import scripted_chat
from tests.emulators.render import API_KEY, RenderEmulator
from tests.emulators.vision_chat import vision_chat
from tests.servers.zai_vision.talking import picture
from tests.waiting import PATIENCE
from toolyard import Client
from toolyard.kit import Server

PROGRAM = """
import asyncio, importlib, json, sys
from toolyard import Client

async def main():
    module, settings, tool, arguments = json.loads(sys.argv[1])
    found = importlib.import_module(f"toolyard.servers.{module}")
    server = found.build(found.Settings(**settings))
    for _ in range(2):  # what was closed opens again
        async with Client(server) as client:
            result = await client.call_tool(tool, arguments)
            print(json.dumps(result.structured or result.text))

asyncio.run(main())
"""
Use = tuple[str, dict[str, Any], str, dict[str, Any]]
"""Module, settings, tool and arguments."""


@asynccontextmanager
async def render(folder: Path) -> AsyncIterator[Use]:
    async with RenderEmulator() as api:
        api.world.service("shop")
        yield "render", {"api_key": API_KEY, "url": api.url}, "service_status", {}


@asynccontextmanager
async def uploads(folder: Path) -> AsyncIterator[Use]:
    (folder / "a.txt").write_text("hello")
    async with ComposioEmulator() as api:
        settings = {"workspace": str(folder), "composio_api_key": api.api_key, "composio_url": api.url}
        yield "local_toolkit", settings, "upload_to_composio", {"path": "a.txt"}


@asynccontextmanager
async def crawls(folder: Path) -> AsyncIterator[Use]:
    async with Web().open() as web:
        web.pages["/a"] = article()
        settings = {"workspace": str(folder), "allow": f"127.0.0.1:{web.port}", "host_delay": 0.0}
        settings |= {"crawl_cache": str(folder.parent / "cache")}
        yield "local_toolkit", settings, "crawl_parallel", {"urls": [web.url("/a")], "session_dir": "."}


@asynccontextmanager
async def vision(folder: Path) -> AsyncIterator[Use]:
    (folder / "a.png").write_bytes(picture(width=3000, height=3000))
    async with vision_chat() as api:
        settings = {"workspace": str(folder), "url": api.url, "api_key": api.key, "model": "glm-4.6v"}
        yield "zai_vision", settings, "analyze_image", {"image_source": "a.png", "prompt": "What is it?"}


@asynccontextmanager
async def questions(folder: Path) -> AsyncIterator[Use]:
    turns = ['{"sql": "SELECT count(*) AS orders FROM orders"}', '{"approved": true, "reason": "fits"}'] * 2
    async with scripted_chat(turns) as api:
        settings = {"provider": "openai", "model": "m", "model_url": api.url, "model_key": "sesame"}
        yield "sql", settings, "query_sql", {"question": "How many orders are there?"}


@pytest.mark.parametrize("use", [render, uploads, crawls, vision, questions])
async def test_a_program_with_a_server_and_a_client_ends_in_silence(
    use: Callable[[Path], Any], tmp_path: Path
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    async with use(folder) as (module, settings, tool, arguments):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", PROGRAM, json.dumps([module, settings, tool, arguments])),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(PATIENCE * 3):
            out, err = await process.communicate()
    assert (err.decode(), process.returncode) == ("", 0)
    first, second = map(json.loads, out.splitlines())
    assert isinstance(first, dict), first
    assert isinstance(second, dict), second


async def test_the_last_client_closes_what_opens_again() -> None:
    server = Server("s")
    closed: list[str] = []

    async def again() -> None:
        closed.append("again")

    async def once() -> None:
        closed.append("once")

    server.on_close(once)
    server.on_close(again, reopens=True)
    async with Client(server):
        async with Client(server):
            pass
        assert closed == []
    assert closed == ["again"]
    async with Client(server):
        pass
    await server.close()
    assert closed == ["again", "again", "again", "once"]
