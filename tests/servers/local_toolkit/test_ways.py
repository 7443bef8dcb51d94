"""The server in every way it is run: over HTTP, over stdio, behind the gateway, and by the Agent SDK."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.app.yard import yard
from tests.cli.running import Toolyard
from tests.clients.claude_peer import claude_code
from tests.servers.local_toolkit.talking import ERAS, MODULE, talking
from toolyard.config import InProcess, ServerConfig
from toolyard.kit import Identity, Principal
from toolyard.kit.agent_sdk import create_sdk_server
from toolyard.kit.loader import load

NAMES = [
    "write_local_file",
    "read_local_file",
    "list_directory",
    "compress_files",
    "save_corpus",
    "read_research_files",
    "finalize_research",
]


@pytest.mark.parametrize("locale", ["en", "pt"])
@pytest.mark.parametrize("era", ERAS)
async def test_every_tool_through_the_official_client(era: str, locale: str, tmp_path: Path):
    async with talking(era, tmp_path, locale=locale) as talk:
        listed = {tool.name for tool in (await talk.client.list_tools()).tools}
        assert listed >= set(NAMES)
        await talk.call("write_local_file", path="s/search_results/crawl_1.md", content="one two")
        await talk.call("write_local_file", path="s/search_results/a.json", content="[]")
        replies = [
            await talk.call("read_local_file", path="s/search_results/crawl_1.md"),
            await talk.call("list_directory", path="s"),
            await talk.call(
                "compress_files", files=["s/search_results/crawl_1.md"], output_archive="s/all.zip"
            ),
            await talk.call("save_corpus", articles=[], workspace_path="s"),
            await talk.call("read_research_files", file_paths=["s/search_results/crawl_1.md"]),
            await talk.call("finalize_research", session_dir="s"),
        ]
        assert [reply.failed for reply in replies] == [False] * 6
        assert all(reply.structured for reply in replies)


def mounted(folder: Path, **options: Any) -> ServerConfig:
    where = InProcess(module=MODULE, options={"workspace": str(folder), **options})
    return ServerConfig(name="local_toolkit", where=where)


async def test_behind_the_gateway_by_the_seeds_names_and_with_files_for_each_caller(tmp_path: Path):
    def identify(headers: Any) -> Identity:
        told = {bytes(name).decode(): bytes(value).decode() for name, value in headers}
        return Identity(Principal(tenant="acme", subject=told.get("x-user", "")), told.get("x-thread", ""))

    async with yard(mounted(tmp_path), identify=identify) as gateway:
        assert set(await gateway.tools(headers={"x-user": "ana"})) >= {
            f"mcp__local_toolkit__{name}" for name in NAMES
        }
        ana, rui = {"x-user": "ana", "x-thread": "1"}, {"x-user": "rui", "x-thread": "1"}
        wrote = await gateway.says(
            "mcp__local_toolkit__write_local_file", {"path": "a.txt", "content": "of ana"}, headers=ana
        )
        assert wrote == "Successfully wrote 6 chars to a.txt"
        read = {"path": "a.txt"}
        assert await gateway.says("mcp__local_toolkit__read_local_file", read, headers=ana) == "of ana"
        assert await gateway.says("mcp__local_toolkit__read_local_file", read, headers=rui) == (
            "Error: There is no 'a.txt' in the workspace."
        )
        templates = (await gateway.modern("resources/templates/list", headers=ana)).result[
            "resourceTemplates"
        ]
        assert {one["uriTemplate"] for one in templates} >= {"workspace:///{+path}"}
        found = (await gateway.modern("resources/read", {"uri": "workspace:///a.txt"}, headers=ana)).result
        assert found["contents"][0]["text"] == "of ana"
        of_ana = await gateway.listen(headers=ana, resourceSubscriptions=["workspace:///a.txt"])
        of_rui = await gateway.listen(headers=rui, resourceSubscriptions=["workspace:///a.txt"])
        for name, who in (("ana", ana), ("rui", rui)):
            content = {"path": "a.txt", "content": f"by {name}"}
            await gateway.says("mcp__local_toolkit__write_local_file", content, headers=who)
            line = of_ana if name == "ana" else of_rui
            told = await line.next_message()
            assert (told["method"], told["params"]["uri"]) == (
                "notifications/resources/updated",
                "workspace:///a.txt",
            )


@pytest.mark.parametrize("locale", ["en", "pt"])
def test_over_stdio_the_workspace_is_the_folder_itself(locale: str, toolyard: Toolyard, tmp_path: Path):
    work = tmp_path / "work"
    settings = {"TOOLYARD_LOCAL_TOOLKIT_WORKSPACE": str(work), "TOOLYARD_LOCAL_TOOLKIT_LOCALE": locale}
    target = ("--target", "local_toolkit")
    outcome = toolyard("call", *target, "write_local_file", "path=a/b.md", "content=hi", **settings)
    assert outcome.status == 0, outcome.err
    said = {"en": "Successfully wrote 2 chars to a/b.md", "pt": "2 caracteres gravados em a/b.md"}
    assert said[locale] in outcome.out
    assert (work / "a" / "b.md").read_text() == "hi"
    outcome = toolyard("call", *target, "read_local_file", "path=../state", **settings)
    assert outcome.status != 0
    outcome = toolyard("read", *target, "workspace:///a/b.md", **settings)
    assert "hi" in outcome.out


async def test_it_is_handed_to_an_application_of_the_agent_sdk(tmp_path: Path):
    server = load(MODULE, options={"workspace": str(tmp_path / "work")})

    async def at_once() -> None:
        """Nothing has to begin first."""

    async with claude_code(tmp_path, create_sdk_server(server), "2025-11-25", at_once) as peer:
        wrote = await peer.call("write_local_file", path="a.md", content="from the SDK")
        assert (wrote.structured or {})["chars"] == 12
        saved = await peer.call(
            "save_corpus", articles=[{"url": "u", "content": "abc", "status": "success"}], workspace_path="."
        )
        assert json.loads(saved.text)["total_content_bytes"] == 3
    await server.close()
    assert (tmp_path / "work" / "a.md").read_text() == "from the SDK"
