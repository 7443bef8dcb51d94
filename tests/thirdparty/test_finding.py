"""What people ask on an ordinary day finds its tool among the six servers that most have mounted.

The queries were written down before the ranking was worked on. What they find is not looked at here beyond
the tool that is wanted, so that another ranking is free to do the rest differently.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from mcp import Client

from tests.cli.running import Toolyard
from tests.faults.yard import toml
from tests.thirdparty.mounting import npm, pypi
from tests.waiting import PATIENCE

pytestmark = pytest.mark.timeout(120)

REMEMBERS = {"create_entities", "add_observations", "create_relations"}
RECALLS = {"search_nodes", "open_nodes", "read_graph"}
LISTS = {"list_directory", "list_directory_with_sizes", "directory_tree"}
CHANGES = {"git_diff_unstaged", "git_diff", "git_status", "git_diff_staged"}

RIGHT: list[tuple[str, set[str], int]] = [
    ("time in Tokyo", {"get_current_time"}, 1),
    ("recent commits", {"git_log"}, 1),
    ("read a text file", {"read_text_file"}, 1),
    ("what time is it in New York", {"get_current_time"}, 1),
    ("current time in Lisbon", {"get_current_time"}, 1),
    ("que horas são em São Paulo", {"get_current_time"}, 1),
    ("convert 9:30 from Berlin to Los Angeles time", {"convert_time"}, 1),
    ("who committed last", {"git_log"}, 1),
    ("últimos commits", {"git_log"}, 1),
    ("commit my changes with a message", {"git_commit"}, 1),
    ("show me the contents of notes.txt", {"read_text_file"}, 1),
    ("ler um arquivo de texto", {"read_text_file"}, 1),
    ("what is in my Downloads folder", LISTS, 1),
    ("listar os arquivos da pasta", {"list_directory", "list_directory_with_sizes"}, 1),
    ("how big are the files in this folder", {"list_directory_with_sizes", "get_file_info"}, 1),
    ("rename report.docx", {"move_file"}, 1),
    ("find all python files", {"search_files"}, 1),
    ("when was this file last modified", {"get_file_info"}, 1),
    ("what changed since my last commit", CHANGES, 1),
    ("what branches are there", {"git_branch"}, 1),
    ("start a new branch", {"git_create_branch"}, 1),
    ("switch to main", {"git_checkout"}, 1),
    ("stage the file", {"git_add"}, 1),
    ("unstage everything", {"git_reset"}, 1),
    ("differences between two branches", {"git_diff"}, 1),
    ("abrir uma página da internet", {"fetch"}, 1),
    ("compress a file", {"gzip-file-as-resource"}, 1),
    ("environment variables", {"get-env"}, 1),
    ("remember that Alice works at Acme", REMEMBERS, 3),
    ("remember that my birthday is in May", REMEMBERS, 3),
    ("lembra que a Ana trabalha na Acme", REMEMBERS, 3),
    ("what do you know about Alice", RECALLS, 3),
    ("forget what I told you about Bob", {"delete_entities", "delete_observations", "delete_relations"}, 3),
    ("open the readme", {"read_text_file"}, 3),
    ("look at this photo on disk", {"read_media_file"}, 3),
    ("compare three config files", {"read_multiple_files"}, 3),
    ("change one line in config.json", {"edit_file"}, 3),
]
"""What is asked, the tools that serve, and among how many of the first one of them has to be."""

FURTHER_DOWN: list[tuple[str, set[str], int]] = [
    ("what is 15:00 London time in Sydney", {"convert_time"}, 10),
    ("latest commits on this branch", {"git_log"}, 10),
    ("commit history", {"git_log"}, 10),
    ("save this text to a file", {"write_file"}, 10),
    ("make a new folder", {"create_directory"}, 10),
    ("show what is in commit abc123", {"git_show"}, 10),
    ("read a web page", {"fetch"}, 10),
    ("download the content of https://example.com", {"fetch"}, 10),
    ("add 2 and 3", {"get-sum"}, 10),
    ("show everything you remember", RECALLS, 10),
    ("which folders may you use", {"list_allowed_directories"}, 10),
]
"""Asked in words that are not the tool's: it is not among the first, and not lost either.
Not found at all, of those written down: "which files have I modified" (git_status)."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[str]]]:
    """By query the first ten tools, without their servers."""
    folder = tmp_path_factory.mktemp("six")
    servers: dict[str, dict[str, Any]] = {
        "filesystem": npm("server-filesystem/dist/index.js", str(folder)),
        "memory": npm("server-memory/dist/index.js", env={"MEMORY_FILE_PATH": str(folder / "memory.json")}),
        "everything": npm("server-everything/dist/index.js", "stdio"),
        "git": pypi("mcp-server-git"),
        "fetch": pypi("mcp-server-fetch"),
        "time": pypi("mcp-server-time", "--local-timezone=UTC"),
    }
    toolyard = Toolyard(folder)
    config = toolyard.write("toolyard.toml", toml(servers, view="search", list_wait=15.0))
    with toolyard.serving("--config", str(config)) as served:
        yield asyncio.run(_searched(served.url, [query for query, *_ in (*RIGHT, *FURTHER_DOWN)]))


async def _searched(url: str, queries: list[str]) -> dict[str, list[str]]:
    async with Client(url) as client:
        await _all_there(client)
        found: dict[str, list[str]] = {}
        for at in range(0, len(queries), 20):
            for one in (await _search(client, queries[at : at + 20]))["results"]:
                names = [tool["tool"].rpartition("__")[2] for tool in one["results"]]
                found[one["query"]["use_case"]] = names
        return found


async def _all_there(client: Client) -> None:
    async with asyncio.timeout(PATIENCE):
        while (await _search(client, ["anything"]))["missing"]:  # noqa: ASYNC110  they are other processes
            await asyncio.sleep(0.1)


async def _search(client: Client, queries: list[str]) -> dict[str, Any]:
    asked = [{"use_case": query, "limit": 10} for query in queries]
    answer = (await client.call_tool("search_tools", {"queries": asked})).meta
    assert answer is not None
    return answer["toolyard/search"]


EVERY = [*RIGHT, *FURTHER_DOWN]


@pytest.mark.parametrize(("query", "wanted", "among"), EVERY, ids=[query for query, *_ in EVERY])
def test_an_everyday_request_finds_its_tool(
    found: dict[str, list[str]], query: str, wanted: set[str], among: int
):
    assert wanted & set(found[query][:among]), found[query]
