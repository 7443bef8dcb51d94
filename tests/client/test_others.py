"""Servers that others wrote, from npm: an SDK of the legacy era on all of its transports, and its tasks."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.thirdparty.mounting import EVERYTHING, NODE, NPM, everything_over
from tests.waiting import PATIENCE, until
from toolyard import Client
from toolyard.client import Elicitation, ElicitResult, LogMessage, TaskError

pytestmark = pytest.mark.timeout(120)
RESEARCH = "simulate-research-query"


@asynccontextmanager
async def everything(transport: str) -> AsyncGenerator[Client]:
    if transport == "stdio":
        async with Client([str(NODE), str(EVERYTHING), "stdio"], on_elicit=clarify) as client:
            yield client
        return
    path = "mcp" if transport == "streamableHttp" else "sse"
    with everything_over(transport) as port:
        async with Client(f"http://127.0.0.1:{port}/{path}", on_elicit=clarify) as client:
            yield client


def clarify(form: Elicitation) -> ElicitResult:
    return form.accept(interpretation="technical")


@pytest.mark.parametrize("transport", ["stdio", "streamableHttp", "sse"])
async def test_a_server_of_another_sdk_is_called_and_read(transport: str) -> None:
    async with everything(transport) as client:
        assert client.era == "legacy"
        assert "echo" in {tool.name for tool in await client.list_tools()}
        assert (await client.call_tool("get-sum", {"a": 1, "b": 2})).text == "The sum of 1 and 2 is 3."
        assert (await client.call_tool("get-tiny-image")).content
        assert len(await client.list_resources()) > 0


async def test_a_legacy_task_is_started_asked_about_and_waited_for() -> None:
    async with everything("stdio") as client:
        task = await client.start_task(RESEARCH, {"topic": "lamps", "ambiguous": True}, ttl=60)
        assert task.status == "working"
        assert [one.id for one in await client.list_tasks()] == [task.id]
        assert (await client.get_task(task.id)).id == task.id
        assert "**Clarification**: technical" in (await task.result()).text
        assert task.status == "completed"


async def test_a_legacy_task_can_be_cancelled() -> None:
    async with everything("stdio") as client:
        task = await client.start_task(RESEARCH, {"topic": "lamps"})
        await task.cancel()
        assert task.status == "cancelled"
        with pytest.raises(TaskError, match="was cancelled"):
            await task.result()


async def test_a_question_outside_of_any_call_is_answered(tmp_path: Path) -> None:
    # The file server asks for the roots as soon as it is told that the handshake is over.
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    command = [str(NODE), str(NPM / "server-filesystem/dist/index.js")]
    async with Client(command, roots=[shelf]) as client:

        async def is_told() -> bool:
            return str(shelf) in (await client.call_tool("list_allowed_directories")).text

        await until(is_told)


async def test_a_log_line_outside_of_any_call_is_heard() -> None:
    lines: asyncio.Queue[LogMessage] = asyncio.Queue()
    command = [str(NODE), str(EVERYTHING), "stdio"]
    async with Client(command, log_level="debug", on_log=lines.put_nowait) as client:
        await client.call_tool("toggle-simulated-logging")
        async with asyncio.timeout(PATIENCE):
            assert (await lines.get()).level
