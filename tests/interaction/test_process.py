"""A server in a process of its own, on real standard input and output."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.interaction.clients import Habits, StdioClient, soon
from tests.interaction.manifest import shows

ROOT = Path(__file__).parents[2]


@asynccontextmanager
async def process(era: str, **habits: Any) -> AsyncIterator[tuple[StdioClient, asyncio.subprocess.Process]]:
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.interaction.shop"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    assert running.stdin is not None
    assert running.stdout is not None
    client = StdioClient(Habits(era, **habits), running.stdout, running.stdin)
    try:
        await soon(client.shake_hands())
        yield client, running
    finally:
        running.stdin.close()
        await soon(running.wait())
        await client.end()


@shows("process.conversation", "process.stdout", "process.end")
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_process_converses_prints_elsewhere_and_ends_with_its_input(
    era: str, nothing_left_behind: None
) -> None:
    def answer(_: Any) -> Any:
        return {"action": "accept", "content": {"name": "Ada"}}

    async with process(era, elicit=answer) as (client, running):
        assert await client.text("greet") == "Hello Ada"
        assert await client.text("chatter") == "printed"
        async with client.hearing():
            assert await client.text("echo", {"text": "x"}) == "x"
    assert running.returncode == 0
    assert running.stderr is not None
    assert b"a lie" in await soon(running.stderr.read())
