"""A caller connects a server through the gateway: by a link, or by elicitation in either era."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.connections.yard import Guarded, config_of, connect, guarded, link_in, replica
from toolyard import Client
from toolyard.client import Elicitation, ElicitResult

TOOL = "mcp__guarded__whoami"


@pytest_asyncio.fixture
async def upstream() -> AsyncIterator[Guarded]:
    async with guarded() as found:
        yield found


async def call(client: Client, **options: Any) -> tuple[bool, str]:
    result = await client.call_tool("call_tool", {"tool": TOOL, "arguments": {}}, **options)
    return bool(result.is_error), result.text


async def connections(client: Client, action: str = "status", **more: Any) -> dict[str, Any]:
    result = await client.call_tool("manage_connections", {"action": action, "names": ["guarded"], **more})
    found: Any = result.structured
    return found["connections"][0]


async def test_a_caller_connects_by_a_link_and_needs_no_login_after_a_restart(
    upstream: Guarded, tmp_path: Path
):
    config = config_of(upstream.url, tmp_path)
    async with replica(config) as (_, url), Client(url) as client:
        before = await connections(client)
        assert before["status"] == "none", before
        link = (await connections(client, "link"))["link"]
        status, page = await connect(link)
        assert (status, "is connected" in page) == (200, True)
        assert (await connections(client, "wait", seconds=20))["status"] == "active"
        assert await call(client) == (False, "ana")
    async with replica(config) as (_, url), Client(url) as client:
        assert await call(client) == (False, "ana")


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_client_that_can_show_an_address_is_asked_in_the_call(
    upstream: Guarded, tmp_path: Path, era: Any
):
    asked: list[Elicitation] = []

    async def on_elicit(question: Elicitation) -> ElicitResult:
        asked.append(question)
        await connect(str(question.url))
        return question.accept()

    async with (
        replica(config_of(upstream.url, tmp_path)) as (_, url),
        Client(url, era=era, on_elicit=on_elicit) as client,
    ):
        await connect((await connections(client, "link"))["link"], "ben")
        await connections(client, "wait", seconds=20)
        assert await call(client) == (False, "ben")
        assert (await connections(client, "disconnect"))["status"] == "none"
        assert await call(client) == (False, "ana")
    assert len(asked) == 1


async def test_a_client_that_can_show_nothing_reads_where_to_go(upstream: Guarded, tmp_path: Path):
    async with replica(config_of(upstream.url, tmp_path)) as (_, url), Client(url) as client:
        await connect((await connections(client, "link"))["link"])
        await connections(client, "wait", seconds=20)
        await connections(client, "disconnect")
        failed, text = await call(client)
        assert failed
        await connect(link_in(text))
        assert await call(client) == (False, "ana")
