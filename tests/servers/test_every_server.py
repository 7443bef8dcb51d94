"""What holds for every bundled server: how it introduces its tools, where it runs, and what it needs."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.app.yard import yard
from tests.cli.running import Toolyard
from tests.clients.claude_peer import claude_code
from toolyard import Client
from toolyard.config import InProcess, ServerConfig
from toolyard.config.servers import BUNDLED, module_of
from toolyard.kit import Server
from toolyard.kit.agent_sdk import create_sdk_server
from toolyard.kit.loader import load

NAMES = [name for name in BUNDLED if name not in ("demo", "rest")]
"""`rest` has the tools of the table that it is given, and none without one."""
HINTS = {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
COUNTS = {
    "sql": 1,
    "schema": 2,
    "memory": 6,
    "sessions": 3,
    "render": 3,
    "browser": 10,
    "local_toolkit": 11,
    "workbench": 8,
    "tiflux": 114,
    "youtube": 6,
    "zai_vision": 8,
    "video_audio": 27,
}
"""Tools of the seed that each has at least; the browser's two others are recipes of an example."""
RESULT_TYPES: dict[str, list[str]] = {
    "sql": ["Answer"],
    "schema": [
        "Described",
        "Diagram",
        "Field",
        "IndexOf",
        "Line",
        "QueryHint",
        "Relationship",
        "TableLine",
        "Values",
    ],
    "memory": [
        "Cleared",
        "Deleted",
        "Found",
        "History",
        "Hit",
        "Item",
        "Kept",
        "Listed",
        "Memories",
        "Restored",
        "Saved",
        "Similar",
        "Updated",
        "Viewed",
    ],
    "sessions": [
        "AlikeTurn",
        "AlikeTurns",
        "FoundSession",
        "FoundSessions",
        "RecentSession",
        "RecentSessions",
    ],
    "render": ["Entry", "Errors", "Logs", "Services", "Status"],
    "browser": [
        "Closed",
        "Download",
        "Evaluated",
        "FrameInfo",
        "Frames",
        "Navigated",
        "Notice",
        "PageInfo",
        "Reading",
        "Shot",
        "View",
    ],
    "local_toolkit": [
        "Archive",
        "ArchivedFile",
        "ComposioAttachment",
        "Corpus",
        "Crawl",
        "CrawlProblem",
        "Directory",
        "DirectoryEntry",
        "FileRead",
        "ResearchBatch",
        "ResearchFile",
        "ResearchProblem",
        "ResearchSource",
        "ResearchSummary",
        "SavedPage",
        "WorkbenchDownload",
        "WorkbenchUpload",
        "Written",
    ],
    "workbench": [
        "BashData",
        "BashReply",
        "CellData",
        "CellReply",
        "ExecutedData",
        "ExecutedReply",
        "FileInfo",
        "FileMade",
        "ReadData",
        "ReadReply",
        "SandboxData",
        "SandboxReply",
        "SessionInfo",
        "TableShown",
        "TerminalData",
        "TerminalReply",
        "WrittenData",
        "WrittenReply",
    ],
    "tiflux": [],
    "youtube": [
        "Chapter",
        "DownloadedMedia",
        "DownloadedPlaylist",
        "DownloadedSubtitles",
        "Entry",
        "MediaFile",
        "MediaFormat",
        "MediaMetadata",
        "PlaylistItem",
        "SubtitleTrack",
    ],
    "zai_vision": ["SeenImage", "VisionAnswer"],
    "video_audio": ["Health", "Media", "Segment", "Stream"],
}
"""Names that clients see in the output schemas. Renaming a class in Python must not change them."""
EXTRAS = {
    "sql": ("sql", "sqlglot"),
    "schema": ("sql", "sqlglot"),
    "browser": ("browser", "playwright"),
    "youtube": ("youtube", "yt_dlp"),
    "zai_vision": ("vision", "PIL"),
}
HANDS: list[tuple[str, str, dict[str, Any], str]] = [
    ("local_toolkit", "write_local_file", {"path": "a.md", "content": "tea"}, '"chars":3'),
    ("workbench", "REMOTE_WORKBENCH", {"code_to_execute": "print(6 * 7)"}, "42"),
    ("video_audio", "health_check", {}, "ffmpeg"),
    ("youtube", "get_metadata", {"url": "file:///etc/passwd"}, "file"),
    ("zai_vision", "analyze_image", {"image_source": "tea.png", "prompt": "What is it?"}, "Z_AI_API_KEY"),
]
"""A server, a call of one of its tools, and what its text says."""
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of these tests is kept in anybody's home."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def made(name: str, **options: Any) -> Server:
    return load(module_of(name), options=options)


async def tools_of(server: Server) -> list[dict[str, Any]]:
    try:
        async with Client(server) as client:
            return await client.list_all("tools/list")
    finally:
        await server.close()


@pytest.mark.parametrize("name", NAMES)
async def test_every_tool_says_what_it_does_what_it_returns_and_how_far_it_goes(name: str):
    tools = await tools_of(made(name))
    assert len(tools) >= COUNTS[name]
    for tool in tools:
        assert tool["title"], tool["name"]
        assert len(tool["description"]) > 20, tool["name"]
        assert set(tool["annotations"]) >= HINTS, tool["name"]
        assert tool["outputSchema"]["type"] == "object", tool["name"]
        for parameter, schema in tool["inputSchema"].get("properties", {}).items():
            assert schema.get("description"), f"{tool['name']}.{parameter}"


@pytest.mark.parametrize("name", NAMES)
async def test_both_languages_have_the_same_tools_in_other_words(name: str):
    english, portuguese = [await tools_of(made(name, locale=locale)) for locale in ("en", "pt")]
    assert len(english) == len(portuguese)
    for ours, theirs in zip(english, portuguese, strict=True):
        assert ours["description"] != theirs["description"], ours["name"]
        assert ours["title"] != theirs["title"], ours["name"]
        assert ours["annotations"] == theirs["annotations"]
    other = made(name, locale="en")
    assert {tool["name"] for tool in portuguese} <= set(other.tools)
    await other.close()


@pytest.mark.parametrize("locale", ["en", "pt"])
@pytest.mark.parametrize("name", NAMES)
async def test_the_types_in_the_output_schemas_keep_their_names(name: str, locale: str):
    schemas = [tool["outputSchema"] for tool in await tools_of(made(name, locale=locale))]
    titles = {schema["title"] for schema in schemas if "title" in schema}
    definitions = {key: part for schema in schemas for key, part in schema.get("$defs", {}).items()}
    assert sorted(titles | set(definitions)) == RESULT_TYPES[name]
    assert {part["title"] for part in definitions.values()} == set(definitions)


@pytest.mark.parametrize("name", NAMES)
async def test_each_is_mounted_in_a_gateway_by_its_module(name: str):
    async with yard(ServerConfig(name=name, where=InProcess(module=module_of(name)))) as gateway:
        names = await gateway.tools()
    assert len(names) >= COUNTS[name]
    assert all(shown.startswith(f"mcp__{name}__") for shown in names)


async def test_one_is_handed_to_an_application_of_the_agent_sdk(tmp_path: Path):
    server = made("memory")

    async def at_once() -> None:
        """Nothing has to begin first."""

    async with claude_code(tmp_path, create_sdk_server(server), "2025-11-25", at_once) as peer:
        saved = await peer.call("save_memory", path="/memories/tea.md", content="Ana drinks green tea.")
        assert saved.structured is not None
        assert saved.structured["path"] == "/memories/tea.md"
        assert "green tea" in (await peer.call("view_memories", path="/memories/tea.md")).text
    await server.close()


@pytest.mark.parametrize(("name", "tool", "arguments", "said"), HANDS, ids=[name for name, *_ in HANDS])
async def test_the_hands_work_for_an_application_of_the_agent_sdk(
    name: str, tool: str, arguments: dict[str, Any], said: str, tmp_path: Path
):
    server = made(name, workspace=str(tmp_path / "workspace"))

    async def at_once() -> None:
        """Nothing has to begin first."""

    async with claude_code(tmp_path, create_sdk_server(server), "2025-11-25", at_once) as peer:
        assert said in (await peer.call(tool, **arguments)).text
    await server.close()


@pytest.mark.parametrize("name", NAMES)
def test_each_runs_alone_with_nothing_set(name: str, toolyard: Toolyard):
    process = toolyard.start("run", name)
    assert process.stdin is not None
    assert process.stdout is not None
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}
    process.stdin.write(json.dumps(request) + "\n")
    process.stdin.flush()
    answer = json.loads(process.stdout.readline())
    assert len(answer["result"]["tools"]) >= COUNTS[name]
    process.stdin.close()
    assert process.wait(20) == 0


@pytest.mark.parametrize("name", NAMES)
def test_a_package_that_is_not_installed_is_named_with_its_extra(name: str):
    """And those that need none start without any of them."""
    hidden = (
        "sqlglot",
        "duckdb",
        "yaml",
        "PIL",
        "psycopg",
        "pymysql",
        "playwright",
        "cryptography",
        "yt_dlp",
    )
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({hidden!r})); from toolyard.cli import main; "
        f"main(['run', {name!r}])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input="", capture_output=True, text=True, timeout=60, check=False
    )
    if name in EXTRAS:
        extra, package = EXTRAS[name]
        assert done.returncode == 2
        assert package in done.stderr
        assert f"extras add {extra}" in done.stderr
    else:
        assert (done.returncode, done.stderr) == (0, "")


def test_a_tool_is_called_from_the_command_line_by_either_name(toolyard: Toolyard):
    for tool in ("query_sql", "consultar_sql"):
        outcome = toolyard("call", tool, "--target", "sql", "sql=SELECT 41 + 1 AS answer")
        assert (outcome.status, "| 42 |" in outcome.out) == (0, True), outcome


@pytest.mark.parametrize("name", NAMES)
def test_a_setting_that_does_not_exist_is_named_with_those_that_do(name: str, toolyard: Toolyard):
    outcome = toolyard("run", name, "-o", "colour=red")
    assert outcome.status == 2
    assert "unknown setting 'colour'; there are: " in outcome.err
    assert "locale" in outcome.err
