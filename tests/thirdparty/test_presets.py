"""Presets that need no key are added by their names, started from their environments, listed and called.

`make setup` installs their packages into build/presets, with `toolyard envs install`.
"""

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from tests.cli.running import Toolyard
from tests.faults.yard import ROOT
from tests.programs import needs
from tests.thirdparty.mounting import make_repository, web_page
from tests.thirdparty.sec import loopback_sec
from tests.waiting import PATIENCE
from toolyard.cli.presets.catalogue import preset
from toolyard.cli.presets.recipe import PackageStart

pytestmark = [pytest.mark.timeout(240), needs("chromium")]

CACHE = ROOT / "build" / "presets"
IDENTITY = "Ada Lovelace ada@example.com"
TOOLS = {
    "aws-documentation": {"read_documentation", "search_documentation"},
    "chrome-devtools": {"navigate_page", "take_snapshot"},
    "context7": {"resolve-library-id"},
    "duckduckgo": {"search", "fetch_content"},
    "edgartools": {"edgar_company", "edgar_trends", "edgar_filing"},
    "everything": {"echo", "get-sum"},
    "fetch": {"fetch"},
    "filesystem": {"read_text_file", "list_directory"},
    "git": {"git_log", "git_status"},
    "memory": {"create_entities", "read_graph"},
    "playwright": {"browser_navigate", "browser_snapshot"},
    "sequential-thinking": {"sequentialthinking"},
    "sqlite": {"query_sql"},
    "time": {"get_current_time", "convert_time"},
    "wikipedia": {"search_wikipedia"},
}
"""Some tools of each, which say that the right server was started."""


@dataclass(frozen=True)
class Yard:
    url: str
    folder: Path
    page: str
    askers: set[str]


@pytest.fixture(scope="module")
def yard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yard]:
    folder = tmp_path_factory.mktemp("presets")
    make_repository(folder / "repository")
    (folder / "note.txt").write_text("a note\n")
    with sqlite3.connect(folder / "shop.db") as database:
        database.execute("CREATE TABLE orders AS SELECT 7 AS number")
    with ExitStack() as stack:
        sec, askers = stack.enter_context(loopback_sec())
        page = stack.enter_context(web_page("<html><head><title>The yard</title></head></html>"))
        toolyard = Toolyard(folder)
        variables = {"XDG_CACHE_HOME": str(CACHE), "HOME": str(folder / "home"), "EDGAR_IDENTITY": IDENTITY}
        (folder / "home").mkdir()
        options = {
            "edgartools": ["--env", f"EDGAR_BASE_URL={sec}", "--env", f"EDGAR_DATA_URL={sec}"],
            "filesystem": ["-o", f"folder={folder}"],
            "git": ["-o", f"repository={folder / 'repository'}"],
            "playwright": ["-o", "no_sandbox=true"],  # tests may run as root
            "memory": ["-o", f"file={folder / 'memory.jsonl'}"],
            "sqlite": ["-o", f"file={folder / 'shop.db'}"],
            "time": ["-o", "zone=UTC"],
        }
        for name in TOOLS:
            _check_installed(name)
            added = toolyard("add", name, "--no-check", *options.get(name, []), **variables)
            assert added.status == 0, added.err
        with (folder / "toolyard.toml").open("a") as file:
            file.write("\n[gateway]\nview = 'all'\nlist_wait = 60.0\n")
        served = stack.enter_context(toolyard.serving(**variables))
        yield Yard(served.url, folder, page, askers)


def _check_installed(name: str) -> None:
    start = preset(name).start
    if isinstance(start, PackageStart):
        marker = CACHE / "toolyard" / "envs" / start.package.folder_name / "toolyard.json"
        if not marker.exists():
            pytest.fail(f"{start.package} is not in {CACHE}; hint: `make setup` installs what the tests need")


@pytest.fixture(scope="module")
def listed(yard: Yard) -> set[str]:
    async def tools() -> set[str]:
        async with Client(yard.url) as client, asyncio.timeout(PATIENCE):
            while True:
                names = {tool.name for tool in (await client.list_tools()).tools}
                if all(any(name.startswith(_shown(one, "")) for name in names) for one in TOOLS):
                    return names
                await asyncio.sleep(0.2)  # they are other processes, and start at once on a busy machine

    try:
        return asyncio.run(tools())
    except TimeoutError:
        return set()


def _shown(server: str, tool: str) -> str:
    return f"mcp__{server}__{tool}"


def text_of(yard: Yard, server: str, tool: str, **arguments: Any) -> str:
    async def call() -> str:
        async with Client(yard.url) as client:
            result = await client.call_tool(_shown(server, tool), arguments)
            text = "".join(getattr(block, "text", "") for block in result.content)
            assert not result.is_error, text
            return text

    return asyncio.run(call())


@pytest.mark.parametrize("name", TOOLS)
def test_a_preset_starts_and_lists_its_tools(listed: set[str], name: str):
    assert {_shown(name, tool) for tool in TOOLS[name]} <= listed, sorted(listed)


def test_edgartools_reads_the_figures_of_a_company(yard: Yard, listed: set[str]):
    """The real edgartools, whose older `mcp` is in its own environment, with a SEC on loopback."""
    found = json.loads(text_of(yard, "edgartools", "edgar_trends", identifier="YARD"))
    assert found["success"] is True, found
    revenue = found["data"]["trends"]["revenue"]["values"]
    assert found["data"]["company"] == "Toolyard Test Corp"
    assert [(item["period"], item["value"]) for item in revenue] == [
        ("2025", 225_000_000.0),
        ("2024", 150_000_000.0),
        ("2023", 100_000_000.0),
    ]
    assert yard.askers == {IDENTITY}


CALLS: list[tuple[str, str, dict[str, Any], str]] = [
    ("everything", "get-sum", {"a": 2, "b": 3}, "5"),
    ("filesystem", "read_text_file", {"path": "{folder}/note.txt"}, "a note"),
    ("git", "git_log", {"repo_path": "{folder}/repository"}, "The first commit"),
    (
        "time",
        "convert_time",
        {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"},
        "+9",
    ),
    ("sqlite", "query_sql", {"sql": "SELECT number FROM orders"}, "7"),
    ("playwright", "browser_navigate", {"url": "{page}"}, "The yard"),
    (
        "sequential-thinking",
        "sequentialthinking",
        {"thought": "a", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1},
        "thoughtHistoryLength",
    ),
]


@pytest.mark.parametrize(("server", "tool", "arguments", "expected"), CALLS, ids=[one[0] for one in CALLS])
def test_a_preset_does_its_work(
    yard: Yard, listed: set[str], server: str, tool: str, arguments: dict[str, Any], expected: str
):
    places = {"{folder}": str(yard.folder), "{page}": yard.page}
    filled = dict(arguments)
    for key, value in arguments.items():
        for mark, place in places.items():
            filled[key] = filled[key].replace(mark, place) if isinstance(value, str) else value
    assert expected in text_of(yard, server, tool, **filled)


def test_notes_of_memory_are_in_the_file_that_was_named(yard: Yard, listed: set[str]):
    entity = {"name": "Ada", "entityType": "person", "observations": ["writes programs"]}
    text_of(yard, "memory", "create_entities", entities=[entity])
    assert "writes programs" in (yard.folder / "memory.jsonl").read_text()
