"""Servers from npm and PyPI, all mounted in one gateway, do their work for clients of both eras."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from mcp import Client

from tests.clients.mcp_peer import McpPeer, as_result, connect
from tests.thirdparty.mounting import Mounted, all_gone, children_of, everything_mounted
from tests.waiting import PATIENCE

pytestmark = pytest.mark.timeout(120)

CLIENTS = {"modern": ("auto", "2026-07-28"), "legacy": ("legacy", "2025-11-25")}
WAYS = ["everything", "everything_http", "everything_sse"]
"""One program over stdio, over HTTP as of 2025, and over the HTTP+SSE of 2024."""
EXPECTED = {
    "files": {"read_text_file", "write_file", "list_directory"},
    "memory": {"create_entities", "read_graph"},
    "git": {"git_status", "git_log"},
    "fetch": {"fetch"},
    "time": {"convert_time", "get_current_time"},
    **{way: {"echo", "get-sum", "trigger-long-running-operation"} for way in WAYS},
}


@asynccontextmanager
async def to(mounted: Mounted, era: str) -> AsyncIterator[McpPeer]:
    """A client that can be asked everything."""
    async with connect(mounted.url, *CLIENTS[era]) as peer:
        peer.person.folder = mounted.workspace.as_uri()
        yield peer


@pytest.mark.parametrize("era", CLIENTS)
async def test_every_server_has_its_tools_in_the_list(mounted: Mounted, era: str):
    async with to(mounted, era) as peer:
        listed = set(await peer.tools())
        assert peer.client.protocol_version == CLIENTS[era][1]
    expected = {f"mcp__{server}__{tool}" for server, tools in EXPECTED.items() for tool in tools}
    assert expected <= listed, f"missing: {expected - listed}"


@pytest.mark.parametrize("era", CLIENTS)
async def test_a_file_is_written_and_read(mounted: Mounted, era: str):
    path = mounted.workspace / f"{era}.txt"
    async with to(mounted, era) as peer:
        await in_its_roots(peer, mounted)
        written = await peer.call("mcp__files__write_file", path=str(path), content=f"written in {era}")
        assert not written.is_error, written
        read = await peer.call("mcp__files__read_text_file", path=str(path))
    assert path.read_text() == f"written in {era}"
    assert read.text == f"written in {era}"


@pytest.mark.parametrize("era", CLIENTS)
async def test_a_file_outside_is_refused_by_its_server(mounted: Mounted, era: str):
    async with to(mounted, era) as peer:
        refused = await peer.call("mcp__files__read_text_file", path="/etc/hostname")
    assert refused.is_error
    assert "denied" in refused.text


@pytest.mark.parametrize("era", CLIENTS)
async def test_the_file_server_works_in_the_clients_roots(mounted: Mounted, era: str):
    async with to(mounted, era) as peer:
        await in_its_roots(peer, mounted)


async def in_its_roots(peer: McpPeer, mounted: Mounted) -> None:
    """The server asks for the roots once it has somebody to ask, and answers the first call meanwhile."""
    allowed = ""
    async with asyncio.timeout(PATIENCE):
        while allowed.splitlines()[1:] != [str(mounted.workspace)]:
            allowed = (await peer.call("mcp__files__list_allowed_directories")).text


@pytest.mark.parametrize("era", CLIENTS)
async def test_a_client_without_roots_is_given_the_folder_of_the_config(mounted: Mounted, era: str):
    async with Client(mounted.url, mode=CLIENTS[era][0]) as client:
        allowed = as_result(await client.call_tool("mcp__files__list_allowed_directories", {}))
    assert allowed.text.splitlines()[1:] == [str(mounted.configured)]


@pytest.mark.parametrize("era", CLIENTS)
async def test_the_history_of_a_repository_is_read(mounted: Mounted, era: str):
    async with to(mounted, era) as peer:
        log = await peer.call("mcp__git__git_log", repo_path=str(mounted.workspace / "repository"))
    assert "The first commit" in log.text


@pytest.mark.parametrize("era", CLIENTS)
async def test_a_time_is_converted(mounted: Mounted, era: str):
    arguments = {"source_timezone": "Europe/Lisbon", "time": "16:30", "target_timezone": "Asia/Tokyo"}
    async with to(mounted, era) as peer:
        converted = json.loads((await peer.call("mcp__time__convert_time", **arguments)).text)
    assert converted["target"]["timezone"] == "Asia/Tokyo"


@pytest.mark.parametrize("era", CLIENTS)
async def test_a_page_is_fetched(mounted: Mounted, era: str):
    async with to(mounted, era) as peer:
        # As it is: to simplify a page, the server first installs a program of its own from npm.
        fetched = await peer.call("mcp__fetch__fetch", url=mounted.page, raw=True)
    assert "A page on loopback" in fetched.text


@pytest.mark.parametrize("era", CLIENTS)
async def test_what_is_remembered_is_there_for_everybody(mounted: Mounted, era: str):
    entity = {"name": era, "entityType": "era", "observations": ["was here"]}
    async with to(mounted, era) as peer:
        created = await peer.call("mcp__memory__create_entities", entities=[entity])
        assert not created.is_error, created
        graph = await peer.call("mcp__memory__read_graph")
    assert era in [found["name"] for found in graph.structured["entities"]]


@pytest.mark.parametrize("era", CLIENTS)
@pytest.mark.parametrize("way", WAYS)
async def test_the_everything_server_answers_every_way(mounted: Mounted, era: str, way: str):
    async with to(mounted, era) as peer:
        assert (await peer.call(f"mcp__{way}__echo", message="hello")).text == "Echo: hello"
        assert "42" in (await peer.call(f"mcp__{way}__get-sum", a=40, b=2)).text
        weather = await peer.call(f"mcp__{way}__get-structured-content", location="Chicago")
        assert weather.structured["temperature"] is not None
        image = await peer.client.call_tool(f"mcp__{way}__get-tiny-image", {})
        assert "image" in [block.type for block in image.content]


@pytest.mark.parametrize("era", CLIENTS)
@pytest.mark.parametrize("way", WAYS)
async def test_long_work_tells_how_far_it_is(mounted: Mounted, era: str, way: str):
    async with to(mounted, era) as peer:
        done = await peer.call(f"mcp__{way}__trigger-long-running-operation", duration=0.4, steps=4)
        assert "completed" in done.text
        told = [peer.person.progress.get_nowait()[:2] for _ in range(peer.person.progress.qsize())]
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


@pytest.mark.parametrize("era", CLIENTS)
@pytest.mark.parametrize("way", WAYS)
async def test_a_question_reaches_the_person_and_the_answer_the_server(mounted: Mounted, era: str, way: str):
    async with to(mounted, era) as peer:
        peer.person.answer = {"action": "accept", "content": {"name": "Ada", "check": True}}
        tool = await appears(peer, f"mcp__{way}__trigger-elicitation-request")
        answered = await peer.call(tool)
    assert len(peer.person.asked) == 1
    assert "Ada" in answered.text


@pytest.mark.parametrize("era", CLIENTS)
@pytest.mark.parametrize("way", WAYS)
async def test_a_server_borrows_the_clients_model(mounted: Mounted, era: str, way: str):
    async with to(mounted, era) as peer:
        peer.person.thought = "the capital is Paris"
        tool = await appears(peer, f"mcp__{way}__trigger-sampling-request")
        answered = await peer.call(tool, prompt="Which city?", maxTokens=10)
    assert "the capital is Paris" in answered.text


@pytest.mark.parametrize("era", CLIENTS)
@pytest.mark.parametrize("way", WAYS)
async def test_a_server_learns_the_clients_roots(mounted: Mounted, era: str, way: str):
    async with to(mounted, era) as peer:
        tool = await appears(peer, f"mcp__{way}__get-roots-list")
        assert mounted.workspace.as_uri() in (await peer.call(tool)).text


@pytest.mark.parametrize("era", CLIENTS)
async def test_prompts_and_resources_and_completions_go_through(mounted: Mounted, era: str):
    async with to(mounted, era) as peer:
        assert "mcp__everything__simple-prompt" in await peer.prompts()
        assert "prompt" in await peer.prompt("mcp__everything__simple-prompt")
        assert "Engineering" in await peer.complete("mcp__everything__completable-prompt", "department", "E")
        uris = [uri for uri in await peer.resources() if "architecture.md" in uri]
        assert uris
        assert "Everything" in await peer.read(uris[0])


async def appears(peer: McpPeer, tool: str) -> str:
    """The everything-server has some tools only for clients that can be asked, and tells of them later."""
    server = tool.split("__")[1]
    await peer.call(f"mcp__{server}__echo", message="here I am")
    async with asyncio.timeout(PATIENCE):
        while tool not in await peer.tools():  # noqa: ASYNC110  it is another process
            await asyncio.sleep(0.05)
    return tool


def test_no_program_outlives_the_gateway(tmp_path: Path):
    with everything_mounted(tmp_path) as mounted:
        asyncio.run(_list(mounted))
        programs = children_of(mounted.served.process.pid)
        assert len(programs) >= 6
        assert mounted.served.stop(signal.SIGTERM).status == 0
        assert all_gone(programs)


async def _list(mounted: Mounted) -> None:
    async with to(mounted, "modern") as peer:
        assert len(await peer.tools()) > 40
