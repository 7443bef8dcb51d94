"""The programs themselves: when well, they are MCP servers to the SDK; in a mood, they are what it says."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.faults.moods import MOODS, ONLY_INSIDE, Journal, Mood
from tests.faults.yard import ROOT, http_upstreams
from tests.serving import PATIENCE

ERAS = {"legacy": "2025-11-25", "modern": "2026-07-28"}


@asynccontextmanager
async def connected(kind: str, era: str, folder: Path) -> AsyncIterator[Client]:
    async with http_upstreams(folder, {"one": era}) as ports:
        if kind == "http":
            target: Any = f"http://127.0.0.1:{ports['one']}/mcp"
        else:
            args = ["-m", "tests.faults.over_stdio", era, str(folder / "one")]
            target = stdio_client(StdioServerParameters(command=sys.executable, args=args, cwd=str(ROOT)))
        async with Client(target, mode="auto") as client:
            yield client


@pytest.mark.parametrize("kind", ["http", "stdio"])
@pytest.mark.parametrize("era", ERAS)
async def test_a_program_that_is_well_answers_the_official_client(kind: str, era: str, tmp_path: Path):
    async with connected(kind, era, tmp_path) as client:
        assert client.protocol_version == ERAS[era]
        assert [tool.name for tool in (await client.list_tools()).tools] == ["echo", "write"]
        result = await client.call_tool("echo", {"text": "hello"})
        assert [content.model_dump()["text"] for content in result.content] == ["hello"]
    assert Journal(tmp_path / "one.journal").count("call echo hello") == 1


async def test_a_dead_program_refuses_and_one_that_died_comes_back(tmp_path: Path):
    async with http_upstreams(tmp_path, {"one": "modern"}) as ports:
        mood = Mood(tmp_path / "one")
        mood.become("dead")
        async with asyncio.timeout(PATIENCE):
            while await reachable(ports["one"]):  # noqa: ASYNC110  it is another process
                await asyncio.sleep(0.01)
        mood.become("well")
        async with asyncio.timeout(PATIENCE):
            while not await reachable(ports["one"]):  # noqa: ASYNC110  it is another process
                await asyncio.sleep(0.01)


async def reachable(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionError:
        return False
    writer.close()
    return True


SPEAKING = [m for m, (_, action) in MOODS.items() if action not in ("hang", "die") and m not in ONLY_INSIDE]


@pytest.mark.parametrize("mood", SPEAKING)
async def test_every_mood_on_stdio_says_something_or_ends(mood: str, tmp_path: Path):
    """No mood is a spelling mistake: each gets as far as bytes, or as the end of the process."""
    Mood(tmp_path / "one").become(mood)
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.faults.over_stdio", "legacy", str(tmp_path / "one")),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    assert program.stdin is not None
    assert program.stdout is not None
    assert program.stderr is not None
    method = "tools/list" if "list" in mood or mood == "flood" else "tools/call"
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"name": "echo", "arguments": {}}}
    program.stdin.write(json.dumps(request).encode() + b"\n")
    async with asyncio.timeout(PATIENCE):
        if mood == "eats":
            Mood(tmp_path / "one").become("well")
        said = await program.stdout.read(20)
        assert said or mood.startswith("die")
        with suppress(ProcessLookupError):  # it may have ended by itself
            program.kill()
        program.stdout.feed_eof()
        assert b"Error" not in await program.stderr.read()
        await program.wait()
