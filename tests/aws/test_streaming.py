"""Our own runtime at a Runtime API: what a call says reaches the client while the call is running."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.aws.events import Asked, event_of
from tests.aws.proxy import Streamed, at_a_url
from tests.aws.runtime_api import Runtime, running
from tests.aws.works import write
from tests.serving import Client, LegacyClient, modern
from tests.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, "-m", "toolyard.edge.aws.runtime")


def runtime(folder: Path, **options: Any) -> Any:
    variables = {"PYTHONPATH": f"{ROOT}:{folder}", "TOOLYARD_KEY": "the key of these tests, no secret"}
    return running(folder, folder / "function.log", variables, command=COMMAND, **options)


@asynccontextmanager
async def works(folder: Path) -> AsyncIterator[tuple[Runtime, Client]]:
    async with runtime(write(folder)) as instance, at_a_url(instance) as client:
        yield instance, client


class Gate:
    """Holds a tool until the test lets it go on."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._server: asyncio.Server | None = None

    async def port(self) -> int:
        self._server = await asyncio.start_server(self._hold, "127.0.0.1", 0)
        return self._server.sockets[0].getsockname()[1]

    def let_go(self) -> None:
        self._open.set()

    async def _hold(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._open.wait()
        writer.write(b"go on\n")
        writer.close()


async def test_progress_arrives_before_the_call_ends_in_both_eras(tmp_path: Path):
    async with works(tmp_path) as (_, client):
        gate = Gate()
        arguments = {"name": "steps", "arguments": {"port": await gate.port()}}
        line = await client.open(*modern("tools/call", arguments, progress="p"))
        assert (await line.next_message())["params"]["progress"] == 1
        gate.let_go()
        assert (await line.next_message())["params"]["progress"] == 2
        assert (await line.next_message())["result"]["content"][0]["text"] == "go on"

        session = await LegacyClient.start(client)
        gate = Gate()
        line = await session.open_call("steps", progress="p", port=await gate.port())
        assert (await line.next_message())["params"]["message"] == "begun"
        gate.let_go()
        last = [message async for message in line.messages()][-1]
        assert last["result"]["content"][0]["text"] == "go on"


async def test_what_does_not_stream_is_answered_as_it_is(tmp_path: Path):
    async with works(tmp_path) as (_, client):
        answer = await client.modern("tools/call", {"name": "echo", "arguments": {"text": "hello"}})
        assert answer.status == 200
        assert answer.result["content"][0]["text"] == "hello"
        headers, _ = modern("tools/list")
        assert (await client.post(headers, b"{")).status == 400
        assert (await client.post(headers | {"Content-Type": "text/plain"}, b"{}")).status == 415
        assert (await client.post(headers, b"{}", path="/elsewhere")).status == 404


async def test_an_event_that_is_none_is_answered_and_the_next_one_is_served(tmp_path: Path):
    async with runtime(write(tmp_path)) as instance:
        for event in ({}, [], "text", None, {"version": "2.0"}, {"requestContext": 5}):
            reply = await instance.invoke(event)
            assert 400 <= reply.status < 500, (event, reply)
            if isinstance(reply, Streamed):
                [piece async for piece in reply.pieces]
        health = await instance.invoke(event_of(Asked("GET", "/health", "", [], b"")))
        assert health.status == 200


async def test_a_call_that_never_ends_is_answered_before_the_deadline(tmp_path: Path):
    async with runtime(write(tmp_path), limit_s=3.0) as instance, at_a_url(instance) as client:
        answer = await client.modern("tools/call", {"name": "never", "arguments": {}})
        message = answer.json
        assert "time" in json.dumps(message)
        assert (await client.modern("tools/list")).status == 200


async def test_a_function_that_cannot_be_loaded_says_so_to_the_runtime_api(tmp_path: Path):
    (tmp_path / "function.py").write_text("raise ValueError('no such table')\n", "utf-8")
    async with runtime(tmp_path) as instance:
        async with asyncio.timeout(PATIENCE):
            error = await instance.api.init_error
            assert await instance.process.wait() != 0
        assert error["errorType"].endswith("ValueError")
        assert "no such table" in error["errorMessage"]
        assert any("function.py" in line for line in error["stackTrace"])


async def test_a_streamed_reply_may_be_over_six_megabytes(tmp_path: Path):
    async with works(tmp_path) as (_, client):
        answer = await client.modern("tools/call", {"name": "much", "arguments": {"megabytes": 8}})
        message = answer.json
        assert len(message["result"]["structuredContent"]["result"]) == 8 * 1024
